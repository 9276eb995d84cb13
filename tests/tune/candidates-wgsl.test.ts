/**
 * The candidates of tuning: each is executed and right where tiles are ragged, and takes the table's place in its own
 * class of shapes and nowhere else.
 */
import { describe, expect, it, vi } from "vitest";
import type { AdapterProfile, MatmulClass, MatmulRung, Schedules } from "../../kernels/kernel.ts";
import type { MatmulSpec } from "../../kernels/specs.ts";
import { attentionSchedules, chooseSchedule, classOf as attentionClass } from "../../kernels/wgsl/attentionTable.ts";
import { contestsFor } from "../../tune/candidates.ts";
import { matmul } from "../../kernels/wgsl/matmul.ts";
import { chooseRung, classOf, TILED } from "../../kernels/wgsl/matmulTable.ts";
import { packedMatmul } from "../../pretrained/packed/wgsl.ts";
import { operands, plain, reference } from "../kernels/matmul-reference.ts";
import { expectClose, runWgsl } from "../kernels/wgsl-harness.ts";

vi.setConfig({ testTimeout: 120_000 });

const software: AdapterProfile = { schedule: "software" };
const gpu: AdapterProfile = { schedule: "gpu" };
const lanes: AdapterProfile = { schedule: "gpu", adapter: "nvidia", features: ["subgroups"] };
const none: Schedules = { matmul: {}, attention: {} };
const withRung = (profile: AdapterProfile, name: MatmulClass, rung: MatmulRung): AdapterProfile => ({
  ...profile,
  schedules: { ...none, matmul: { [name]: rung } },
});

describe("products", () => {
  const problems = contestsFor(software).flatMap((contest) =>
    contest.family === "matmul" ? contest.candidates.map((rung) => [contest.name, rung] as const) : [],
  );
  /** A shape of each class on which no block of a candidate comes out even. */
  const ragged: Readonly<Partial<Record<MatmulClass, Partial<MatmulSpec>>>> = {
    row: { m: 1, n: 261, k: 7 },
    rows: { m: 3, n: 131, k: 12 },
    edge: { m: 9, n: 33, k: 8 },
    small: { m: 33, n: 35, k: 8 },
    large: { m: 65, n: 67, k: 5 },
  };

  it.each(problems)("%s: %o is right across workgroups and edges", async (name, rung) => {
    for (const order of [{ transB: true }, { transB: false }, { transA: true, transB: false }]) {
      const spec: MatmulSpec = { ...plain, ...ragged[name]!, ...order, addends: ["row", "whole"] };
      expect(classOf(spec, software)).toBe(name);
      const inputs = operands(spec, 3);
      const [c] = await runWgsl(matmul(spec, withRung(software, name, rung)), inputs, [spec.m * spec.n]);
      expectClose(c!, reference(spec, inputs[0]!, inputs[1]!, ...inputs.slice(2)), 2e-6, 1 + Math.sqrt(spec.k));
    }
  });

  it("their classes end where the table changes", () => {
    const of = (profile: AdapterProfile, ...sizes: readonly (readonly [m: number, n: number])[]): MatmulClass[] =>
      sizes.map(([m, n]) => classOf({ ...plain, m, n, k: 64 }, profile));
    expect(of(gpu, [1, 64], [2, 64], [4, 64], [5, 64], [32, 64], [33, 64], [33, 16], [33, 17])).toEqual([
      "row",
      "rows",
      "rows",
      "edge",
      "edge",
      "small",
      "edge",
      "small",
    ]);
    expect(of(gpu, [1024, 1024], [1024, 960])).toEqual(["large", "small"]);
    expect(of(software, [1, 1], [4, 4], [5, 900], [33, 16], [33, 17], [64, 63], [64, 64])).toEqual([
      "row",
      "rows",
      "edge",
      "edge",
      "small",
      "small",
      "large",
    ]);
  });

  it("what was measured holds in its class, and a benchmark's choice before it", () => {
    const rung: MatmulRung = { kind: "tiled", block: TILED["64x64"] };
    const profile = withRung(gpu, "small", rung);
    const small: MatmulSpec = { ...plain, m: 256, n: 256, k: 2048 };
    // Sums are split as those of the table are: 512 workgroups are worth having, and here are 16 tiles.
    expect(chooseRung(small, profile)).toEqual({ ...rung, splits: 8 });
    expect(chooseRung({ ...small, m: 4096 }, profile)).toEqual(chooseRung({ ...small, m: 4096 }, gpu));
    expect(chooseRung({ ...small, m: 1 }, profile)).toEqual(chooseRung({ ...small, m: 1 }, gpu));
    expect(chooseRung(small, { ...profile, matmul: { kind: "naive" } })).toEqual({ kind: "naive" });
    // A long sum is made in parts, whatever was measured.
    const long: MatmulSpec = { ...plain, m: 1024, n: 1024, k: 2 ** 20 };
    expect(chooseRung(long, withRung(lanes, "large", { kind: "subgroup", rows: 8 }))).toEqual({
      kind: "subgroup",
      rows: 8,
      splits: 16,
    });
  });

  it("nothing that was measured is for products of packed matrices", () => {
    const spec = { m: 64, rows: 64, columns: 64, transposed: true, addends: [], format: "q8" as const };
    const keys = (profile: AdapterProfile): string[] =>
      packedMatmul(spec, profile).steps.map(({ kernel }) => kernel.key);
    expect(keys(withRung(gpu, "small", { kind: "tiled", block: TILED["32x32"] }))).toEqual(keys(gpu));
  });
});

describe("attention", () => {
  it("has a class for each pass and size; short and large heads have the table's schedule", () => {
    const of = (count: number, owners: number, headDim: number): unknown =>
      attentionClass("forward", { count, owners, headDim }, gpu);
    expect([of(8191, 64, 64), of(8192, 64, 64), of(1, 17, 64)]).toEqual(["forward/few", "forward/many", "forward/few"]);
    expect([of(8192, 16, 64), of(8192, 64, 65)]).toEqual([undefined, undefined]);
    expect(attentionClass("backward", { count: 1e6, owners: 1, headDim: 999 }, software)).toBe("backward/few");
    const walk = { count: 100, owners: 64, headDim: 64 };
    const schedules: Schedules = { ...none, attention: { "forward/few": attentionSchedules["tiled64"]! } };
    expect(chooseSchedule("forward", walk, { ...gpu, schedules })).toEqual({ kind: "group" });
    expect(chooseSchedule("backward", walk, { ...gpu, schedules })).toEqual(chooseSchedule("backward", walk, gpu));
    expect(chooseSchedule("forward", { ...walk, owners: 16 }, { ...gpu, schedules })).toEqual(
      chooseSchedule("forward", { ...walk, owners: 16 }, gpu),
    );
  });
});

it("each class has four candidates or more, features only where they are, and its problems are of its class", () => {
  for (const profile of [software, gpu, lanes]) {
    const contests = contestsFor(profile);
    expect(new Set(contests.map(({ name }) => name)).size).toBe(contests.length);
    for (const { family, name, specs, candidates } of contests) {
      expect(candidates.length, name).toBeGreaterThanOrEqual(4);
      const text = JSON.stringify(candidates);
      if (profile !== lanes) expect(text).not.toMatch(/lanes|subgroup/);
      expect(text).not.toContain("half");
      for (const spec of specs) {
        if (family === "matmul") expect(classOf(spec as MatmulSpec, profile)).toBe(name);
        else {
          const { batch, queries, heads, headDim } = spec as Extract<typeof spec, { queries: number }>;
          const walk = { count: batch * queries * heads, owners: queries, headDim };
          expect(attentionClass(family === "attention" ? "forward" : "backward", walk, profile)).toBe(name);
        }
      }
    }
  }
  expect(JSON.stringify(contestsFor(lanes))).toMatch(/"lanes":4.*"rows":2/);
});
