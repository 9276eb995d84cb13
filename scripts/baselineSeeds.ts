/**
 * `npx tsx scripts/baselineSeeds.ts`: the training at the end of chapter 5 on seeds 0 to 9, into
 * studies/baselineSeeds.ts: percent found in the last fifth of the run, by baseline. It takes some minutes.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { format } from "prettier";
import { check } from "../engine/errors.ts";
import { readChapter } from "./book/chapters.ts";
import { run } from "./book/program.ts";
import { packageFolder } from "./packageFolder.ts";

const { source, path } = readChapter("05-grpo");
const SEED = "const SEED = 0;";
check(source.split(SEED).length === 2, () => `${path}: expected "${SEED}" once`);
const found: Record<string, number[]> = {};
for (let seed = 0; seed < 10; seed++) {
  const { text, failed } = await run(source.replace(SEED, `const SEED = ${seed};`), path);
  check(!failed, () => `${path}: failed with seed ${seed}, after printing\n${text}`);
  for (const [, name, fifths] of text.matchAll(/^(\w+) +found, in %, by fifths of the run: ([\d ]+)$/gm))
    (found[name!] ??= []).push(Number(fifths!.trim().split(" ").at(-1)));
  console.log(
    `seed ${seed}: ${Object.values(found)
      .map((all) => all.at(-1))
      .join(" ")}`,
  );
}
const text = `/**
 * Chapter 5's training with tips on seeds 0 to 9: percent found in the last fifth of the run, by baseline.
 * \`npx tsx scripts/baselineSeeds.ts\` writes this file.
 */
export const BASELINE_SEEDS: Readonly<Record<string, readonly number[]>> = ${JSON.stringify(found)};
`;
writeFileSync(
  join(packageFolder, "studies/baselineSeeds.ts"),
  await format(text, { parser: "typescript", printWidth: 120 }),
);
