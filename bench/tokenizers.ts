/**
 * Reader of `tokenizer.json` beside `@huggingface/tokenizers`, with the results of Python's `tokenizers` as expected
 * ones. A table in Markdown has, for each kind of file and each reader, the number of texts with other ids or another
 * decoded text, and the time for all texts, one by one and joined. Below it is the size of both, bundled and gzipped.
 *
 *     npx tsx bench/tokenizers.ts [FILE]
 *
 * FILE has the expected results, by default tests/fixtures/tokenizers/families.json. A file with more texts:
 *
 *     pip install tokenizers==0.23.2
 *     python3 tests/fixtures/tokenizers/make_families.py /tmp/fuzz.json 3000
 *
 * If Python has the library, the table has its time (bench/peers/tokenizers_bench.py). `npm run bench:peers` installs
 * the package; without it the table has our reader alone.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { tokenizerFromJSON } from "../pretrained/tokenizers/json.ts";
import { PYTHON } from "./process.ts";
import { median } from "./statistics.ts";

const ROUNDS = 5;
const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const FILE = process.argv[2] ?? here("../tests/fixtures/tokenizers/families.json");

/** A file of make_families.py. A missing field of a case equals the field before it, a missing `decoded` the text. */
interface Fixture {
  readonly source: string;
  readonly texts: readonly string[];
  readonly sets: readonly {
    readonly name: string;
    readonly tokenizer: object;
    readonly cases: readonly { readonly ids: number[]; readonly decoded?: string; readonly skipped?: string }[];
    readonly drawn: readonly (readonly [ids: number[], text: string])[];
  }[];
}

interface Reader {
  readonly name: string;
  /** Ids with special tokens and template, as in the Python library. */
  encode(text: string): readonly number[];
  decode(ids: readonly number[], specials: "name" | "skip"): string;
}

const ours = (json: object): Reader => {
  const tokenizer = tokenizerFromJSON(json);
  return {
    name: "worldgrad",
    encode: (text) => tokenizer.encode(text, { specials: "tokens", addSpecialTokens: true }),
    decode: (ids, specials) => tokenizer.decode(ids, { specials }),
  };
};

/** Module of the package; a variable, because the package may not be installed and then has no types. */
const PACKAGE = "./peers/tokenizers.js";
interface Package {
  readonly Tokenizer: new (
    json: object,
    config: object,
  ) => {
    encode(text: string): { readonly ids: number[] };
    decode(ids: readonly number[], options: { readonly skip_special_tokens: boolean }): string;
  };
}
const found = (await import(PACKAGE).catch(() => undefined)) as Package | undefined;
const theirs = ({ Tokenizer }: Package, json: object): Reader => {
  // Python's library cleans nothing up unless a configuration beside the file says so.
  const tokenizer = new Tokenizer(json, { clean_up_tokenization_spaces: false });
  return {
    name: "@huggingface/tokenizers",
    encode: (text) => tokenizer.encode(text).ids,
    decode: (ids, specials) => tokenizer.decode(ids, { skip_special_tokens: specials === "skip" }),
  };
};

/** Result of an encoding or decoding; for a reader that throws its error, which differs from any result. */
function resultOf<T>(compute: () => T): T | string {
  try {
    return compute();
  } catch (error) {
    return `error: ${String(error)}`;
  }
}
const differing = <T>(cases: readonly T[], got: (of: T) => unknown, expected: (of: T) => unknown): number =>
  cases.filter((of) => JSON.stringify(resultOf(() => got(of))) !== JSON.stringify(expected(of))).length;

/** All texts joined: a single call, so that the cost of calls does not count. */
const joined = (texts: readonly string[]): readonly string[] => [texts.join("\n")];

/** Processor milliseconds for all texts: the median of some rounds. */
function timeOf(reader: Reader, texts: readonly string[]): number {
  const rounds = Array.from({ length: ROUNDS + 1 }, () => {
    const before = process.cpuUsage();
    for (const text of texts) resultOf(() => reader.encode(text));
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  });
  return median(rounds.slice(1)); // the first one compiles
}

/** Times of Python's library by kind, if it is installed: one by one, and joined. */
function pythonTimes(): Readonly<Record<string, readonly number[]>> | string {
  try {
    const printed = execFileSync(PYTHON, [here("peers/tokenizers_bench.py"), FILE, String(ROUNDS)], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
    return JSON.parse(printed) as Record<string, number[]>;
  } catch (error) {
    const { stderr = String(error) } = error as { readonly stderr?: string };
    return stderr.trim().split("\n").at(-1)!;
  }
}

/** KB of a module with its imports, minified and gzipped. */
async function sizeOf(entry: string): Promise<number> {
  const { outputFiles } = await build({
    entryPoints: [here(entry)],
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
    logLevel: "silent",
  });
  return gzipSync(outputFiles[0]!.contents, { level: 9 }).length / 1000;
}

const { source, texts, sets } = JSON.parse(readFileSync(FILE, "utf8")) as Fixture;
const python = pythonTimes();
console.log(`${texts.length} texts, ${source}\n`);
console.log("| kind | reader | other ids | other text | without specials | other text of drawn ids | ms | as one |");
console.log("| --- | --- | --: | --: | --: | --: | --: | --: |");
const shown = (times: readonly number[]): string => times.map((ms) => ms.toFixed(1)).join(" | ");
for (const { name, tokenizer, cases, drawn } of sets) {
  const readers = [ours(tokenizer), ...(found === undefined ? [] : [theirs(found, tokenizer)])];
  const all = cases.map((of, i) => {
    const text = texts[i]!;
    const { decoded = text } = of;
    return { text, ids: of.ids, decoded, skipped: of.skipped ?? decoded };
  });
  for (const reader of readers) {
    const counts = [
      differing(
        all,
        ({ text }) => reader.encode(text),
        ({ ids }) => ids,
      ),
      differing(
        all,
        ({ ids }) => reader.decode(ids, "name"),
        ({ decoded }) => decoded,
      ),
      differing(
        all,
        ({ ids }) => reader.decode(ids, "skip"),
        ({ skipped }) => skipped,
      ),
      differing(
        drawn,
        ([ids]) => reader.decode(ids, "name"),
        ([, text]) => text,
      ),
    ];
    const times = [timeOf(reader, texts), timeOf(reader, joined(texts))];
    console.log(`| ${[name, reader.name, ...counts].join(" | ")} | ${shown(times)} |`);
  }
  if (typeof python === "object") console.log(`| ${name} | Python | | | | | ${shown(python[name]!)} |`);
}
console.log(`\nOurs, gzipped: ${(await sizeOf("../nn/tokenizer.ts")).toFixed(1)} KB.`);
if (found === undefined) console.log("@huggingface/tokenizers is not installed: npm run bench:peers");
else console.log(`@huggingface/tokenizers, gzipped: ${(await sizeOf(PACKAGE)).toFixed(1)} KB.`);
if (typeof python === "string") console.log(`Python's library was not timed: ${python}`);
