/**
 * Frozen matrices in 16 and 8 bits: what packing does to a number, products against those with the unpacked matrix, and
 * models with packed matrices against the f32 models that have the same weights, adapters included.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  add,
  type Device,
  device as makeDevice,
  matmul,
  randomNormal,
  scope,
  sum,
  tensor,
  type Tensor,
  tokenLogProbs,
  treeEntries,
  treeLeaves,
  valueAndGrad,
} from "../../../engine/index.ts";
import { Rng } from "../../../engine/random.ts";
import {
  addLora,
  type LoraParams,
  packedBytes,
  PackedMatrix,
  packMatrix,
  packModel,
  type PackedFormat,
} from "../../../pretrained/index.ts";
import {
  countParameters,
  forward,
  generate,
  initParams,
  logits,
  type Model,
  modelConfig,
  outputMatrix,
  replaceWeights,
  trainableOf,
} from "../../../nn/index.ts";
import { fromBfloat16Bits, fromFloat16Bits } from "../../../nn/half.ts";
import { packedMatmul } from "../../../pretrained/packed/wasmProducts.ts";
import * as wgsl from "../../../pretrained/packed/wgsl.ts";
import { runWasm } from "../../kernels/wasm-harness.ts";
import { gpuOptions } from "../../support/gpu.ts";

const FORMATS = ["bf16", "f16", "q8"] as const;
const KINDS = ["reference", "wasm", "webgpu"] as const;
const devices = {} as Record<(typeof KINDS)[number], Device>;
beforeAll(async () => {
  devices.reference = await makeDevice("reference", { precision: "f32" });
  devices.wasm = await makeDevice("wasm", { threads: 1 });
  devices.webgpu = await makeDevice("webgpu", { webgpu: gpuOptions });
});
afterAll(() => Object.values(devices).forEach((d) => d.dispose()));

const bytesOf = (x: Float32Array | Uint16Array): Uint8Array => new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
const normals = (rng: Rng, n: number, std = 1): Float32Array =>
  Float32Array.from({ length: n }, () => std * rng.normal());
const bitsOf = (x: ArrayLike<number>): number[] => [...new Int32Array(Float32Array.from(x).buffer)];
const pack = (on: Device, format: PackedFormat, values: Float32Array, shape: [number, number]): PackedMatrix =>
  packMatrix({ dtype: "F32", shape, bytes: bytesOf(values) }, { format, device: on });
const largest = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Array.from(a).reduce((worst, v, i) => Math.max(worst, Math.abs(v - b[i]!)), 0);

describe("packing", () => {
  it.each(KINDS)("keeps every finite pattern of BF16 and F16, %s", async (kind) => {
    for (const [dtype, format, exponent, widen] of [
      ["BF16", "bf16", 0x7f80, fromBfloat16Bits],
      ["F16", "f16", 0x7c00, fromFloat16Bits],
    ] as const) {
      const all = Uint16Array.from({ length: 65536 }, (_, i) => i);
      // WGSL may take subnormal f32 for 0, and of bf16 those patterns are.
      const isLost = (b: number): boolean => kind === "webgpu" && format === "bf16" && (b & 0x7f80) === 0;
      const finite = all.filter((b) => (b & exponent) !== exponent && !isLost(b));
      const columns = 127; // no multiple of a group
      const bits = finite.subarray(0, finite.length - (finite.length % columns));
      const matrix = packMatrix(
        { dtype, shape: [bits.length / columns, columns], bytes: bytesOf(bits) },
        { format, device: devices[kind] },
      );
      expect(bitsOf(await matrix.unpack().read())).toEqual(bitsOf(widen(bits)));
    }
  });

  it("rounds q8 to half a step of each block, exactly and once", () => {
    const rng = new Rng(5);
    const shape: [number, number] = [9, 75]; // the last block of a row has 11 columns
    const values = normals(rng, 9 * 75).map((v, i) => v * 10 ** ((i % 13) - 6));
    values.fill(0, 75, 150);
    const on = devices.reference;
    const unpacked = pack(on, "q8", values, shape).unpack().readSync() as Float32Array;
    for (let row = 0; row < 9; row++) {
      for (let first = 0; first < 75; first += 32) {
        const [from, to] = [row * 75 + first, row * 75 + Math.min(75, first + 32)];
        const most = Math.max(...values.subarray(from, to).map(Math.abs));
        // The scale has 16 bits: it may be above max / 127 by 2⁻¹⁵ of itself.
        expect(largest(values.subarray(from, to), unpacked.subarray(from, to))).toBeLessThanOrEqual(
          (most / 254) * (1 + 2 ** -15),
        );
      }
    }
    expect([...pack(on, "q8", unpacked, shape).unpack().readSync()]).toEqual([...unpacked]);
    // 127 steps of 2⁻⁷ and their halves: ties go away from zero.
    const ties = Float32Array.of(127, 0.5, -0.5, 1.5, 2.5, -2.5).map((v) => v / 128);
    expect([...pack(on, "q8", ties, [1, 6]).unpack().readSync()].map((v) => v * 128)).toEqual([127, 1, -1, 2, 3, -3]);
  });

  it("takes the same words from any element type, aligned or not, and rounds 16 bits to nearest", () => {
    const on = devices.reference;
    const values = Float32Array.from([1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, -65504, 2 ** -24, 0.1]);
    const bf16 = [...pack(on, "bf16", values, [2, 3]).unpack().readSync()];
    expect(bf16).toEqual([1, 1, 1 + 2 ** -6, -65536, 2 ** -24, 0.10009765625]);
    const f16 = [...pack(on, "f16", values, [2, 3]).unpack().readSync()];
    expect(f16).toEqual([1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, -65504, 2 ** -24, 0.0999755859375]);
    const shifted = new Uint8Array(25);
    shifted.set(bytesOf(values), 1);
    const options = { format: "q8", device: on } as const;
    const unaligned = packMatrix({ dtype: "F32", shape: [2, 3], bytes: shifted.subarray(1) }, options);
    expect([...unaligned.packed.readSync()]).toEqual([...pack(on, "q8", values, [2, 3]).packed.readSync()]);
  });

  it("goes by chunks of rows, and turns matrices that are stored [in, out]", () => {
    const on = devices.wasm;
    const [rows, columns] = [300, 8192]; // three chunks
    const values = Float32Array.from({ length: rows * columns }, (_, i) => (i % 4001) - 2000);
    const matrix = pack(on, "f16", values, [rows, columns]);
    expect(matrix.bytes).toBe(packedBytes("f16", [rows, columns]));
    expect(matrix.bytes).toBe(2 * rows * columns);
    expect(packedBytes("q8", [rows, columns])).toBe(1.125 * rows * columns);
    expect(largest(matrix.unpack().readSync(), values)).toBe(0);

    const small = normals(new Rng(1), 24, 0.1);
    const stored = packMatrix(
      { dtype: "F32", shape: [6, 4], bytes: bytesOf(small) },
      { format: "bf16", device: on, transposed: true },
    );
    expect(stored.shape).toEqual([6, 4]);
    const x = randomNormal(new Rng(2), [3, 6], { device: on });
    expect(largest(stored.times(x).readSync(), matmul(x, stored.unpack()).readSync())).toBeLessThan(1e-6);
    expect(() => stored.rows(tensor([0], { device: on, dtype: "i32" }))).toThrow(
      "PackedMatrix.rows: a matrix [6, 4] that is stored [in, out]",
    );
  });

  it("refuses what it cannot hold, in one line, and leaves nothing behind", () => {
    const on = devices.wasm;
    const { liveBytes } = on.backend.stats();
    const values = new Float32Array(40 * 40).fill(1);
    const bytes = bytesOf(values);
    const shape = [40, 40];
    const f32 = { dtype: "F32", shape, bytes } as const;
    values[41] = Infinity;
    for (const format of FORMATS) {
      expect(() => packMatrix(f32, { format, device: on })).toThrow(
        "packMatrix: the weight in row 1, column 1 is not finite",
      );
    }
    values[41] = 65520;
    expect(() => packMatrix(f32, { format: "f16", device: on })).toThrow(
      "packMatrix: the weight in row 1 is beyond the range of f16 (65504)",
    );
    expect(() => packMatrix({ ...f32, shape: [40, 41] }, { format: "q8", device: on })).toThrow(
      "packMatrix: F32[40, 41] takes 6560 bytes, got 6400",
    );
    expect(() => packMatrix({ ...f32, dtype: "I8" as "F32" }, { format: "q8", device: on })).toThrow("got I8");
    expect(() => packMatrix(f32, { format: "q4" as "q8", device: on })).toThrow('got "q4"');
    expect(on.backend.stats().liveBytes).toBe(liveBytes);
  });
});

describe("products", () => {
  // Sizes that are whole blocks of q8, so that sums run in matmul's order; rows of both kernels, their edges included.
  const [n, k] = [69, 96];
  describe.each(FORMATS)("%s", (format) => {
    it.each(["reference", "wasm"] as const)("have the bits of those with the unpacked matrix, %s", (kind) => {
      const on = devices[kind];
      const rng = new Rng(7);
      const matrix = pack(on, format, normals(rng, n * k, 0.05), [n, k]);
      const whole = matrix.unpack();
      const bias = randomNormal(rng.split("bias"), [n], { device: on });
      for (const m of [1, 2, 3, 4, 7, 70]) {
        const x = randomNormal(rng.split(m), [m, k], { device: on });
        const addend = randomNormal(rng.split(2000 + m), [m, n], { device: on });
        const g = randomNormal(rng.split(1000 + m), [m, n], { device: on });
        const loss = (times: (x: Tensor) => Tensor) =>
          valueAndGrad((x: Tensor) => {
            const y = times(x);
            return [sum(matmul(g, y, { transB: true })), y] as const;
          })(x);
        const [ours, theirs] = [
          loss((x) => matrix.times(x, bias, addend)),
          loss((x) => matmul(x, whole, { transB: true, bias, addend })),
        ];
        expect(bitsOf(ours.aux.readSync())).toEqual(bitsOf(theirs.aux.readSync()));
        expect(bitsOf(ours.grads.readSync())).toEqual(bitsOf(theirs.grads.readSync()));
      }
    });
  });

  it("are made on a GPU from tiles of 64×64 where large ones are too few, and in one part", () => {
    const spec = { format: "q8", m: 128, rows: 3072, columns: 1024, transposed: true, addends: [] } as const;
    const kernels = (m: number): string[] =>
      wgsl.packedMatmul({ ...spec, m }, { schedule: "gpu" }).steps.map(({ kernel }) => kernel.key);
    expect(kernels(128)).toEqual([expect.stringContaining("matmul/tiled/4x1/16x16x16/")]);
    expect(kernels(1024)).toEqual([expect.stringContaining("matmul/tiled/8x1/16x16x16/")]);
  });

  it("are the same for any partition into units, touch no other memory, and no row sees its neighbours", () => {
    for (const format of FORMATS) {
      const matrix = pack(devices.wasm, format, normals(new Rng(3), n * k, 0.05), [n, k]);
      const words = matrix.packed.readSync() as Int32Array;
      const spec = { format, rows: n, columns: k, addends: [] };
      const x = normals(new Rng(4), 70 * k);
      const all = bitsOf(matrix.times(tensor(x, { device: devices.wasm, shape: [70, k] })).readSync());
      for (const m of [1, 3, 9, 70]) {
        const program = packedMatmul({ ...spec, m, transposed: true });
        const [y] = runWasm(program, [x.slice(0, m * k), words], [m * n], m);
        expect(bitsOf(y!)).toEqual(all.slice(0, m * n));
      }
      const g = normals(new Rng(5), 9 * n);
      const [first, second] = [1, 2].map(
        (seed) => runWasm(packedMatmul({ ...spec, m: 9, transposed: false }), [g, words], [9 * k], seed)[0]!,
      );
      expect(bitsOf(first!)).toEqual(bitsOf(second!));
    }
  });
});

const CONFIGS = {
  qwen3: { vocabSize: 37, hiddenSize: 32, layers: 2, heads: 4, kvHeads: 2, intermediateSize: 64, maxPositions: 32 },
  gpt2: { vocabSize: 37, hiddenSize: 32, layers: 1, heads: 2, maxPositions: 32 },
} as const;

describe.each(["qwen3", "gpt2"] as const)("a %s model", (family) => {
  const config = modelConfig({ family, ...CONFIGS[family] });
  const prompts = [
    [3, 1, 4, 1],
    [5, 9],
  ];
  const unpacked = (model: Model): Model => ({
    config,
    params: replaceWeights(model.params, (w) => (w instanceof PackedMatrix ? w.unpack() : w)),
  });
  /** Chunks of three tokens, so that the packed output matrix goes through recomputation. */
  const lossOf = (model: Model, on: Device): Tensor => {
    const ids = tensor(Int32Array.from([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]), { device: on, shape: [2, 6] });
    const { params } = model;
    const hidden = forward(params, config, ids);
    return sum(tokenLogProbs(hidden, outputMatrix(params), ids, { maxChunkBytes: 3 * 37 * 4 }).logProbs);
  };

  describe.each(family === "qwen3" ? KINDS : KINDS.slice(0, 2))("%s", (kind) => {
    // Each format's WGSL runs in tests/ops; here one model shows that they fit together, as pipelines take seconds.
    const formats = kind === "webgpu" ? (["q8"] as const) : FORMATS;
    it.each(formats)("computes in %s what the f32 model with its weights does", async (format) => {
      const on = devices[kind];
      const packed = await packModel({ config, params: initParams(config, new Rng(11), on) }, format);
      const whole = unpacked(packed);
      expect(treeLeaves(packed.params).some((x) => x.dtype === "i32")).toBe(true);

      // Decoding with a cache, greedily and drawn.
      for (const sampling of [{ temperature: 0 }, { temperature: 1, rng: new Rng(2) }]) {
        const options = { maxNewTokens: 8, ...sampling };
        const [ours, theirs] = [await generate(packed, prompts, options), await generate(whole, prompts, options)];
        expect(ours.map(({ tokens }) => tokens.map(({ id }) => id))).toEqual(
          theirs.map(({ tokens }) => tokens.map(({ id }) => id)),
        );
      }

      // Log-probabilities, and gradients of an adapter whose B is not zero (QLoRA's setting).
      const options = { r: 2, targetModules: "all-linear" } as const;
      const adapted = [packed, whole].map((model) => addLora(model, options, new Rng(4)));
      const results = adapted.map((model) => {
        const { params, modelOf } = model.trainable;
        const moved = nonZero(params, on);
        return valueAndGrad((p: LoraParams) => lossOf(modelOf(p), on))(moved);
      });
      const [ours, theirs] = results as [(typeof results)[0], (typeof results)[0]];
      const tolerance = kind === "webgpu" ? 1e-4 : 2e-5;
      const value = await theirs.value.item();
      expect(Math.abs((await ours.value.item()) - value)).toBeLessThan(tolerance * Math.abs(value));
      const expected = new Map(treeEntries(theirs.grads));
      for (const [path, g] of treeEntries(ours.grads)) {
        const values = await expected.get(path)!.read();
        const scale = Math.max(...values.map(Math.abs), 1);
        expect(largest(await g.read(), values), path).toBeLessThan(tolerance * scale);
      }
      expect(countParameters(adapted[0]!)).toEqual(countParameters(adapted[1]!));
    });
  });

  it("cannot be trained itself, and says so", async () => {
    const packed = await packModel({ config, params: initParams(config, new Rng(11), devices.wasm) }, "q8");
    expect(() => trainableOf(packed)).toThrow("trainableOf: only floats can be trained; add an adapter");
  });

  it("may have matrices of several formats, and some that stay f32", async () => {
    const on = devices.wasm;
    const model = { config, params: initParams(config, new Rng(11), on) };
    const mixed = await packModel(model, (path) =>
      path === "embedding" ? undefined : /mlp/.test(path) ? "q8" : "bf16",
    );
    expect(mixed.params.embedding).toBe(model.params.embedding);
    expect((mixed.params.layers[0]!.mlp.up.weight as PackedMatrix).format).toBe("q8");
    expect((mixed.params.layers[0]!.attention.o.weight as PackedMatrix).format).toBe("bf16");
    const ids = tensor(Int32Array.from([1, 2, 3]), { device: on, shape: [1, 3] });
    const read = (m: Model): ArrayLike<number> =>
      scope(() => logits(m.params, forward(m.params, config, ids))).readSync();
    expect(largest(read(mixed), read(model))).toBeLessThan(0.02);
    expect(largest(read(mixed), read(unpacked(mixed)))).toBeLessThan(1e-6);
  });
});

/** The adapter with noise on all its tensors: B begins with zeros, and then A has no gradient. */
function nonZero(params: LoraParams, on: Device): LoraParams {
  const rng = new Rng(8);
  return Object.fromEntries(
    Object.entries(params).map(([name, pair]) => [
      name,
      Object.fromEntries(
        Object.entries(pair).map(([key, x]) => [
          key,
          add(x, randomNormal(rng.split(`${name} ${key}`), x.shape, { device: on, std: 0.05 })),
        ]),
      ),
    ]),
  ) as LoraParams;
}
