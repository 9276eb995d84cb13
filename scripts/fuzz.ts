/**
 * `npm run fuzz -- --minutes N [--seed S] [--only NAME]`: fuzzes all parsers for N minutes in total, and prints the
 * table of docs/testing.md. The exit code is 1 if a document failed, which is printed; a document that is read for a
 * minute ends the process.
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { fuzz } from "./fuzz/fuzz.ts";
import { TARGETS } from "./fuzz/targets.ts";
import { watchdog } from "./fuzz/watchdog.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    seed: { type: "string", default: "1" },
    only: { type: "string", default: "" },
  },
});
const [minutes, seed] = [Number(values.minutes), Number(values.seed)];
if (!(minutes > 0) || !Number.isInteger(seed)) throw new Error("fuzz: expected --minutes N > 0 and a whole --seed");
const targets = TARGETS.filter(({ name }) => name.includes(values.only));

const see = watchdog(60_000);
console.log("| Reader | Documents tried | Accepted | Refused in one sentence | Failed |");
console.log("| --- | --- | --- | --- | --- |");
for (const target of targets) {
  const ms = (minutes * 60_000) / targets.length;
  const { tried, accepted, refused, failure, document } = await fuzz(target, { seed, ms, runs: 1e9 }, see);
  console.log(`| ${target.name} | ${tried} | ${accepted} | ${refused} | ${failure === undefined ? 0 : 1} |`);
  if (failure === undefined) continue;
  console.error(failure);
  console.error(`for tests/fixtures/fuzz/past: ${JSON.stringify({ target: target.name, document })}`);
  process.exitCode = 1;
}
