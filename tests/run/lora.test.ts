/** The main job with an adapter: what `--set lora.…` becomes. */
import { describe, expect, it } from "vitest";
import { device as makeDevice } from "../../engine/index.ts";
import { loraOptionsOf } from "../../run/adapter.ts";
import { MemoryStore } from "../../run/memoryStore.ts";
import { presetFor } from "../../run/presets.ts";
import { Run } from "../../run/run.ts";
import { startOptions } from "../../run/startOptions.ts";
import { QUIET } from "../support/tinyRun.ts";

const presetOf = (...set: string[]): ReturnType<typeof presetFor> => presetFor(startOptions({ quick: true, set }));

describe("--set lora", () => {
  it("is in the settings as it was written, and nothing is there without it", () => {
    expect(presetOf("lora.r=4", "lora.useDora=true").lora).toEqual({ r: 4, useDora: true });
    expect(presetOf()).not.toHaveProperty("lora");
  });

  it("takes names with plus signs, all-linear, or a pattern", () => {
    const of = (targetModules: string): unknown => loraOptionsOf({ targetModules }).targetModules;
    expect(of("q_proj+mlp.up_proj")).toEqual(["q_proj", "mlp.up_proj"]);
    expect(of("all-linear")).toBe("all-linear");
    expect(of(".*(up|down)_proj")).toBe(".*(up|down)_proj");
    expect(loraOptionsOf({ excludeModules: "q_proj" })).toEqual({ excludeModules: ["q_proj"] });
  });

  it("takes ranks and α by name, and matrices that are trained whole", () => {
    const { lora } = presetOf("lora.rankPattern=q_proj:4+layers.0.mlp.up_proj:2", "lora.modulesToSave=lm_head");
    expect(loraOptionsOf(lora!)).toEqual({
      rankPattern: { q_proj: 4, "layers.0.mlp.up_proj": 2 },
      modulesToSave: ["lm_head"],
    });
    // The order of the names is kept: the first that fits counts.
    const { rankPattern } = loraOptionsOf({ rankPattern: "v_proj:3+.*_proj:5" });
    expect(Object.entries(rankPattern!)).toEqual([
      ["v_proj", 3],
      [".*_proj", 5],
    ]);
    expect(loraOptionsOf({ alphaPattern: "q_proj:.5", modulesToSave: "lm_head+embed_tokens" })).toEqual({
      alphaPattern: { q_proj: 0.5 },
      modulesToSave: ["lm_head", "embed_tokens"],
    });
  });

  it.each([
    ["rankPattern=q_proj:0", "different names with ranks, as in q_proj:16+layers.0.mlp.up_proj:4"],
    ["rankPattern=q_proj:1.5", "different names with ranks"],
    ["rankPattern=q_proj", "different names with ranks"],
    ["alphaPattern=q_proj:0", "different names with numbers > 0, as in q_proj:32+v_proj:8"],
    ["alphaPattern=q_proj:1+q_proj:2", "different names with numbers > 0"],
    ["alphaPattern=q_proj:Infinity", "different names with numbers > 0"],
  ])("refuses lora.%s", (said, expected) => {
    expect(() => presetOf(`lora.${said}`)).toThrow(`--set lora.${said.split("=")[0]!} must be ${expected}`);
  });

  it("is refused in one line if a value is wrong", () => {
    expect(() => presetOf("lora.r=0")).toThrow("--set lora.r must be an integer ≥ 1, got 0");
    expect(() => presetOf("lora.rank=4")).toThrow('--set lora.rank: unknown option "rank"');
    expect(() => presetOf("lora.loraDropout=1")).toThrow("--set lora.loraDropout must be in [0, 1), got 1");
  });

  it.each([
    ["lora.targetModules=q_proj+foo", "lora: no layer is called foo; there are "],
    ["lora.modulesToSave=lm_head", "lora: modulesToSave is not supported where the head is tied to the embedding"],
  ])("%s is refused before the warm start, which would take minutes", async (said, message) => {
    const preset = presetOf(said);
    const store = new MemoryStore("wrong", { preset });
    const device = await makeDevice("reference");
    const run = new Run(store, preset, device, QUIET, new AbortController().signal);
    await expect(run.run(false)).rejects.toThrow(message);
    expect([store.metrics, store.listCheckpoints()]).toEqual([[], []]);
    device.dispose();
  });
});
