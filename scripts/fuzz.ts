/**
 * `npm run fuzz`: fuzzes all parsers and prints the table of docs/testing.md. A document that is read for a minute ends
 * the process.
 */
import process from "node:process";
import { parse, report } from "../run/node/flags.ts";
import { UsageError } from "../run/usage.ts";
import { fuzz } from "./fuzz/fuzz.ts";
import { TARGETS } from "./fuzz/targets.ts";
import { watchdog } from "./fuzz/watchdog.ts";

const HELP = `npm run fuzz -- [flags]: draws documents for all parsers; exit code 1 if one failed, which is printed

  --minutes N   minutes for all of them together  (default 1)
  --seed N      seed of the documents             (default 1)
  --only TEXT   the parsers with this in their names, as in --only "config.json"
`;
const FLAGS = {
  minutes: { type: "string" },
  seed: { type: "string" },
  only: { type: "string" },
  help: { type: "boolean" },
} as const;

async function main(): Promise<number> {
  const { minutes: duration = "1", seed: drawn = "1", only = "", help } = parse(process.argv.slice(2), FLAGS);
  if (help) {
    process.stdout.write(HELP);
    return 0;
  }
  const [minutes, seed] = [Number(duration), Number(drawn)];
  if (!(minutes > 0)) throw new UsageError(`--minutes: expected a number above 0, got "${String(duration)}"`);
  if (!Number.isSafeInteger(seed)) throw new UsageError(`--seed: expected a whole number, got "${String(drawn)}"`);
  const targets = TARGETS.filter(({ name }) => name.includes(String(only)));
  if (targets.length === 0) throw new UsageError(`--only: no parser has "${String(only)}" in its name`);

  const see = watchdog(60_000);
  let failures = 0;
  console.log("| Reader | Documents tried | Accepted | Refused in one sentence | Failed |");
  console.log("| --- | --- | --- | --- | --- |");
  for (const target of targets) {
    const ms = (minutes * 60_000) / targets.length;
    const { tried, accepted, refused, failure, document } = await fuzz(target, { seed, ms, runs: 1e9 }, see);
    console.log(`| ${target.name} | ${tried} | ${accepted} | ${refused} | ${failure === undefined ? 0 : 1} |`);
    if (failure === undefined) continue;
    failures++;
    console.error(failure);
    console.error(`for tests/fixtures/fuzz/past: ${JSON.stringify({ target: target.name, document })}`);
  }
  return failures > 0 ? 1 : 0;
}

process.exitCode = await main().catch(report);
