/** The command line of `npm run bench`. Every value is checked; a mistake is an error of one line. */
import { parse } from "../run/node/flags.ts";
import { UsageError, wholeNumber } from "../run/usage.ts";
import { isShape } from "./cases/matmul.ts";
import { CONTENDERS } from "./contenders/index.ts";

export interface BenchOptions {
  /** Prefixes of names of cases, and shapes of matrix products. */
  readonly words: readonly string[];
  readonly contenders: readonly string[] | undefined;
  readonly rounds: number;
  /** Longest warm-up of a contender in milliseconds. */
  readonly warmMs: number;
  readonly threads: number;
  /** Seconds that an answer of a contender may take: a first call may compile for minutes on a software adapter. */
  readonly patience: number;
  readonly json: boolean;
  readonly mode: "run" | "check" | "report" | "list";
  /** File to which results are appended; undefined for none. */
  readonly results: string | undefined;
}

export const HELP: string = `worldgrad's benchmark: all contenders do the same work in alternating rounds,
and their results are checked before they are timed

  npm run bench                          every case
  npm run bench -- step matmul/NN        cases whose names begin so
  npm run bench -- matmul NT:64x128x512  a matrix product of your own (layout:MxKxN; 16*NT:… for 16 at once)
  npm run bench:peers                    installs the engines to compare with (jax-js, tfjs) in bench/peers

  --contenders A,B  contenders, by name or prefix of a name                    (default: all that this machine has)
                    ${CONTENDERS.map(({ name }) => name).join(" ")}
  --rounds N        rounds; a figure is their median                           (default 7)
  --warm MS         longest warm-up of a contender, in milliseconds            (default 2500)
  --threads N       threads of worldgrad-threads                               (default: one per processor, at most 8)
  --patience S      seconds until a contender that does not answer is left out (default 300)
  --json            one JSON object a case instead of tables
  --results FILE    where results are appended; "none" for nowhere             (default bench/results.jsonl)
  --list            the names of all cases
  --check           measures what the project promises; exit code 1 if a figure falls short
                    (--check 3 5: only lines 3 and 5 of the promises)
  --report          writes docs/performance.md and its plots from the results
  --help            this text
`;

const FLAGS = {
  contenders: { type: "string" },
  rounds: { type: "string" },
  warm: { type: "string" },
  threads: { type: "string" },
  patience: { type: "string" },
  json: { type: "boolean" },
  results: { type: "string" },
  list: { type: "boolean" },
  check: { type: "boolean" },
  report: { type: "boolean" },
  help: { type: "boolean" },
} as const;

/** @param processors the number that this machine has @throws UsageError with one line that says what was expected */
export function parseBench(args: readonly string[], processors: number): BenchOptions | "help" {
  const { words, flags } = separate(args);
  const values = parse(flags, FLAGS);
  if (values["help"]) return "help";
  const text = (name: keyof typeof FLAGS): string | undefined => values[name] as string | undefined;
  const modes = (["check", "report", "list"] as const).filter((name) => values[name] === true);
  if (modes.length > 1) throw new UsageError(`--${modes[0]} and --${modes[1]} exclude each other`);
  const contenders = text("contenders")?.split(",");
  for (const name of contenders ?? []) {
    if (name === "" || !CONTENDERS.some((c) => c.name.startsWith(name))) {
      throw new UsageError(
        `--contenders: expected names out of ${CONTENDERS.map((c) => c.name).join(", ")}, got "${name}"`,
      );
    }
  }
  const results = text("results") ?? "bench/results.jsonl";
  return {
    words,
    contenders,
    rounds: wholeNumber("rounds", text("rounds") ?? "7", 1),
    warmMs: wholeNumber("warm", text("warm") ?? "2500", 0),
    threads: wholeNumber("threads", text("threads") ?? String(Math.min(processors, 8)), 1),
    patience: wholeNumber("patience", text("patience") ?? "300", 1),
    json: values["json"] === true,
    mode: modes[0] ?? "run",
    results: results === "none" ? undefined : results,
  };
}

/** Splits words, which may stand anywhere, from flags with their values. */
function separate(args: readonly string[]): { words: string[]; flags: string[] } {
  const words: string[] = [];
  const flags: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!;
    if (!arg.startsWith("-")) {
      words.push(arg);
      continue;
    }
    flags.push(arg);
    const flag = FLAGS[arg.slice(2) as keyof typeof FLAGS] as { type: string } | undefined;
    if (flag?.type === "string" && i + 1 < args.length) flags.push(args[++i]!);
  }
  return { words, flags };
}

/**
 * Splits shapes of matrix products from names of cases; beside a shape, the word "matmul" does not select all products.
 */
export function splitWords(words: readonly string[]): { shapes: string[]; names: string[] } {
  const shapes = words.filter(isShape);
  const names = words.filter((word) => !isShape(word) && !(shapes.length > 0 && word === "matmul"));
  return { shapes, names };
}
