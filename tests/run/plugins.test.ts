/**
 * A plug-in of episodes that the library does not know: its own file (tests/support/bestEpisodes.ts) and a line in the
 * list of run/plugins.ts are enough for the loop, the command line, and runs that are stopped and go on. The plug-ins
 * of the library: tests/rl/data*.test.ts.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice } from "../../engine/device.ts";
import type { MemoryStore } from "../../run/memoryStore.ts";
import { type RlOptions, trainRl } from "../../rl/train/loop.ts";
import { best } from "../support/bestEpisodes.ts";
import { set } from "../support/presetOfFlags.ts";
import { paramsOf, reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";

it("trainRl calls its hooks, and with its state a run goes on bit for bit", async () => {
  const device = await makeDevice("wasm");
  const run = (plugin = best(), own: Partial<RlOptions> = {}): RlOptions =>
    toyRlOptions(endingModel(device), { plugins: [plugin], steps: 4, ...own });
  const whole = run();
  const reports = await reportsOf(trainRl(whole));
  const returns = reports.map(({ metrics }) => metrics["best/return"]!);
  expect(returns).toEqual(returns.toSorted((a, b) => a - b));
  for (const { metrics } of reports) expect(metrics["imitation_loss"]).toBeGreaterThan(0);

  const plugin = best();
  const half = run(plugin, { steps: 2 });
  await reportsOf(trainRl(half));
  const again = best();
  again.restore!(JSON.parse(JSON.stringify(plugin.state!())));
  const rest = await reportsOf(trainRl({ ...half, plugins: [again], startStep: 2, steps: 4 }));
  expect(rest.map(({ metrics }) => metrics)).toEqual(reports.slice(2).map(({ metrics }) => metrics));
  expect(await paramsOf(half.model)).toEqual(await paramsOf(whole.model));
  device.dispose();
});

describe("with a line more in the list", () => {
  /** The job, loaded anew: what follows from the list is made when a module is loaded. */
  async function jobWithBest() {
    vi.resetModules();
    vi.doMock(import("../../run/plugins.ts"), async (original) => {
      const [own, { bestEntry }] = await Promise.all([original(), import("../support/bestEpisodes.ts")]);
      return { ...own, PLUGINS: [...own.PLUGINS, bestEntry] };
    });
    const { device } = await import("../../engine/device.ts");
    return {
      device: await device("wasm"),
      ...(await import("../../run/memoryStore.ts")),
      ...(await import("../../run/run.ts")),
      ...(await import("../../run/node/commandLine.ts")),
      ...(await import("../support/presetOfFlags.ts")),
      ...(await import("../support/tinyRun.ts")),
    };
  }
  let job: Awaited<ReturnType<typeof jobWithBest>>;
  beforeAll(async () => void (job = await jobWithBest()));
  afterAll(() => {
    job.device.dispose();
    vi.doUnmock("../../run/plugins.ts");
    vi.resetModules();
  });

  it("its flag and its options are read, checked and listed", () => {
    const { data } = job.presetOfFlags("--best-episodes", "2", ...set("best.weight=0.25"));
    expect(data).toEqual({ best: { count: 2, weight: 0.25 } });
    expect(job.presetOfFlags("--best-episodes", "0").data).toBeUndefined();
    expect(job.HELP).toContain("--best-episodes N   imitates the N best episodes so far\n");
    for (const [flags, message] of [
      [set("best.weight=1"), "--set best.weight is about --best-episodes N; add it"],
      [["--best-episodes", "2", ...set("best.count=3")], "--best-episodes says what --set best.count says"],
      [["--best-episodes", "1", ...set("best.weight=0")], "--set best.weight must be > 0, got 0"],
      [["--best-episodes", "1", "--method", "sft"], "--best-episodes is about RL, which --method sft is not"],
    ] as const)
      expect(() => job.presetOfFlags(...flags)).toThrow(message);
  });

  it("a run saves it with its checkpoints; stopped and resumed it ends as the undisturbed one", async () => {
    const preset = job.tinyPreset("--method", "grpo", "--steps", "3", "--best-episodes", "2");
    const played = async (store: MemoryStore, stopAt = Infinity): Promise<MemoryStore> => {
      const stop = new AbortController();
      let updates = 0;
      const update = (): void => void (++updates === stopAt && stop.abort());
      const isResumed = store.listCheckpoints().length > 0;
      const run = new job.Run(store, preset, job.device, { ...job.QUIET, update }, stop.signal);
      try {
        await run.run(isResumed);
      } finally {
        run.dispose();
      }
      return store;
    };
    const weights = (store: MemoryStore): Uint8Array => store.loadLatestCheckpoint()!.files["model.safetensors"]!;
    const state = (store: MemoryStore): unknown =>
      JSON.parse(new TextDecoder().decode(store.loadLatestCheckpoint()!.files["best.json"]));
    const whole = await played(new job.MemoryStore("whole", { preset }));
    // Two updates of the warm start, and one of RL's three.
    const stopped = await played(new job.MemoryStore("stopped", { preset }), 4);
    expect([stopped, whole].map((store) => store.loadLatestCheckpoint()!.step)).toEqual([3, 5]);
    await played(stopped);
    expect(state(whole)).toHaveLength(2);
    expect(state(stopped)).toEqual(state(whole));
    expect(weights(stopped)).toEqual(weights(whole));
  });
});
