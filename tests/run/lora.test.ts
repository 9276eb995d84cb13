/** The main job with an adapter: what `--set lora.…` becomes. */
import { describe, expect, it } from "vitest";
import { loraOptionsOf } from "../../run/adapter.ts";
import { presetFor } from "../../run/presets.ts";
import { startOptions } from "../../run/startOptions.ts";

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

  it("is refused in one line if a value is wrong", () => {
    expect(() => presetOf("lora.r=0")).toThrow("--set lora.r must be an integer ≥ 1, got 0");
    expect(() => presetOf("lora.rank=4")).toThrow('--set lora.rank: unknown option "rank"');
    expect(() => presetOf("lora.loraDropout=1")).toThrow("--set lora.loraDropout must be in [0, 1), got 1");
  });
});
