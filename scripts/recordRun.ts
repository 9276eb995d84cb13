/**
 * `npx tsx scripts/recordRun.ts runs/NAME/results.json`: writes the curves of the first two agents of a comparison,
 * that of `npm start`, into site/recordedRun.ts, from which the live page draws them.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { format } from "prettier";
import type { Outcome } from "../run/compare/outcome.ts";
import { packageFolder } from "./packageFolder.ts";

const { env, seed, arms } = JSON.parse(readFileSync(process.argv[2]!, "utf8")) as Outcome;
const agents = arms.slice(0, 2).map(({ label, method, curve }) => ({
  label,
  method,
  success: curve.map(({ step, success }) => [step, Number(success.toFixed(4))]),
}));
const text = `/** Held-out success by RL step in \`${env}\`, seed ${seed}: written by scripts/recordRun.ts. */
export const RECORDED_RUN: readonly {
  readonly label: string;
  readonly method: string;
  readonly success: readonly (readonly [step: number, success: number])[];
}[] = ${JSON.stringify(agents)};`;
const path = join(packageFolder, "site/recordedRun.ts");
writeFileSync(path, await format(text, { parser: "typescript", printWidth: 120 }));
