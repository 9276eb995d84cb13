/**
 * Agents side by side: when a command line is about several, what the figures are made to say, the columns of the
 * terminal, what an agent expected to be answered. compare.long.test.ts has the whole as a person runs it.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { SUMMARY } from "../../run/arms/jobs.ts";
import { outcomeIn } from "../../run/compare/compare.ts";
import type { Outcome } from "../../run/compare/outcome.ts";
import { comparisonOf, isAboutSeveral } from "../../run/compare/settings.ts";
import { outcomeTables, verdictOf } from "../../run/compare/tables.ts";
import { createDisplay } from "../../run/display/display.ts";
import { LANE_METRICS, laneLines } from "../../run/display/lanes.ts";
import { Progress } from "../../run/display/progress.ts";
import { createStyle } from "../../run/display/style.ts";
import { sideBySideLines } from "../../run/display/transcript.ts";
import { textWidth } from "../../run/display/width.ts";
import { UsageError } from "../../run/usage.ts";
import { parseStart } from "../../run/node/commandLine.ts";
import { type Preset, samplingOf } from "../../run/preset.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import type { Evaluation, Transcript } from "../../run/records.ts";
import { shippedWarmStart } from "../../run/node/shippedWarmStart.ts";
import { createRun } from "../../run/node/runFolder.ts";
import { sealed } from "../../run/node/sealed.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-compare-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const options = (...args: string[]): StartOptions => parseStart(args) as StartOptions;

describe("--quick", () => {
  const quick = (...args: string[]) => comparisonOf("runs/x", options("--quick", ...args));

  test("begins with the warm start that lies here; scripts/shipWarmStart.ts makes it anew", () => {
    const { warm, arms } = quick();
    expect(warm.shipped).toBe(true);
    expect(warm.preset.sft).toEqual(comparisonOf("runs/x", options()).warm.preset.sft);
    expect(arms.map(({ arm, preset: { rl } }) => [arm.label, rl.steps, rl.lr])).toEqual([
      ["grpo", 60, 5e-4],
      ["grpo+echo", 60, 1e-3],
    ]);
  });

  test("other agents, steps, evaluations and rates go with it", () => {
    const { warm, arms } = quick("--arms", "ppo,rft,random", "--steps", "7", "--set", "evaluation.episodes=9");
    expect(warm.shipped).toBe(true);
    expect(warm.preset.evaluation).toEqual({ every: 10, episodes: 9, finalEpisodes: 100 });
    expect(arms.map(({ preset: { rl } }) => rl.steps)).toEqual([7, 7, 7]);
  });

  test.each([
    ["--seed", "1"],
    ["--set", "sft.steps=700", "--set", "sft.lr=1e-3"],
    ["--set", "env.size=1"],
    ["--set", "tokenizer.vocabSize=300"],
    ["--model", "tiny"],
    ["--env", "terminal"],
    ["--device", "reference"],
  ])("%s %s needs another warm start, so every part is short", (...args) => {
    const { warm, arms } = quick(...args);
    expect(warm.shipped).toBe(false);
    expect(arms[0]!.preset.rl.steps).toBe(4);
  });

  test("a warm start that it begins with has weights, no moments, and no evaluation", () => {
    const { step, files, metrics } = shippedWarmStart(quick().warm.preset)!;
    expect(step).toBe(700);
    expect(Object.keys(files).sort()).toEqual(["config.json", "model.safetensors", "state.json", "tokenizer.json"]);
    expect(JSON.parse(new TextDecoder().decode(files["state.json"]))).toMatchObject({ phase: "sft", before: null });
    expect(metrics.map((line) => line.phase)).toEqual(Array<string>(700).fill("sft"));
  });
});

describe("a command line", () => {
  test.each([
    [[], true],
    [["--seed", "3", "--quick"], true],
    [["--env", "terminal"], true],
    [["--env", "calculator"], false], // no agents are named for it
    [["--env", "calculator", "--arms", "grpo,echo"], true],
    [["--method", "grpo"], false],
    [["--lambda", "0.1"], false],
    [["--replay", "2"], false],
    [["--dynamic-sampling"], false],
  ])("%j is about several agents: %j", (args, several) => {
    expect(isAboutSeveral(options(...args))).toBe(several);
  });

  test.each([
    [["--arms", "grpo,echo", "--kl-target", "0.1"], "--kl-target sets one agent, but --arms names several"],
    [["--arms", "grpo,echo", "--method", "grpo"], "--method sets one agent"],
    [["--arms", "grpo"], '--arms: expected two agents or more, got "grpo"; for one alone use --method'],
    [["--arms", "grpo,ecko"], 'arm ecko: --method: unknown name "ecko"; did you mean "echo"?'],
    [["--env", "gridwold"], '--env: unknown name "gridwold"; did you mean "gridworld"?'],
  ])("%j is one clear line", (args, message) => {
    const read = (): unknown => isAboutSeveral(options(...args)) && comparisonOf("runs/x", options(...args));
    expect(read).toThrow(UsageError);
    expect(read).toThrow(message);
  });

  test("of several: all begin with one warm start, which knows no method, in the home of the seed", () => {
    const { warm, arms } = comparisonOf(
      "runs/x",
      options("--seed", "4", "--arms", "grpo,b=grpo+echo[lambda=0.5,train.facts=random]"),
    );
    expect(warm).toMatchObject({ path: "runs/x/warm", preset: { env: "home", seed: 4, tasks: { home: 1004 } } });
    expect(warm.preset.demoTasks).toEqual({ home: -1 });
    expect(
      arms.map(({ path, from, preset }) => [path, from, preset.rl.method, preset.rl.options?.["echo"]?.["lambda"]]),
    ).toEqual([
      ["runs/x/grpo", "runs/x/warm", "grpo", undefined],
      ["runs/x/b", "runs/x/warm", "grpo+echo", 0.5],
    ]);
    for (const { preset } of arms) {
      const { rl: _rl, trainTasks: _train, ...shared } = preset;
      const { rl: _warm, ...all } = warm.preset;
      expect(shared).toEqual(all);
    }
  });
});

const evaluation = (successes: number, worldLoss = 1): Evaluation => {
  const families = { read: { episodes: 200, successes }, lock: { episodes: 100, successes: 0 } };
  return { label: "", episodes: 300, successes, worldLoss, worldLossOnPolicy: worldLoss, families };
};
const outcomeOf = (a: number, b: number): Outcome => ({
  env: "home",
  seed: 0,
  episodesPerStep: 128,
  warm: evaluation(6),
  warmSampling: "temperature 1",
  arms: [a, b].map((successes, i) => {
    return {
      label: i === 0 ? "grpo" : "grpo+echo",
      method: "",
      slug: "",
      sampling: "temperature 1",
      plays: i === 0,
      after: evaluation(successes),
      curve: [],
      training: [],
      trainingSuccess: i === 0 ? 0.5 : null,
      steps: 100,
    };
  }),
});

describe("what the figures are made to say", () => {
  test("a difference that chance does not explain, in either direction, and one that it does", () => {
    expect(verdictOf(outcomeOf(40, 110))).toBe(
      "From 2.0 %, 12,800 episodes took grpo to 13.3 % and grpo+echo to 36.7 %: +23 points [+17, +30]; " +
        "grpo+echo is ahead, and by more than the chance of 300 tasks explains. This is one seed; npm run ablate " +
        "repeats the comparison over seeds, with any controls.",
    );
    expect(verdictOf(outcomeOf(110, 40))).toContain("−23 points [−30, −17]; grpo is ahead");
    expect(verdictOf(outcomeOf(100, 110))).toContain("so this run shows no difference");
    const { arms, ...rest } = outcomeOf(40, 110);
    expect(verdictOf({ ...rest, arms: [arms[0]!, { ...arms[1]!, steps: 90 }] })).toContain(
      "12,800 and 11,520 episodes took grpo to",
    );
  });

  test("agents that draw otherwise than the warm start did are named, as that may be the difference", () => {
    const { arms, ...rest } = outcomeOf(40, 110);
    const cold = { ...arms[1]!, sampling: samplingOf({ temperature: 0.3, topP: 0.8 } as Preset["rollout"]) };
    expect(verdictOf({ ...rest, arms: [arms[0]!, cold] })).toContain(
      "explains. Part of it may be how they draw: grpo plays at temperature 1, grpo+echo at temperature 0.3, top-p " +
        "0.8, and the warm start played at temperature 1. This is one seed",
    );
    // Alike, but not as the warm start: its row is no baseline then.
    expect(verdictOf({ ...rest, warmSampling: "temperature 0", arms })).toContain("Part of it may be how they draw");
  });

  test("the tables have every agent, compared with the first", () => {
    const [main, families] = outcomeTables(outcomeOf(40, 110));
    expect(main!.rows.map((row) => row.map((cell) => (typeof cell === "string" ? cell : cell.text)))).toEqual([
      ["warm start", "2.0 % [1, 4]", "−11.3 [−16, −7]", "", "1", "1"],
      ["grpo", "13.3 % [10, 18]", "", "50.0 %", "1", "1"],
      ["grpo+echo", "36.7 % [31, 42]", "+23.3 [+17, +30]", "–", "1", "1"],
    ]);
    expect(main!.head.slice(4)).toEqual(["surprise", "in its own"]); // no column of dashes
    const told = outcomeOf(40, 110);
    const withExcess = outcomeTables({ ...told, warm: { ...told.warm, worldLossExcess: 0.5 } })[0]!;
    expect(withExcess.head.slice(4)).toEqual(["surprise", "in its own", "excess"]);
    expect(withExcess.rows.map((row) => row[6])).toEqual(["0.5000", "–", "–"]);
    expect(families!.head).toEqual(["", "read", "lock"]);
    expect(families!.rows.map((row) => row[1])).toEqual(["3.0 % [1, 6]", "20.0 % [15, 26]", "55.0 % [48, 62]"]);
  });
});

test("a loss that is no number, which JSON does not have, is none: in the tables a dash, in the curves a gap", () => {
  const comparison = comparisonOf(join(folder, "runs/without"), options("--arms", "grpo,grpo+echo", "--quick"));
  const lossless = { ...evaluation(6), worldLossOnPolicy: NaN };
  for (const { path, preset } of [comparison.warm, ...comparison.arms]) {
    const run = createRun(path, { preset });
    run.appendMetrics({
      step: preset.sft.steps,
      phase: "eval",
      success: 0.02,
      world_loss: 1,
      "world_loss/on_policy": NaN,
    });
    run.writeFile(SUMMARY, sealed({ ...lossless, after: lossless }));
  }
  const outcome = outcomeIn(comparison);
  expect(outcomeTables(outcome)[0]!.rows.map((row) => row.slice(4))).toEqual([
    ["1", "–"],
    ["1", "–"],
    ["1", "–"],
  ]);
  for (const { curve } of outcome.arms)
    expect(curve).toEqual([{ step: 0, success: 0.02, worldLoss: 1, worldLossOnPolicy: null, worldLossExcess: null }]);
});

const transcript = (task: string, step: number, success: boolean): Transcript => {
  const token = (text: string, role: Transcript["tokens"][number]["role"], turn: number) => ({
    id: 1,
    text,
    role,
    turn,
  });
  return {
    step,
    phase: "eval",
    env: "home",
    family: "read",
    task,
    group: 0,
    reward: Number(success),
    success,
    stopReason: "completed",
    turns: 2,
    expected: ["no such file", ""],
    tokens: [
      token("<|task|>", "prompt", 0),
      token(task, "prompt", 0),
      token("read x in y", "action", 0),
      token("<|end|>", "action", 0),
      token("<|obs|>", "scaffold", 0),
      token("no such ", "observation", 0),
      token("file", "observation", 0),
      token("<|act|>", "scaffold", 0),
      token("done", "action", 1),
      token("<|end|>", "action", 1),
    ],
  };
};

describe("the terminal", () => {
  const style = createStyle(false);
  const lanes = ["grpo", "grpo+echo"].map((name, i) => {
    const progress = new Progress("rl", 100, 0, 0);
    for (let step = 1; step <= 50; step++)
      progress.update(step, { success: (step * (1 + i)) / 200, reward: 1, loss: 2 }, step * 1000);
    return { name, progress };
  });

  test.each([30, 60, 80, 120, 200])("columns fit into %i cells", (cells) => {
    const lines = laneLines("two agents", lanes, style, cells, 50_000);
    for (const line of lines) expect(textWidth(line)).toBeLessThanOrEqual(cells);
    for (const name of ["grpo", "grpo+echo"])
      expect(lines.some((line) => line.includes(name.slice(0, cells - 4)))).toBe(true);
    for (const line of sideBySideLines(
      lanes.map(({ name }) => ({ name, record: transcript("What does a.txt say?", 10, true) })),
      style,
      cells,
    ))
      expect(textWidth(line)).toBeLessThanOrEqual(cells);
  });

  test("the same metrics in the same order, on one scale: half the height is half the value", () => {
    const lines = laneLines("two agents", lanes, style, 160, 50_000);
    expect(LANE_METRICS).toContain("success");
    const row = lines.find((line) => line.includes("success"))!;
    expect(row.match(/success +([\d.]+) %/g)).toEqual(["success       25.0 %", "success       50.0 %"]);
    expect(row.match(/▄(?= )/g)?.length ?? 0, row).toBeGreaterThan(0); // ends at half
    expect(row.endsWith("█"), row).toBe(true);
    expect(lines.some((line) => line.includes("reward"))).toBe(false); // not what comparing is about
  });

  test("each agent's way: typed, expected, answered; what ended the episode is answered by nobody", () => {
    const records = lanes.map(({ name }, i) => ({ name, record: transcript("What does a.txt say?", 10, i === 1) }));
    const text = sideBySideLines(records, style, 100).join("\n");
    expect(text).toContain("What does a.txt say?");
    expect(text.match(/expected +no such file/g)).toHaveLength(2);
    expect(text.match(/answered +no such file/g)).toHaveLength(2);
    expect(text.match(/\$ +done/g)).toHaveLength(2);
    expect(text).toContain("✘ grpo step 10");
    expect(text).toContain("✔ grpo+echo step 10");
    expect(text).not.toContain("<|");
  });

  test("an answer of several lines keeps them, and lines break between words", () => {
    const own = transcript("What does a.txt say?", 10, true);
    const answer = "did you mean lomika.log in tekaru?\n\ntotal 2";
    const tokens = own.tokens.map((token) => (token.text === "no such " ? { ...token, text: answer } : token));
    const said = tokens.map((token) => (token.text === "file" ? { ...token, text: "" } : token));
    const lines = sideBySideLines([{ name: "grpo", record: { ...own, tokens: said } }], style, 40);
    const at = lines.findIndex((line) => line.includes("answered"));
    expect(lines.slice(at, at + 4)).toEqual([
      "│ answered  did you mean lomika.log in",
      "│           tekaru?",
      "│",
      "│           total 2",
    ]);
  });

  test("plain lines name the agent", () => {
    let out = "";
    const display = createDisplay({
      stream: { write: (text) => (out += text) },
      isTTY: false,
      lineMs: 0,
      now: () => 0,
    });
    display.phase("learning", 2, 0, ["grpo", "echo"]);
    display.update(1, { success: 0.5 }, 1);
    display.evaluation(1, { episodes: 4, successes: 1, worldLoss: 2 }, 0);
    display.close();
    expect(out).toContain("== learning: 2 steps ==\necho 1/2 |");
    expect(out).toContain("grpo: held-out tasks: 25.0 % of 4 solved");
  });
});
