/**
 * The WGSL attention against a score matrix in f64, forward and backward: masks, grouped heads, poisoned unseen places.
 */
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { AdapterProfile } from "../../kernels/kernel.ts";
import type { AttentionSpec } from "../../kernels/specs.ts";
import { attention, attentionBackward } from "../../kernels/wgsl/attention.ts";
import { attentionSchedules, tableSchedule } from "../../kernels/wgsl/attentionTable.ts";
import { expectClose, normals, runWgsl, type Values } from "./wgsl-harness.ts";

// The first compilation of a shader by Mesa takes up to a second; the arithmetic takes none.
vi.setConfig({ testTimeout: 300_000 });

const profiles: readonly AdapterProfile[] = [{ schedule: "software" }, { schedule: "gpu" }];
const [software, gpu] = profiles as [AdapterProfile, AdapterProfile];
const plain: AttentionSpec = {
  batch: 1,
  queries: 4,
  keys: 4,
  heads: 1,
  kvHeads: 1,
  headDim: 4,
  scale: 0.5,
  causal: true,
  mask: "none",
  window: 0,
};

interface Problem {
  readonly spec: AttentionSpec;
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
  readonly g: Float32Array;
  readonly aux: Int32Array;
}

/** Whether query t of row b sees key j. */
function sees({ spec, aux }: Problem, b: number, t: number, j: number): boolean {
  const p = (spec.mask === "start" ? aux[b]! : 0) + t;
  if (spec.causal && j > p) return false;
  if (spec.window > 0 && j <= p - spec.window) return false;
  if (spec.mask !== "segments") return true;
  const own = aux[b * spec.keys + p]!;
  return own >= 0 && own === aux[b * spec.keys + j];
}

/** Forward and backward, one query at a time over the keys that it sees. */
function reference(problem: Problem): Record<"o" | "lse" | "dq" | "dk" | "dv", Float64Array> {
  const { spec, q, k, v, g } = problem;
  const { batch, queries: T, keys: S, heads: H, kvHeads, headDim: D, scale } = spec;
  const o = new Float64Array(q.length);
  const lse = new Float64Array(batch * T * H).fill(-1e30);
  const [dq, dk, dv] = [q, k, v].map((x) => new Float64Array(x.length)) as [Float64Array, Float64Array, Float64Array];
  const dot = (x: ArrayLike<number>, xAt: number, y: ArrayLike<number>, yAt: number): number => {
    let sum = 0;
    for (let d = 0; d < D; d++) sum += x[xAt + d]! * y[yAt + d]!;
    return sum;
  };
  for (let row = 0; row < batch * T * H; row++) {
    const [b, t, h] = [Math.floor(row / H / T), Math.floor(row / H) % T, row % H];
    const keys = Array.from({ length: S }, (_, j) => j).filter((j) => sees(problem, b, t, j));
    if (keys.length === 0) continue;
    const at = row * D;
    const places = keys.map((j) => ((b * S + j) * kvHeads + Math.floor((h * kvHeads) / H)) * D);
    const scores = places.map((place) => scale * dot(q, at, k, place));
    const top = Math.max(...scores);
    lse[row] = top + Math.log(scores.reduce((sum, s) => sum + Math.exp(s - top), 0));
    const p = scores.map((s) => Math.exp(s - lse[row]!));
    places.forEach((place, i) => {
      for (let d = 0; d < D; d++) o[at + d]! += p[i]! * v[place + d]!;
    });
    const delta = dot(o, at, g, at);
    places.forEach((place, i) => {
      const ds = p[i]! * (dot(g, at, v, place) - delta) * scale;
      for (let d = 0; d < D; d++) {
        dq[at + d]! += ds * k[place + d]!;
        dk[place + d]! += ds * q[at + d]!;
        dv[place + d]! += p[i]! * g[at + d]!;
      }
    });
  }
  return { o, lse, dq, dk, dv };
}

function makeProblem(partial: Partial<AttentionSpec>, seed: number): Problem {
  const spec = { ...plain, ...partial };
  const { batch, queries, keys, heads, kvHeads, headDim, mask } = spec;
  const rng = new Rng(seed);
  const values = (rows: number): Float32Array => normals(rng, batch * rows * headDim);
  const aux = new Int32Array(mask === "start" ? batch : mask === "segments" ? batch * keys : 0);
  if (mask === "start") aux.forEach((_, b) => (aux[b] = rng.int(keys + 2) - 1));
  let segment = 0;
  if (mask === "segments") {
    aux.forEach((_, i) => {
      if (rng.uniform() < 0.2) segment++;
      aux[i] = rng.uniform() < 0.2 ? -1 : segment;
    });
  }
  const q = values(queries * heads);
  const [k, v] = [values(keys * kvHeads), values(keys * kvHeads)];
  return { spec, q, k, v, g: values(queries * heads), aux };
}

const auxInput = (p: Problem): Values[] => (p.spec.mask === "none" ? [] : [p.aux]);

async function forward(p: Problem, profile = software): Promise<[Float32Array, Float32Array]> {
  const rows = p.spec.batch * p.spec.queries * p.spec.heads;
  const [o, lse] = await runWgsl(
    attention(p.spec, profile),
    [p.q, p.k, p.v, ...auxInput(p)],
    [rows * p.spec.headDim, rows],
  );
  return [o!, lse!];
}

const backward = (p: Problem, o: Float32Array, lse: Float32Array, profile = software): Promise<Float32Array[]> =>
  runWgsl(
    attentionBackward(p.spec, profile),
    [p.q, p.k, p.v, o, lse, p.g, ...auxInput(p)],
    [p.q.length, p.k.length, p.v.length],
  );

async function verify(p: Problem, profile: AdapterProfile): Promise<void> {
  const expected = reference(p);
  const [o, lse] = await forward(p, profile);
  // WGSL grants exp 3 + 2|x| ULP: scores of a few units give 1e-6 relative, with room for other drivers.
  expectClose(o, expected.o, 1e-5);
  expectClose(lse, expected.lse, 1e-5);
  const gradients = await backward(p, o, lse, profile);
  // p·(g·v − D) subtracts two sums of headDim products, which costs a digit.
  [expected.dq, expected.dk, expected.dv].forEach((d, i) => expectClose(gradients[i]!, d, 1e-4));
}

const copyOf = (p: Problem): Problem => ({ ...p, q: p.q.slice(), k: p.k.slice(), v: p.v.slice(), g: p.g.slice() });

describe("wgsl attention", () => {
  it("agrees with the f64 score matrix on random problems", async () => {
    const arbitrary = fc.record({
      batch: fc.integer({ min: 1, max: 3 }),
      queries: fc.integer({ min: 1, max: 19 }),
      keys: fc.integer({ min: 1, max: 19 }),
      kvHeads: fc.integer({ min: 1, max: 3 }),
      group: fc.integer({ min: 1, max: 3 }),
      headDim: fc.constantFrom(4, 7), // vectors and scalars; each size is four pipelines per mask
      scale: fc.constantFrom(0.3, 1),
      causal: fc.boolean(),
      mask: fc.constantFrom("none" as const, "start" as const, "segments" as const),
      window: fc.constantFrom(0, 0, 1, 5),
    });
    await fc.assert(
      fc.asyncProperty(arbitrary, fc.nat(1e6), ({ group, ...spec }, seed) => {
        const queries = spec.mask === "segments" ? spec.keys : spec.queries;
        const window = spec.causal ? spec.window : 0;
        return verify(makeProblem({ ...spec, window, queries, heads: group * spec.kvHeads }, seed), software);
      }),
      { numRuns: 40, seed: 50 },
    );
  });

  it("holds for the table's schedules on GPUs, with few and many queries, and with one", async () => {
    const quads: AdapterProfile = { ...gpu, adapter: "nvidia", features: ["subgroups"] };
    const size = { batch: 2, queries: 17, keys: 17, heads: 4, kvHeads: 2 };
    for (const mask of ["none", "segments"] as const) await verify(makeProblem({ ...size, mask }, 51), gpu);
    await verify(makeProblem({ ...size, headDim: 16 }, 51), quads);
    await verify(makeProblem({ batch: 3, queries: 1, keys: 21, mask: "start" }, 51), gpu);
    // More queries and keys than the table's limits.
    await verify(makeProblem({ ...size, batch: 242, headDim: 16 }, 51), quads);
    await verify(makeProblem({ ...size, batch: 964 }, 51), gpu);
  });

  it("takes its schedule from the table, by the adapter and the shape only", () => {
    const [few, many, most] = [1024, 24576, 49152].map((count) => ({ count, owners: 64, headDim: 64 }));
    const both = (walk: typeof few, features: readonly string[], adapter = "nvidia"): string[] =>
      (["forward", "backward"] as const).map((pass) => tableSchedule(pass, walk!, { ...gpu, adapter, features }));
    const quads = ["subgroups"];
    expect(both(few, quads)).toEqual(["lanesSplit4", "lanesChunk4"]);
    expect(both(many, quads)).toEqual(["tiled64chunk4", "lanesRows2"]);
    // Quads of neighbours were seen on one driver.
    for (const adapter of ["amd", "intel", "apple", ""]) {
      for (const walk of [few, many, most]) expect(both(walk, quads, adapter)).toEqual(both(walk, []));
    }
    expect(both(few, [])).toEqual(["split4chunk4", "split4"]);
    expect(both(many, [])).toEqual(["tiled64chunk4", "split4"]);
    expect(both(most, [])).toEqual(["tiled64chunk4", "tiled64"]);
    // Heads that four lanes cannot divide, heads whose registers are many, heads with few queries.
    expect(both({ ...most!, headDim: 5 }, quads)).toEqual(both(most, []));
    expect(both({ ...most!, headDim: 128 }, quads)).toEqual(["lanesRows2", "lanesChunk4"]);
    expect(both({ ...most!, headDim: 128 }, [])).toEqual(["tiled64", "tiled64"]);
    expect(both({ ...most!, owners: 8 }, quads)).toEqual(["split4chunk4", "lanesChunk4"]);
    expect(tableSchedule("forward", few!, { ...software, features: quads })).toBe("thread");
    expect(attention(plain, software).steps[0]!.kernel.key).toBe("attention/4/causal/none/16");
  });

  it("compiles nothing new for another shape of the same class", () => {
    const keysOf = (batch: number): string[] => {
      const spec = { ...plain, batch, queries: 40 + batch, keys: 40 + batch, heads: 4, kvHeads: 2, headDim: 16 };
      return [attention, attentionBackward].flatMap((of) => of(spec, gpu).steps.map(({ kernel }) => kernel.key));
    };
    expect(keysOf(3)).toEqual(keysOf(2));
  });

  it("holds for other head sizes, short and long (whose loops are not written out)", async () => {
    for (const headDim of [1, 16, 18, 128]) {
      await verify(
        makeProblem({ queries: 5, keys: 5, heads: 2, headDim, scale: 1 / Math.sqrt(headDim) }, 52),
        software,
      );
    }
  });

  it("lets a query heads' count that is no multiple of the kv heads read ⌊h·Hkv/H⌋", async () => {
    await verify(makeProblem({ queries: 5, keys: 5, heads: 5, kvHeads: 3 }, 53), software);
  });

  it("decodes with the bits of the full forward", async () => {
    const full = makeProblem({ queries: 21, keys: 21, heads: 4, kvHeads: 2, headDim: 8 }, 54);
    const [o, lse] = await forward(full);
    const width = 4 * 8;
    for (const t of [0, 1, 13, 20]) {
      const one: Problem = {
        ...full,
        spec: { ...full.spec, queries: 1, mask: "start" },
        q: full.q.slice(t * width, (t + 1) * width),
        aux: Int32Array.of(t),
      };
      const [o1, lse1] = await forward(one);
      expect(o1).toEqual(o.slice(t * width, (t + 1) * width));
      expect(lse1).toEqual(lse.slice(t * 4, (t + 1) * 4));
    }
  });

  it("keeps what is not seen without influence, whatever it holds", async () => {
    const size = { batch: 2, queries: 12, keys: 12, heads: 2, kvHeads: 1, headDim: 7 };
    for (const poison of [NaN, 1e30, -1e30]) {
      for (const causal of [true, false]) {
        const clean = makeProblem({ ...size, mask: "segments", causal }, 55);
        const dirty = copyOf(clean);
        clean.aux.forEach((segment, row) => {
          if (segment >= 0) return;
          for (const x of [dirty.q, dirty.g]) x.fill(poison, row * 14, (row + 1) * 14);
          for (const x of [dirty.k, dirty.v]) x.fill(poison, row * 7, (row + 1) * 7);
        });
        const [o, lse] = await forward(clean);
        const [o2, lse2] = await forward(dirty);
        expect(o2).toEqual(o);
        expect(lse2).toEqual(lse);
        expect(await backward(dirty, o, lse)).toEqual(await backward(clean, o, lse));
      }
      // Causal: keys and values after the query.
      const clean = makeProblem({ ...size, batch: 1 }, 56);
      const dirty = copyOf(clean);
      for (const x of [dirty.k, dirty.v]) x.fill(poison, 5 * 7);
      expect((await forward(dirty))[0].slice(0, 5 * 14)).toEqual((await forward(clean))[0].slice(0, 5 * 14));
      // A KV cache: the slots beyond the last query.
      const cached = makeProblem({ ...size, batch: 1, queries: 3, mask: "start" }, 57);
      cached.aux[0] = 4;
      const expected = await forward(cached);
      for (const x of [cached.k, cached.v]) x.fill(poison, 7 * 7);
      expect(await forward(cached)).toEqual(expected);
    }
  });

  it("gives zeros, −1e30 and no gradient to a query that sees nothing", async () => {
    for (const profile of profiles) {
      const p = makeProblem({ queries: 6, keys: 6, mask: "segments" }, 58);
      p.aux.fill(-1);
      const [o, lse] = await forward(p, profile);
      expect(o).toEqual(new Float32Array(24));
      expect(lse).toEqual(new Float32Array(6).fill(-1e30));
      for (const d of await backward(p, o, lse, profile)) expect(d).toEqual(new Float32Array(24));
    }
  });

  describe("schedules", () => {
    const subgroups = ["subgroups"];
    const by = (name: string): AdapterProfile => ({
      schedule: "software",
      attention: attentionSchedules[name]!,
      features: subgroups,
    });
    /** A head that the schedule's lanes can divide. Short loops: most of the time goes into compiling. */
    const headOf = (name: string): number => (name.startsWith("lanes") ? 16 : 5);
    // Several workgroups, tiles that end within, several owners of a thread, and sizes of which a workgroup is idle.
    const sizes = [65, 3, 1];

    /** A schedule with its own loop or text each: these try every mask. */
    const main = ["tiled64", "split4chunk4", "lanesRows2"];
    const others = ["tiled64chunk4", "split4", "lanesChunk4", "lanesSplit4"];
    it.each(main)("%s: causal with grouped heads, a window, starts, segments", async (name) => {
      const size = { batch: 2, headDim: headOf(name) };
      for (const T of sizes) {
        const square = { ...size, queries: T, keys: T };
        await verify(makeProblem({ ...square, heads: 4, kvHeads: 2 }, 60), by(name));
        await verify(makeProblem({ ...size, queries: T, keys: 66, heads: 3, mask: "start", window: 9 }, 61), by(name));
        await verify(makeProblem({ ...square, mask: "segments", causal: false, heads: 2, kvHeads: 1 }, 62), by(name));
      }
    });

    it.each([...main, ...others])(
      "%s: keeps what is not seen without influence, and gives zeros where nothing is",
      async (name) => {
        const heads = { heads: 2, kvHeads: 1, headDim: headOf(name) };
        const clean = makeProblem({ batch: 2, queries: 40, keys: 40, ...heads, mask: "segments", causal: false }, 63);
        const dirty = copyOf(clean);
        clean.aux.forEach((segment, row) => {
          if (segment >= 0) return;
          for (const x of [dirty.q, dirty.g]) x.fill(NaN, 2 * row * heads.headDim, 2 * (row + 1) * heads.headDim);
          for (const x of [dirty.k, dirty.v]) x.fill(Infinity, row * heads.headDim, (row + 1) * heads.headDim);
        });
        const [o, lse] = await forward(clean, by(name));
        expect(await forward(dirty, by(name))).toEqual([o, lse]);
        expect(await backward(dirty, o, lse, by(name))).toEqual(await backward(clean, o, lse, by(name)));
        // Causal: keys and values after a query of the same workgroup.
        const before = makeProblem({ batch: 1, queries: 12, keys: 12, ...heads }, 64);
        const after = copyOf(before);
        for (const x of [after.k, after.v]) x.fill(NaN, 5 * heads.headDim);
        const seen = 5 * 2 * heads.headDim;
        const [first, second] = [await forward(before, by(name)), await forward(after, by(name))];
        expect(second[0].slice(0, seen)).toEqual(first[0].slice(0, seen));
        clean.aux.fill(-1);
        const [none, least] = await forward(clean, by(name));
        expect(none).toEqual(new Float32Array(none.length));
        expect(least).toEqual(new Float32Array(least.length).fill(-1e30));
        for (const d of await backward(clean, none, least, by(name))) expect(d).toEqual(new Float32Array(d.length));
      },
    );

    it.each(others)("%s: causal", async (name) => {
      for (const T of sizes) await verify(makeProblem({ queries: T, keys: T, headDim: headOf(name) }, 65), by(name));
    });

    it.each([
      ["split4", 20],
      ["lanesChunk4", 128],
    ] as const)("%s: holds for heads of %i, whose loops are not written out", (name, headDim) =>
      verify(makeProblem({ queries: 33, keys: 33, headDim, scale: 0.1 }, 66), by(name)),
    );

    it("add the sums of splits, written out, in two exchanges", () =>
      verify(makeProblem({ queries: 9, keys: 9, headDim: 20 }, 69), { ...by("split4"), schedule: "gpu" }));

    it("fit into the workgroup memory of every adapter, at every head size", () => {
      for (const name of Object.keys(attentionSchedules)) {
        for (const headDim of [1, 5, 32, 33, 64, 80, 128, 256]) {
          const spec = { ...plain, headDim };
          for (const { kernel } of [...attention(spec, by(name)).steps, ...attentionBackward(spec, by(name)).steps]) {
            const code = kernel.code();
            const [, width, across] = /Row = array<array<V, (\d+)>, (\d+)>/.exec(code) ?? [];
            const sizeOf = (type: string): number => {
              if (type === "Row") return Number(width) * Number(across) * sizeOf("V");
              return type === "vec2f" ? 8 : type === "V" && headDim % 4 === 0 ? 16 : 4;
            };
            const arrays = [...code.matchAll(/var<workgroup> \w+: array<(\w+), (\d+)>/g)];
            const sizesOf = arrays.map(([, type, n]) => sizeOf(type!) * Number(n));
            expect(arrays.length).toBe(code.match(/var<workgroup>/g)?.length ?? 0);
            expect(
              sizesOf.reduce((a, b) => a + b, 0),
              kernel.key,
            ).toBeLessThanOrEqual(16384);
          }
        }
      }
    });

    it("say which feature is missing, and give the same bits every time", async () => {
      expect(() => attention({ ...plain, headDim: 16 }, { ...by("lanesChunk4"), features: [] })).toThrow(
        'needs "subgroups"',
      );
      const p = makeProblem({ queries: 65, keys: 65, headDim: 5 }, 68);
      expect(await forward(p, by("split4chunk4"))).toEqual(await forward(p, by("split4chunk4")));
    });
  });

  it("stands scores far apart and large", async () => {
    const p = makeProblem({ queries: 12, keys: 12, headDim: 8, scale: 30 }, 59);
    const expected = reference(p);
    const [o, lse] = await forward(p);
    expectClose(lse, expected.lse, 1e-5);
    // Scores of ±200 have errors of 1e-5, and so have the probabilities, times those of exp.
    expectClose(o, expected.o, 1e-3);
  });
});
