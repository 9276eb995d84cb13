/** The text of a few kernels, so that a change of a generator is read in a diff. */
import { expect, test } from "vitest";
import { constant, differentiate, type Expr, input, named } from "../../kernels/expr.ts";
import { copy, gather, pointwise, reduce } from "../../kernels/wgsl/index.ts";
import { f32Literal, gridFor } from "../../kernels/wgsl/shader.ts";

const software = { schedule: "software" } as const;

test("literals are exact; there is none beyond the range of f32", () => {
  expect([1, -0, 0.1, 1e-30].map(f32Literal)).toEqual([
    "1.0f",
    "-0.0f",
    "0.10000000149011612f",
    "1.0000000031710769e-30f",
  ]);
  for (const value of [NaN, Infinity, -Infinity, 1e300]) {
    expect(() => f32Literal(value)).toThrow(`f32Literal: ${value} has no WGSL literal`);
  }
});

test("grids", () => {
  expect(gridFor(1, 64)).toEqual([1, 1, 1]);
  expect(gridFor(65535 * 64, 64)).toEqual([65535, 1, 1]);
  expect(gridFor(65535 * 64 + 1, 64)).toEqual([65535, 2, 1]);
});

test("pointwise: silu(x + bias)", () => {
  const x = input(0).add(input(1));
  const spec = {
    name: "silu",
    outputs: [x.mul(x.sigmoid())],
    inputs: [
      { kind: "tensor", strides: [3, 1] },
      { kind: "tensor", strides: [0, 1] },
    ],
    dims: [2, 3],
    inPlace: [-1],
  } as const;
  expect(pointwise(spec, software).steps[0]!.kernel.code()).toMatchInlineSnapshot(`
    "@group(0) @binding(0) var<storage, read> in0: array<f32>;
    @group(0) @binding(1) var<storage, read> in1: array<f32>;
    @group(0) @binding(2) var<storage, read_write> out0: array<f32>;
    struct Params { count: u32, stride1_1: u32, dim1: u32 }
    @group(0) @binding(3) var<uniform> params: Params;

    fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
    // (e^r - 1 - r) / r^2 for |r| <= ln(2)/2
    fn exp_poly(r: f32) -> f32 {
      return ((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r
        + 1.6666665459e-1f) * r + 5.0000001201e-1f;
    }
    // e^x = 2^n e^r with |r| <= ln(2)/2; ln(2) in two parts, so that n ln(2) is exact;
    // 2^n in two factors, for the ends of the range
    fn exp_f32(x: f32) -> f32 {
      let bounded = clamp(x, -104.0f, 89.0f);
      let n = floor(bounded * 1.44269504f + 0.5f);
      let r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
      let half = i32(n) >> 1u;
      let scale = bitcast<f32>((half + 127) << 23u);
      let rest = bitcast<f32>((i32(n) - half + 127) << 23u);
      let y = ((exp_poly(r) * r * r + r) + 1.0f) * scale * rest;
      return select(y, x, is_nan(x));
    }
    fn sigmoid_f32(x: f32) -> f32 {
      let e = exp_f32(-abs(x));
      return select(e, 1.0f, x >= 0.0f) / (1.0f + e);
    }

    fn formula(x0: f32, x1: f32) -> f32 {
      let v0 = x0 + x1;
      let v1 = sigmoid_f32(v0);
      let v2 = v0 * v1;
      return v2;
    }

    @compute @workgroup_size(64)
    fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
      let i = (group.y * 65535u + group.x) * 64u + lane;
      if (i >= params.count) { return; }
      let c1 = i % params.dim1;
      let x0 = in0[i];
      let x1 = in1[c1 * params.stride1_1];
      let y0 = formula(x0, x1);
      out0[i] = y0;
    }
    "
  `);
});

test("a name changes neither the kernel, nor its key, nor the derivative", () => {
  const written = (call: (symbol: string, x: Expr) => Expr): Expr => {
    const x = call("x", input(0).sub(call("b", input(1))));
    return x
      .exp()
      .mul(x.clamp(call("low", input(1)), 1))
      .add(input(0).sub(input(1)));
  };
  const [plain, other] = [written((_, x) => x), written(named)];
  expect(other.id).toBe(plain.id);
  const idsOf = (e: Expr): number[] => differentiate([e], [constant(1)], [0, 1]).map(({ id }) => id);
  expect(idsOf(other)).toEqual(idsOf(plain));
  const [kernel, same] = [plain, other].map((output) => {
    const inputs = [1, 2].map(() => ({ kind: "tensor", strides: [1] }) as const);
    return pointwise({ name: "f", outputs: [output], inputs, dims: [3], inPlace: [-1] }, software).steps[0]!.kernel;
  });
  expect([same!.key, same!.code()]).toEqual([kernel!.key, kernel!.code()]);
});

test("pointwise: two outputs, one in place, four elements per thread", () => {
  const spec = {
    name: "rotate",
    outputs: [input(0).sub(input(1)), input(0).add(input(1)).mul(input(2))],
    inputs: [
      { kind: "tensor", strides: [1] },
      { kind: "tensor", strides: [1] },
      { kind: "scalar", value: 0.5 },
    ],
    dims: [16384],
    inPlace: [0, -1],
  } as const;
  expect(pointwise(spec, software).steps[0]!.kernel.code()).toMatchInlineSnapshot(`
    "@group(0) @binding(0) var<storage, read_write> in0: array<vec4f>;
    @group(0) @binding(1) var<storage, read> in1: array<vec4f>;
    @group(0) @binding(2) var<storage, read_write> out1: array<vec4f>;
    struct Params { count: u32, s2: f32 }
    @group(0) @binding(3) var<uniform> params: Params;

    struct Outputs { y0: f32, y1: f32 }

    fn formula(x0: f32, x1: f32, x2: f32) -> Outputs {
      let v0 = x0 - x1;
      let v1 = x0 + x1;
      let v2 = v1 * x2;
      return Outputs(v0, v2);
    }

    @compute @workgroup_size(64)
    fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
      let i = (group.y * 65535u + group.x) * 64u + lane;
      if (i >= params.count) { return; }
      let x0 = in0[i];
      let x1 = in1[i];
      let x2 = params.s2;
      let y0 = formula(x0.x, x1.x, x2);
      let y1 = formula(x0.y, x1.y, x2);
      let y2 = formula(x0.z, x1.z, x2);
      let y3 = formula(x0.w, x1.w, x2);
      in0[i] = vec4f(y0.y0, y1.y0, y2.y0, y3.y0);
      out1[i] = vec4f(y0.y1, y1.y1, y2.y1, y3.y1);
    }
    "
  `);
});

test("copy of rank 2", () => {
  const spec = { dims: [5, 3], inStrides: [1, 5], inOffset: 0, outStrides: [3, 1], outOffset: 0 };
  const code = copy(spec, software).steps[0]!.kernel.code();
  const wrapped = code.replace(", dim0", ",\n  dim0"); // the list of parameters is over 120 columns
  expect(wrapped).toMatchInlineSnapshot(`
    "@group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    struct Params { count: u32, inOffset: u32, outOffset: u32,
      dim0: u32, in0: u32, out0: u32, dim1: u32, in1: u32, out1: u32 }
    @group(0) @binding(2) var<uniform> params: Params;

    @compute @workgroup_size(64)
    fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
      let i = (group.y * 65535u + group.x) * 64u + lane;
      if (i >= params.count) { return; }
      var rest = i;
      var readAt = params.inOffset;
      var writeAt = params.outOffset;
      let c1 = rest % params.dim1;
      readAt += c1 * params.in1;
      writeAt += c1 * params.out1;
      rest /= params.dim1;
      let c0 = rest;
      readAt += c0 * params.in0;
      writeAt += c0 * params.out0;
      y[writeAt] = x[readAt];
    }
    "
  `);
});

test("gather of rows of four words", () => {
  const { steps } = gather({ outer: 1, rows: 3, count: 2, inner: 8 }, software);
  expect(steps[0]!.kernel.code()).toMatchInlineSnapshot(`
    "@group(0) @binding(0) var<storage, read> x: array<vec4u>;
    @group(0) @binding(1) var<storage, read> ids: array<i32>;
    @group(0) @binding(2) var<storage, read_write> y: array<vec4u>;
    struct Params { total: u32, rows: u32, count: u32, columns: u32 }
    @group(0) @binding(3) var<uniform> params: Params;

    @compute @workgroup_size(64)
    fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
      let i = (group.y * 65535u + group.x) * 64u + lane;
      if (i >= params.total) { return; }
      let column = i % params.columns;
      let n = (i / params.columns) % params.count;
      let o = i / (params.columns * params.count);
      let id = bitcast<u32>(ids[n]); // a negative id becomes larger than any row
      var value = vec4u(0u);
      if (id < params.rows) { value = x[(o * params.rows + id) * params.columns + column]; }
      y[i] = value;
    }
    "
  `);
});

test("reduce: argmax of a long row is cut into blocks, then of the blocks", () => {
  const spec = { kind: "argmax", prologue: input(0), inputs: 1, outer: 1, length: 1000, inner: 1, scale: 1 } as const;
  const { temps, steps } = reduce(spec, software);
  expect(temps).toEqual([16, 16]);
  expect(steps.map(({ buffers }) => buffers)).toEqual([
    [0, 2, 3],
    [2, 3, 1],
  ]);
  expect(steps[1]!.kernel.code()).toMatchInlineSnapshot(`
    "@group(0) @binding(0) var<storage, read> x0: array<f32>;
    @group(0) @binding(1) var<storage, read> indices: array<i32>;
    @group(0) @binding(2) var<storage, read_write> y: array<i32>;
    struct Params { threads: u32, length: u32, inner: u32, blocks: u32, block: u32, scale: f32 }
    @group(0) @binding(3) var<uniform> params: Params;

    fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
    var<private> exponent_bits: u32 = 0x7f800000u;
    fn infinity() -> f32 { return bitcast<f32>(exponent_bits); }
    fn not_a_number() -> f32 { return bitcast<f32>(exponent_bits | 0x400000u); }

    fn element(at: u32) -> f32 {
      return x0[at];
    }

    @compute @workgroup_size(64)
    fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
      let i = (group.y * 65535u + group.x) * 64u + lane;
      if (i >= params.threads) { return; }
      let block = (i / params.inner) % params.blocks;
      let column = (i / (params.inner * params.blocks)) * params.length * params.inner + i % params.inner;
      let first = block * params.block;
      let end = min(first + params.block, params.length);
      var best = element(column + first * params.inner);
      if (is_nan(best)) { best = -infinity(); }
      var bestIndex = indices[column + first * params.inner];
      for (var j = first + 1u; j < end; j++) {
        let at = column + j * params.inner;
        let value = element(at);
        if (value > best) { best = value; bestIndex = indices[at]; }
      }
      y[i] = bestIndex;
    }
    "
  `);
});

test("reduce: a workgroup per row on a GPU", () => {
  const spec = { kind: "sum", prologue: input(0), inputs: 1, outer: 9, length: 100, inner: 1, scale: 0.01 } as const;
  expect(reduce(spec, { schedule: "gpu" }).steps[0]!.kernel.code()).toMatchInlineSnapshot(`
    "@group(0) @binding(0) var<storage, read> x0: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    struct Params { groups: u32, perBlock: u32, length: u32, inner: u32, blocks: u32, block: u32, scale: f32 }
    @group(0) @binding(2) var<uniform> params: Params;

    fn element(at: u32) -> f32 {
      return x0[at];
    }

    var<workgroup> values: array<f32, 64>;

    @compute @workgroup_size(64)
    fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
      let row = (group.y * 65535u + group.x);
      if (row >= params.groups) { return; }
      let blockNumber = row / params.perBlock;
      let inBlock = row % params.perBlock * 1u + lane % 1u;
      let column = blockNumber / params.blocks * params.length * params.inner + min(inBlock, params.inner - 1u);
      let start = blockNumber % params.blocks * params.block;
      let first = start + lane / 1u;
      let end = min(start + params.block, params.length);
      var best = f32(0.0f);
      for (var j = first; j < end; ) {
        var part = f32(0.0f);
        for (let stop = min(j + 4096u, end); j < stop; j += 64u) { part += element(column + j * params.inner); }
        best += part;
      }
      values[lane] = best;
      workgroupBarrier();
      if (lane < 32u) {
        values[lane] += values[lane + 32u];
      }
      workgroupBarrier();
      if (lane < 16u) {
        values[lane] += values[lane + 16u];
      }
      workgroupBarrier();
      if (lane < 8u) {
        values[lane] += values[lane + 8u];
      }
      workgroupBarrier();
      if (lane < 4u) {
        values[lane] += values[lane + 4u];
      }
      workgroupBarrier();
      if (lane < 2u) {
        values[lane] += values[lane + 2u];
      }
      workgroupBarrier();
      if (lane < 1u) {
        values[lane] += values[lane + 1u];
      }
      if (lane < 1u && inBlock < params.inner) {
        best = values[lane];
        y[blockNumber * params.inner + inBlock] = best * params.scale;
      }
    }
    "
  `);
});
