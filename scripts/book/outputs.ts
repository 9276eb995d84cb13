/**
 * `npx tsx scripts/book/outputs.ts [NN …]`: runs the chapters with these numbers (all unless said) and writes what they
 * print to learn/output/NN-name.txt, and what they print after "Break it" to learn/output/NN-name.broken.txt.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { broken, parseChapter } from "./chapter.ts";
import { run } from "./program.ts";

const wanted = process.argv.slice(2).map(Number);
const names = readdirSync("learn").filter((name) => /^\d\d-.*\.ts$/.test(name) && !name.startsWith("00-"));
mkdirSync("learn/output", { recursive: true });
for (const name of names) {
  const path = `learn/${name}`;
  if (wanted.length > 0 && !wanted.includes(Number(name.slice(0, 2)))) continue;
  const chapter = parseChapter(readFileSync(path, "utf8"), path);
  const target = `learn/output/${name.replace(/\.ts$/, "")}`;
  const start = performance.now();
  const { text, failed } = await run(chapter.source, path);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  if (failed) throw new Error(`${path}: failed, after printing\n${text}`);
  writeFileSync(`${target}.txt`, text);
  writeFileSync(`${target}.broken.txt`, (await run(broken(chapter), path)).text);
  console.log(`${path}: ${seconds} s`);
}
