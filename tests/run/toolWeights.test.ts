/** `--set echo.tools=…`: read, refused, saved, and in force in a run. What the weights do: tests/connect. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { byteTokenizer } from "../../nn/index.ts";
import { emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, Template } from "../../rl/episode/template.ts";
import { worldsOf } from "../../rl/objective/objective.ts";
import type { RlOptions } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { parseArms, presetOfArm } from "../../run/arms.ts";
import { MemoryStore } from "../../run/memoryStore.ts";
import { loadObjective } from "../../run/objective.ts";
import { Run } from "../../run/run.ts";
import { weighedByTool } from "../../run/toolWeightedRun.ts";
import { numbersByName } from "../../run/numbersByName.ts";
import { toolWeightsIn } from "../../run/toolWeights.ts";
import { optionsIn } from "../../run/layout.ts";
import type { Preset } from "../../run/preset.ts";
import { presetFor } from "../../run/presets.ts";
import { parseStart } from "../../run/node/commandLine.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import { definedOf } from "../support/mainJob.ts";
import { presetOfFlags, set } from "../support/presetOfFlags.ts";
import { trajectoryOf } from "../support/rlToy.ts";
import { QUIET, tinyPreset } from "../support/tinyRun.ts";

describe("the setting", () => {
  it.each([
    ["cat:1+ls:0+*:0.5", { cat: 1, ls: 0, "*": 0.5 }],
    ["cat:.5", { cat: 0.5 }],
    ["files:read:2 + a.b/c-d:1e-3", { "files:read": 2, "a.b/c-d": 1e-3 }],
    ["a=b:1", { "a=b": 1 }],
    ["*:0", { "*": 0 }],
  ])("%s", (text, weights) => {
    const { rl } = presetOfFlags(...set(`echo.tools=${text}`));
    expect(rl.options).toEqual({ echo: { tools: text } });
    expect(toolWeightsIn(rl)).toEqual(weights);
  });

  it("a name that every object has is a name as others are", () => {
    expect(Object.entries(numbersByName("__proto__:2+constructor:0")!)).toEqual([
      ["__proto__", 2],
      ["constructor", 0],
    ]);
  });

  it.each([
    "",
    "cat",
    "cat:",
    ":1",
    "cat:-1",
    "cat:NaN",
    "cat:Infinity",
    "cat:1+",
    "cat:1+cat:2",
    "cat=1,ls=0",
    "cat:1 ls:0",
  ])("refuses %j in one line that names what was expected and what came", (text) => {
    expect(() => presetOfFlags(...set(`echo.tools=${text}`))).toThrow(
      "--set echo.tools must be different names with weights ≥ 0, as in cat:1+ls:0+*:0.5, got " + JSON.stringify(text),
    );
  });

  it("belongs to ECHO", () => {
    expect(() => presetOfFlags("--method", "grpo", ...set("echo.tools=cat:1"))).toThrow(
      "--set echo.tools: echo is no part of --method grpo",
    );
  });

  it("an arm has weights of its own, and the settings of a run say them", () => {
    const base = definedOf(parseStart(["--env", "home"]) as StartOptions);
    const [arm] = parseArms("few=grpo+echo[echo.tools=cat:1+*:0,lambda=0.2],grpo");
    const { rl } = presetOfArm(arm!, base);
    expect(rl.options).toEqual({ echo: { tools: "cat:1+*:0", lambda: 0.2 } });
    expect(optionsIn({ rl: presetFor(base).rl })).not.toHaveProperty("echo.tools");
    expect(optionsIn({ rl })["echo.tools"]).toBe("cat:1+*:0");
  });

  it("leaves the objective to the run, which knows the template", async () => {
    const { rl } = presetOfFlags(...set("echo.tools=*:0", "echo.lambda=0.2"));
    const [world, plain] = await Promise.all(
      [rl, presetOfFlags(...set("echo.lambda=0.2")).rl].map(async (each) => worldsOf(await loadObjective(each, 40))),
    );
    expect(JSON.stringify(world)).toBe(JSON.stringify(plain));
  });
});

describe("a run", () => {
  let device: Device;
  beforeAll(async () => void (device = await makeDevice("wasm")));
  afterAll(() => device.dispose());

  const notes: string[] = [];
  async function played(flags: readonly string[], stopAt = Infinity, earlier?: MemoryStore): Promise<MemoryStore> {
    const tiny = tinyPreset("--env", "home", "--steps", "3", "--method", "grpo+echo", ...flags);
    // Enough of a warm start that some actions end and are answered.
    const preset: Preset = {
      ...tiny,
      sft: { ...tiny.sft, demonstrations: 16, steps: 25, batchSize: 8, lr: 3e-2, checkpointEvery: 25 },
      rl: { ...tiny.rl, groups: 2, groupSize: 4 },
      rollout: { ...tiny.rollout, maxActionTokens: 12 },
      evaluation: { ...tiny.evaluation, every: 3 },
    };
    const store = earlier ?? new MemoryStore(flags.join(" "), { preset });
    const stop = new AbortController();
    let updates = 0;
    const update = (): void => void (++updates === stopAt && stop.abort());
    const note = (text: string): void => void notes.push(text);
    const run = new Run(store, preset, device, { ...QUIET, update, note }, stop.signal);
    try {
      await run.run(earlier !== undefined);
    } finally {
      run.dispose();
    }
    return store;
  }
  const weightsOf = (store: MemoryStore): unknown => store.loadLatestCheckpoint()!.files["model.safetensors"];
  const lossesOf = (store: MemoryStore): Readonly<Record<string, unknown>>[] =>
    store.metrics
      .filter(({ phase }) => phase === "rl")
      .map((line) => Object.fromEntries(Object.entries(line).filter(([name]) => name.startsWith("world_loss"))));

  it(
    "is that of another λ if all tools count the same, and that of GRPO if none counts",
    { timeout: 60_000 },
    async () => {
      const half = await played(set("echo.tools=*:0.5", "echo.lambda=0.1"));
      const other = await played(["--lambda", "0.05"]);
      expect(weightsOf(half)).toEqual(weightsOf(other));
      for (const line of lossesOf(other)) expect(line).toHaveProperty("world_loss");
      expect(lossesOf(half)).toEqual(lossesOf(other).map((line) => ({ ...line, "world_loss/*": line["world_loss"] })));
      const without = await played(set("echo.tools=*:0"));
      expect(weightsOf(without)).toEqual(weightsOf(await played(["--lambda", "0"])));
      expect(lossesOf(without)).toEqual([{}, {}, {}]);
      expect(notes.filter((text) => text.includes("echo.tools"))).toEqual([]);
    },
  );

  it("says which names nothing has called; stopped and resumed it ends as the undisturbed one", async () => {
    notes.length = 0;
    const flags = set("echo.tools=cta:2+*:0.5");
    const whole = await played(flags);
    const told = notes.filter((text) => text.includes("echo.tools"));
    expect(told).toHaveLength(1);
    expect(told[0]).toMatch(/^echo\.tools: no action called cta; called were .+ in step 1$/);
    // The updates of the warm start, its evaluation, and one of RL's three.
    const stopped = await played(flags, 27);
    expect(stopped.loadLatestCheckpoint()!.step).toBeLessThan(whole.loadLatestCheckpoint()!.step);
    await played(flags, Infinity, stopped);
    expect(weightsOf(stopped)).toEqual(weightsOf(whole));
    expect(lossesOf(stopped)).toEqual(lossesOf(whole));
  });
});

it("a name is looked for in the first step in which a tool was called", async () => {
  const tokenizer = byteTokenizer({ specials: SPECIAL_TOKENS });
  const template = new Template(tokenizer);
  const episodeOf = (action: string): Trajectory => {
    const stream = emptyStream();
    template.appendTask(stream, "task");
    template.appendSampled(stream, 0, [...tokenizer.encode(action), template.endId]);
    template.appendObservation(stream, 0, tokenizer.encode("answer"));
    return trajectoryOf(stream);
  };
  const reportOf = (step: number, actions: readonly string[]): StepReport => {
    const rows = actions.map((action) => ({ trajectory: episodeOf(action) }));
    const logProbs = rows.map(({ trajectory: { stream } }) => stream.ids.map(() => NaN));
    return { step, metrics: { step }, rows, scores: { logProbs, entropy: logProbs } } as unknown as StepReport;
  };
  const warnings: string[] = [];
  const objective = { world: { name: "paw" } };
  const run = { template, objective, warn: (text: string) => void warnings.push(text) } as unknown as RlOptions;
  const many = Array.from({ length: 14 }, (_, n) => `tool${n}`);
  const reports = [["", "<think>cat"], [...many, "cat \u001b[2J", "evil\u202e x"], ["nothing"]];
  const seen: RlOptions[] = [];
  async function* loop(weighed: RlOptions): AsyncGenerator<StepReport> {
    seen.push(weighed);
    for (const [step, actions] of reports.entries()) yield await Promise.resolve(reportOf(step, actions));
  }
  const steps: number[] = [];
  for await (const { metrics } of weighedByTool(run, { cat: 1, ls: 2, "*": 0 }, loop)) steps.push(metrics["step"]!);
  expect(steps).toEqual([0, 1, 2]);
  expect(warnings).toEqual([
    `echo.tools: no action called ls; called were ${many.slice(0, 12).join(", ")}, … in step 2`,
  ]);
  // Only ECHO is weighed, and nothing else of the run is changed.
  expect(seen).toEqual([{ ...run, objective: { world: [{ name: "paw" }] } }]);
});
