/** Ops as their problems: several in a row, temporaries, and kernels that an op from outside brings along. */
import { afterAll, describe, expect, test } from "vitest";
import {
  apply,
  checkpoint,
  device,
  mul,
  type OpDef,
  scope,
  square,
  sum,
  tensor,
  type Tensor,
  valueAndGrad,
  wgslOf,
} from "../../engine/index.ts";
import { type Program, single, type WasmKernel } from "../../kernels/kernel.ts";
import { type Generators, programOf } from "../../kernels/program.ts";
import type { Families } from "../../kernels/specs.ts";
import { kernelModule, load } from "../../kernels/wasm/assembler.ts";
import * as wasmFamilies from "../../kernels/wasm/index.ts";
import * as wgslFamilies from "../../kernels/wgsl/index.ts";
import { gpuOptions } from "../support/gpu.ts";

/** y = 3x − 1 over a multiple of four elements, written by hand for both executors. */
const TIMES_3_MINUS_1: OpDef = {
  name: "times3minus1",
  infer: ([x]) => [x!],
  reference: ([x], [y]) => y!.set(x!.map((value) => 3 * value - 1)),
  kernel: ({ inputs: [x] }) => {
    const count = x!.shape[0]!;
    const wasm: WasmKernel = {
      key: "times3minus1",
      module: () =>
        kernelModule({ x: "i32", y: "i32", begin: "i32", end: "i32" }, (f, { x, y, begin, end }) =>
          f.for(begin.mul(4), end.mul(4), 4, (i) => f.store(y.at(i), load.f32x4(x.at(i)).mul(3).sub(1))),
        ),
      scalars: [],
      units: count / 4,
      costPerUnit: 8,
    };
    return {
      family: "custom",
      spec: {
        wasm: () => single(wasm, 2),
        wgsl: () =>
          single(
            {
              key: "times3minus1",
              code: () => `
                @group(0) @binding(0) var<storage, read> x: array<f32>;
                @group(0) @binding(1) var<storage, read_write> y: array<f32>;
                @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3u) {
                  y[id.x] = 3.0 * x[id.x] - 1.0;
                }`,
              bindings: ["read", "write"],
              workgroups: [count / 4, 1, 1],
            },
            2,
          ),
      },
    };
  },
  vjp: ({ g }) => [mul(g[0]!, 3)],
  samples: () => [],
};

describe("an op from outside brings its kernels along", () => {
  const made: { dispose(): void }[] = [];
  afterAll(() => made.forEach((on) => on.dispose()));
  test.each(["reference", "wasm", "webgpu"] as const)("%s", async (kind) => {
    const on = await device(kind, { webgpu: gpuOptions });
    made.push(on);
    const [y] = apply(TIMES_3_MINUS_1, [tensor([0, 1, 2, 3, 4, 5, 6, 7], { device: on })], {});
    expect([...(await y!.read())]).toEqual([-1, 2, 5, 8, 11, 14, 17, 20]);
  });
  test.each(["wasm", "webgpu"] as const)("and it is differentiated and recomputed on %s like ours", async (kind) => {
    const on = await device(kind, { webgpu: gpuOptions });
    made.push(on);
    const triple = (x: Tensor): Tensor => apply(TIMES_3_MINUS_1, [x], {})[0]!;
    const loss = (x: Tensor): Tensor => sum(square(checkpoint(([y]) => [triple(triple(y!))], [x])[0]!));
    const { value, grads } = scope(() => valueAndGrad(loss)(tensor([0, 1, 2, -1], { device: on })));
    // Two applications are 9x − 4; their squares are summed, and the derivative of each is 18(9x − 4).
    expect(await value.item()).toBe(16 + 25 + 196 + 169);
    expect([...(await grads.read())]).toEqual([-72, 90, 252, -234]);
  });
  test("and they can be read", () => {
    const type = { shape: [8], dtype: "f32" } as const;
    const shaders = wgslOf(TIMES_3_MINUS_1, { inputs: [type], outputs: [type], params: {} });
    expect(shaders).toHaveLength(1);
    expect(shaders[0]).toContain("3.0 * x[id.x] - 1.0");
  });
});

describe("the program of several problems", () => {
  /** A generator that says what it was given: steps over buffers 0, 1 and its temporaries. */
  const say = (name: string, temps: readonly number[]) => (): Program<string> => ({
    temps,
    steps: [{ kernel: name, buffers: [0, 1, ...temps.map((_, k) => 2 + k)] }],
  });
  const generators = { copy: say("copy", [16, 32]), fill: say("fill", [64]) } as unknown as Generators<string>;
  const spec = {} as Families["copy"] & Families["fill"];

  test("has the op's operands where the families have their buffers, and temporaries of its own behind them", () => {
    const work = [
      { family: "copy", spec, operands: [0, 4] },
      { family: "fill", spec, operands: [3, 4] },
      { family: "copy", spec, operands: [4, 1] },
    ] as const;
    expect(programOf(work, 5, generators)).toEqual({
      temps: [16, 32, 64, 16, 32],
      steps: [
        { kernel: "copy", buffers: [0, 4, 5, 6] },
        { kernel: "fill", buffers: [3, 4, 7] },
        { kernel: "copy", buffers: [4, 1, 8, 9] },
      ],
    });
  });
  test("of one without operands is the family's, and with operands takes these", () => {
    expect(programOf({ family: "fill", spec }, 2, generators)).toEqual(say("fill", [64])());
    const swapped = programOf({ family: "fill", spec, operands: [1, 0] }, 2, generators);
    expect(swapped).toEqual({ temps: [64], steps: [{ kernel: "fill", buffers: [1, 0, 2] }] });
  });
  test("without operands in a list takes all of the op's in turn", () => {
    const work = [
      { family: "fill", spec },
      { family: "fill", spec },
    ] as const;
    expect(programOf(work, 2, generators).steps.map(({ buffers }) => buffers)).toEqual([
      [0, 1, 2],
      [0, 1, 3],
    ]);
  });
  test("both folders have the same families", () => {
    expect(Object.keys(wgslFamilies).toSorted()).toEqual(Object.keys(wasmFamilies).toSorted());
  });
});
