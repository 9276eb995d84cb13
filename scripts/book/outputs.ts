/**
 * `npm run book`: runs the chapters of the book and writes their output to learn/output/NN-name.txt, and their output
 * after "Break it" to learn/output/NN-name.broken.txt. With `--check`, as in CI, it writes nothing and exits with 1 if
 * a chapter prints anything else. Numbers choose chapters: `npm run book -- --check 3 5`.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { packageFolder } from "../packageFolder.ts";
import { broken } from "./chapter.ts";
import { chapterNames, readChapter } from "./chapters.ts";
import { comparable, run } from "./program.ts";

const args = process.argv.slice(2);
const isCheck = args.includes("--check");
const wanted = args.filter((arg) => arg !== "--check").map(Number);
if (wanted.some((number) => !Number.isInteger(number))) {
  throw new Error(`book: expected --check and numbers of chapters, got ${args.join(" ")}`);
}
const folder = join(packageFolder, "learn");
mkdirSync(join(folder, "output"), { recursive: true });
const wrong: string[] = [];

/** Writes an output or, with `--check`, compares it with the file. */
function keep(name: string, text: string): void {
  const target = join(folder, "output", name);
  if (!isCheck) return writeFileSync(target, text);
  const kept = readFileSync(target, "utf8");
  if (comparable(text) === comparable(kept)) return;
  wrong.push(name);
  console.error(`--- learn/output/${name}, the file:\n${kept}--- printed:\n${text}`);
}

for (const name of chapterNames()) {
  const chapter = readChapter(name);
  const { path, number } = chapter;
  if (wanted.length > 0 && !wanted.includes(number)) continue;
  const start = performance.now();
  const [whole, changed] = await Promise.all([run(chapter.source, path), run(broken(chapter), path)]);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  if (whole.failed) throw new Error(`${path}: failed, after printing\n${whole.text}`);
  if (comparable(changed.text) === comparable(whole.text)) throw new Error(`${path}: "Break it" changes nothing`);
  keep(`${name}.txt`, whole.text);
  keep(`${name}.broken.txt`, changed.text);
  console.log(`${path}: ${seconds} s`);
}
if (wrong.length > 0)
  throw new Error(`book: ${wrong.join(", ")}: the output differs from the file; npm run book writes it anew`);
