/**
 * `npm run evaluate -- --run runs/<name>`: plays held-out tasks with a trained checkpoint and prints how many it
 * solves; run/node/evaluateRun.ts does the work.
 */
import process from "node:process";
import { device } from "../../engine/index.ts";
import { formatNumber } from "../figures/format.ts";
import { createStyle, wantsColour } from "../display/style.ts";
import { askedOf, formatRate, formatReward, missingNote, type Table, tableLines, tableOf } from "../display/table.ts";
import { evaluateRun, prepareEvaluation, type RunScore } from "../node/evaluateRun.ts";
import { parse, report, runPath } from "../node/flags.ts";
import { outliveOutput, outputTaken } from "../node/output.ts";
import { giveWebSocketTo } from "../node/webSocket.ts";
import { type Split, SPLITS } from "../heldOut.ts";
import { DEVICES } from "../startOptions.ts";
import { numberFrom, oneOf, wholeNumber } from "../usage.ts";

const HELP = `worldgrad: play tasks with a trained checkpoint, and count those that it solves

  npm run evaluate -- --run runs/NAME [flags]

  --run PATH         run folder; for a comparison name an agent's, as in runs/NAME/grpo
  --checkpoint NAME  newest | best (on held-out tasks) | a step
                                                              (default newest)
  --episodes N       number of tasks, always the first of the same list
                                                              (default: as many as the run's last evaluation)
  --split NAME       heldout | train: tasks that training never asks, or such as it has
                                                              (default heldout)
  --env NAME         another environment, or a file           (default: the run's)
  --set PART.X=VALUE env.levels=2 and other options of the environment, rollout.maxTurns=12,
                     evaluation.tries=8 for pass@k
  --temperature X    0 is greedy                              (default: the run's, 1 unless it was set)
  --seed N           seed of what the agent draws             (default: the run's)
  --device NAME      auto | wasm | webgpu | reference         (default auto)
  --json             the result as one JSON object
  --help             this text

Without --env, --set, --temperature and --seed it is the run's own evaluation of that checkpoint, on the same executor
to the last digit.
`;

const FLAGS = {
  run: { type: "string" },
  checkpoint: { type: "string" },
  episodes: { type: "string" },
  split: { type: "string" },
  env: { type: "string" },
  set: { type: "string", multiple: true },
  temperature: { type: "string" },
  seed: { type: "string" },
  device: { type: "string" },
  json: { type: "boolean" },
  help: { type: "boolean" },
} as const;

const WIDTH = 100;

async function main(): Promise<number> {
  outliveOutput();
  const values = parse(process.argv.slice(2), FLAGS);
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const text = (name: keyof typeof FLAGS): string | undefined => values[name] as string | undefined;
  const given = <T>(name: keyof typeof FLAGS, read: (value: string) => T): T | undefined =>
    text(name) === undefined ? undefined : read(text(name)!);
  const run = runPath(values);
  const episodes = given("episodes", (value) => wholeNumber("episodes", value, 1));
  const split = given("split", (value) => oneOf("split", value, SPLITS)) ?? "heldout";
  const temperature = given("temperature", (value) => numberFrom("temperature", value));
  const executor = oneOf("device", text("device") ?? "auto", DEVICES);
  const set = values["set"] as readonly string[] | undefined;
  const flags = { run, checkpoint: text("checkpoint"), env: text("env"), set, seed: text("seed") };
  const prepared = await prepareEvaluation(flags);
  await giveWebSocketTo(prepared.preset.env);
  const made = await device(executor, { log: (line) => console.error(line) });
  try {
    const score = await evaluateRun(prepared, made, { episodes, split, temperature });
    process.stdout.write(`${values["json"] ? JSON.stringify(score, null, 2) : linesOf(score).join("\n")}\n`);
    return 0;
  } finally {
    made.dispose();
  }
}

const TASKS: Readonly<Record<Split, string>> = { heldout: "held-out tasks", train: "tasks of training" };

function linesOf(score: RunScore): string[] {
  const style = createStyle(wantsColour(process.stdout.isTTY, process.env));
  const { run, checkpoint, env, split, sampling, seed, families, passAt = {}, meanTurns, meanLength } = score;
  const rows: readonly (readonly [string, string])[] = [
    ["success rate [95 %]", formatRate(score)],
    ...Object.entries(passAt).map(([k, rate]) => [`pass@${k}`, `${(100 * rate).toFixed(1)} %`] as const),
    ["mean return ± 95 %", formatReward(score)],
    ["mean turns", formatNumber(meanTurns!)],
    ["mean length, tokens", formatNumber(meanLength)],
    ["episodes", `${score.episodes}${missingNote(score)}`],
  ];
  const tables: Table[] = [
    tableOf(`${run} after step ${checkpoint}: ${askedOf(score)} ${TASKS[split]} of ${env}`, rows, [
      ["", ([name]) => name],
      [`${sampling}, seed ${seed}`, ([, value]) => value],
    ]),
    ...(Object.keys(families).length < 2
      ? []
      : [
          tableOf("By family of tasks", Object.entries(families), [
            ["", ([name]) => name],
            ["success rate [95 %]", ([, one]) => formatRate(one)],
            ["mean return ± 95 %", ([, one]) => formatReward(one)],
            ["episodes", ([, one]) => String(one.episodes)],
          ]),
        ]),
  ];
  return tables.flatMap((table, i) => [...(i === 0 ? [] : [""]), ...tableLines(table, style, WIDTH)]);
}

process.exitCode = await main().catch(report);
await outputTaken();
// Worker threads of the executor keep the process alive.
process.exit();
