/**
 * `checkGradient`: right gradients pass on every executor, wrong ones are named, and what is no function of tensors is
 * refused.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import * as wg from "../../engine/index.ts";
import { checkGradient, type CheckGradientOptions, GradientCheckError, type Tensor } from "../../engine/index.ts";
import { apply1 } from "../../engine/op.ts";
import { permuteOp } from "../../engine/ops/movement.ts";
import { Rng } from "../../engine/random.ts";
import type { Shape } from "../../engine/types.ts";
import { draw } from "../support/executors.ts";
import { gpuEnabled, gpuOptions } from "../support/gpu.ts";

// Compilers of software adapters take up to 0.3 s for a kernel that they have not seen.
vi.setConfig({ testTimeout: 300_000 });

let everywhere: readonly wg.Device[];
let f64: wg.Device;
beforeAll(async () => {
  f64 = await wg.device("reference");
  everywhere = [
    f64,
    await wg.device("wasm"),
    ...(gpuEnabled ? [await wg.device("webgpu", { webgpu: gpuOptions })] : []),
  ];
  wg.setDevice(f64);
});
afterAll(() => everywhere.forEach((device) => device.dispose()));

const normal = (shape: Shape, seed = 1, device: wg.Device = f64): Tensor =>
  wg.tensor(Float64Array.from(draw(new Rng(seed), shape)), { shape, device });

/** What the check says of a wrong gradient. */
async function rejection<const T extends wg.Tree>(
  f: (inputs: T) => wg.Tree,
  inputs: T,
  options: CheckGradientOptions = {},
): Promise<GradientCheckError> {
  const error: unknown = await checkGradient(f, inputs, options).catch((thrown: unknown) => thrown);
  if (!(error instanceof GradientCheckError)) throw new Error(`expected a GradientCheckError, got ${String(error)}`);
  return error;
}

/** sin, with a derivative of the caller's choice. */
const sinus = wg.fuse("sinus", (x) => x.sin());
const sine =
  (vjp: typeof sinus.op.vjp) =>
  (x: Tensor): Tensor =>
    apply1({ ...sinus.op, vjp }, [x], { args: [null] });
const timesCos = (g: Tensor | null | undefined, x: Tensor | undefined): Tensor => wg.mul(g!, wg.cos(x!));

const RIGHT: Record<string, (device: wg.Device) => readonly [f: (inputs: Tensor[]) => wg.Tree, inputs: Tensor[]]> = {
  "a layer, its weights and its bias": (on) => [
    ([x, w, b]) => wg.sum(wg.tanh(wg.add(wg.matmul(x!, w!), b!))),
    [normal([3, 4], 1, on), normal([4, 5], 2, on), normal([5], 3, on)],
  ],
  "a matrix of outputs": (on) => [([x]) => wg.softmax(x!), [normal([3, 5], 4, on)]],
  "several outputs, one of them used twice": (on) => [
    ([x, y]) => ({ product: wg.mul(x!, y!), sums: [wg.cumsum(x!), wg.sum(wg.square(y!))] }),
    [normal([2, 3], 5, on), normal([3], 6, on)],
  ],
  "an input that is returned, and one that is not used": (on) => [
    ([x]) => x!,
    [normal([3], 7, on), normal([2], 8, on)],
  ],
  "a norm": (on) => [([x, w]) => wg.rmsNorm(x!, w!, 0.1), [normal([2, 6], 9, on), normal([6], 10, on)]],
  "more elements than samples": (on) => [([x]) => wg.sum(wg.sin(x!)), [normal([40, 50], 11, on)]],
};

describe("right gradients pass on every executor", () => {
  test.each(Object.keys(RIGHT))("%s", async (name) => {
    for (const device of everywhere) {
      const [f, inputs] = RIGHT[name]!(device);
      // Software adapters take milliseconds for an evaluation.
      const samples = device.kind === "webgpu" ? 5 : 64;
      const first = await checkGradient(f, inputs, { samples });
      expect(first.elements).toBe(inputs.reduce((total, { size }) => total + size, 0));
      expect(first).toMatchObject({ kinks: 0, wrong: 0 });
      expect(first.compared).toBe(Math.min(samples, first.elements));
      const both = await checkGradient(f, inputs, { order: 2, seed: 3, samples });
      expect(both.elements).toBeGreaterThan(2 * first.elements);
      // Half of what is allowed: the defaults leave room for functions that are less smooth.
      expect(Math.max(first.margin, both.margin), device.kind).toBeLessThan(0.5);
      inputs.forEach((x) => x.dispose());
    }
  });

  test("in f64 to ten digits", async () => {
    const { worst } = await checkGradient((x) => wg.exp(wg.sin(x)), normal([50]), { order: 2 });
    expect(worst!.difference).toBeLessThan(1e-10);
    await checkGradient((x) => wg.exp(wg.sin(x)), normal([50]), { tolerance: { relative: 1e-9 } });
  });

  test("integers are constants, and integers among the outputs are left out", async () => {
    const inputs = { logits: normal([3, 4]), ids: wg.tensor(Int32Array.of(0, 2, 1)) };
    const f = ({ logits, ids }: typeof inputs): wg.Tree => [wg.gather(logits, ids), wg.argmax(logits), ids];
    expect(await checkGradient(f, inputs)).toMatchObject({ elements: 12, compared: 12, kinks: 0 });
  });

  test("large and small numbers: steps grow where x ± epsilon would lose digits, tolerances with f", async () => {
    for (const device of everywhere) {
      const x = wg.tensor([1e-3, 1, 3e3, -2e4], { device });
      await checkGradient((t) => wg.square(t), x);
      await checkGradient((t) => wg.mul(wg.square(t), 1e6), x);
      // At 3e5 the numbers of f32 are 0.03 apart, twice the usual step.
      const far = await checkGradient((t) => wg.mul(t, 2 ** -18), wg.tensor(3e5, { device }));
      if (device !== f64) expect(far.resolved).toBe(1);
      const { resolved } = await checkGradient((t) => wg.mul(wg.sin(t), 1e-12), x);
      // Such derivatives drown in what rounding is allowed to do, and the report says so.
      expect(resolved).toBe(0);
    }
  });
});

describe("wrong gradients are rejected, and the worst element is named", () => {
  test("on every executor: a factor, even of 1 %", async () => {
    for (const device of everywhere) {
      for (const factor of [2, -1, 1.01]) {
        const wrong = sine(({ g, x }) => [wg.mul(timesCos(g[0], x[0]), factor)]);
        const error = await rejection(wrong, normal([2, 3], 1, device));
        expect(error.report).toMatchObject({ elements: 6, compared: 6, wrong: 6, kinks: 0 });
        expect(error.message).toContain(`Each wrong one is ${factor} times the numeric one.`);
        // Large inputs go another way.
        const large = await rejection(wrong, normal([50, 60], 1, device), { samples: 0 });
        expect(large.report.wrong).toBe(1);
      }
    }
  });

  test("the message", async () => {
    const wrong = sine(({ g, x }) => [wg.mul(timesCos(g[0], x[0]), wg.tensor([1, 2, 1]))]);
    const f = ({ w, b }: { w: Tensor; b: Tensor }): Tensor => wg.sum(wg.add(wrong(w), b));
    const inputs = {
      w: wg.tensor([
        [0, 0.5, 1],
        [0, 0, 0],
      ]),
      b: wg.tensor([1]),
    };
    const { message, report } = await rejection(f, inputs);
    const [head, analytic, numeric, difference, hint] = message.split("\n");
    expect(head).toBe(
      'checkGradient: the gradient is wrong in 2 of the 7 elements compared. The worst is at input "w"[1, 1] = 0:',
    );
    expect(analytic).toBe("  analytic    2");
    expect(numeric).toMatch(/^ {2}numeric {5}(1|1\.0000000\d+|0\.9999999\d+)$/);
    expect(difference).toMatch(/^ {2}difference {2}1\.0e\+0, allowed 2\.0e-6$/);
    expect(hint).toBe("Each wrong one is 2 times the numeric one.");
    expect(report.worst).toMatchObject({ order: 1, name: 'input "w"', index: [1, 1], value: 0, analytic: 2 });
    expect(report).toMatchObject({ compared: 7, wrong: 2, kinks: 0 });
  });

  test("a transposed axis", async () => {
    const wrong: typeof permuteOp = { ...permuteOp, vjp: ({ g }) => [g[0]!] };
    const error = await rejection((x) => apply1(wrong, [x], { axes: [1, 0] }), normal([3, 3]));
    expect(error.report).toMatchObject({ compared: 9, wrong: 6 }); // the diagonal is right
    await checkGradient((x) => apply1(permuteOp, [x], { axes: [1, 0] }), normal([3, 4]));
  });

  test("a sum over a broadcast axis that is missing", async () => {
    const { op } = wg.fuse("plus", (x, y) => x.add(y));
    const firstRow = (x: Tensor): Tensor => wg.reshape(wg.slice(x, [0], [1]), [3]);
    const wrong: typeof op = { ...op, vjp: ({ g }) => [g[0]!, firstRow(g[0]!)] };
    const f = ([x, b]: readonly [Tensor, Tensor]): Tensor => apply1(wrong, [x, b], { args: [null, null] });
    const { message, report } = await rejection(f, [normal([4, 3]), normal([3])]);
    expect(report.wrong).toBe(3);
    expect(message).toMatch(/wrong in 3 of the 15 elements compared.* input "1"\[\d\]/);
  });

  test("one element of 10,000, by 1, wherever it is", async () => {
    for (const device of everywhere) {
      for (const at of device === f64 ? [0, 7342, 9999] : [7342]) {
        const spike = new Float64Array(10_000);
        spike[at] = 1;
        const off = wg.tensor(spike, { shape: [100, 100], device });
        const wrong = sine(({ g, x }) => [wg.add(timesCos(g[0], x[0]), off)]);
        const { message, report } = await rejection(wrong, normal([100, 100], 2, device), { samples: 8 });
        expect(report).toMatchObject({ elements: 10_000, wrong: 1 });
        expect(report.worst!.index).toEqual([Math.floor(at / 100), at % 100]);
        expect(message).toContain(`wrong in 1 of the ${report.compared} elements compared, of 10000 in all`);
        off.dispose();
      }
    }
  });

  test("a wrong second derivative of a right first one, by the input and by what flows back", async () => {
    const byInput = sine(({ g, x }) => [timesCos(g[0], wg.stopGradient(x[0]!))]);
    await checkGradient(byInput, normal([4]));
    const error = await rejection(byInput, normal([4]), { order: 2 });
    expect(error.message).toMatch(
      /^checkGradient: the gradient of the gradient is wrong in 4 of the 8 elements .*input\[/,
    );
    expect(error.message).toContain("Each wrong one is 0: is the value cut off");
    expect(error.report).toMatchObject({ elements: 12, compared: 12, wrong: 4 });
    expect(error.report.worst!.order).toBe(2);

    const byCotangent = sine(({ g, x }) => [timesCos(wg.stopGradient(g[0]!), x[0])]);
    await checkGradient(byCotangent, normal([4]));
    const { worst } = (await rejection(byCotangent, normal([4]), { order: 2 })).report;
    expect(worst!.name).toBe("cotangent");
  });

  test("NaN in the gradient where the function is finite, and a gradient that is cut off", async () => {
    const trap = (x: Tensor): Tensor => wg.where(wg.gt(x, 0), wg.sqrt(x), wg.tensor(0));
    const { message, report } = await rejection(trap, wg.tensor([4, -1]));
    expect(report).toMatchObject({ wrong: 1, margin: Infinity });
    expect(message).toContain("The worst is at input[1] = -1:\n  analytic    NaN\n  numeric     0\n");
    await expect(checkGradient((x) => wg.exp(wg.stopGradient(x)), normal([3]))).rejects.toThrow(
      "cut off by stopGradient",
    );
  });

  test("the seed draws other directions, the same seed the same", async () => {
    const wrong = sine(({ g, x }) => [wg.mul(timesCos(g[0], x[0]), 1.5)]);
    const worst = async (seed: number): Promise<unknown> =>
      (await rejection(wrong, normal([9]), { seed })).report.worst;
    expect(await worst(1)).toEqual(await worst(1));
    expect(await worst(1)).not.toEqual(await worst(2));
  });
});

describe("where a function has no derivative", () => {
  test("a kink at the point or within two steps of it says so, with both slopes", async () => {
    const at = (x: number): Promise<GradientCheckError> =>
      rejection((t) => wg.sum(wg.mul(wg.relu(t), 3)), wg.tensor([1, x]));
    const { message } = await at(0);
    expect(message).toMatch(
      /^checkGradient: the function is not differentiable at input\[1\] = 0, or not within the step/,
    );
    expect(message).toMatch(
      /= 0, or not within the step: its slope is 0 to the left and 3 to the right \(analytic: [03]\)\./,
    );
    for (const x of [1e-5, -1e-5, 1e-4, -1e-4, 2e-4, -2e-4])
      expect((await at(x)).report).toMatchObject({ wrong: 0, kinks: 1 });
    await checkGradient((t) => wg.mul(wg.relu(t), 3), wg.tensor([1e-3, -1e-3]));
    await checkGradient((t) => wg.mul(wg.relu(t), 3), wg.tensor([1e-5]), { epsilon: 2 ** -20 });
  });

  test("a jump, and the end of the domain", async () => {
    expect((await rejection((t) => wg.floor(t), wg.tensor([2.00001]))).message).toContain(
      "not differentiable at input[0]",
    );
    const error = await rejection((t) => wg.log(t), wg.tensor([1e-4]));
    expect(error.message).toContain("the function is not finite within two steps of it");
    await checkGradient((t) => wg.log(t), wg.tensor([1e-4]), { epsilon: 2 ** -23 });
  });

  test("can be skipped, and a wrong derivative elsewhere is found all the same", async () => {
    const report = await checkGradient((t) => wg.relu(t), wg.tensor([0, 1, -1]), { kinks: "skip" });
    expect(report).toMatchObject({ elements: 3, compared: 3, kinks: 1, wrong: 0 });
    const wrong = (t: Tensor): Tensor => wg.add(wg.relu(t), wg.mul(wg.stopGradient(t), 0.001));
    expect((await rejection(wrong, wg.tensor([0, 1, -1]), { kinks: "skip" })).report).toMatchObject({
      wrong: 2,
      kinks: 1,
    });
    // Many kinks in one direction: it is halved until they stand alone.
    const values = Float64Array.from({ length: 1000 }, (_, i) => (i % 100 === 7 ? 0 : (i % 9) - 4.5));
    const many = await checkGradient((t) => wg.relu(t), wg.tensor(values), { kinks: "skip", samples: 0 });
    expect(many).toMatchObject({ elements: 1000, kinks: 10, wrong: 0 });
    expect(many.compared).toBeLessThan(40);
  });

  test("a smooth function is not taken for a kink: nothing wrong is excused", async () => {
    for (const device of everywhere) {
      const sharp = sine(({ g, x }) => [wg.mul(timesCos(g[0], x[0]), 1.05)]);
      const { report } = await rejection((x) => sharp(wg.mul(x, 5)), normal([30], 3, device), { kinks: "skip" });
      expect(report.kinks, device.kind).toBe(0);
      expect(report.wrong).toBeGreaterThan(20);
    }
  });
});

describe("what cannot be checked has one clear error", () => {
  const refused = async (
    f: (x: Tensor) => unknown,
    message: string | RegExp,
    x: Tensor = wg.tensor([1, 2]),
  ): Promise<void> => {
    const before = f64.backend.stats().liveBuffers;
    await expect(checkGradient(f as (x: Tensor) => Tensor, x)).rejects.toThrow(message);
    expect(f64.backend.stats().liveBuffers).toBe(before);
  };
  const PREFIX = "checkGradient: the function must return a tensor or a tree of tensors, and ";

  test("results that are no tensors", async () => {
    await refused((x) => void wg.sum(x), `${PREFIX}returned nothing (is a \`return\` missing?)`);
    await refused(() => 3, `${PREFIX}returned 3`);
    await refused(() => null, `${PREFIX}returned null`);
    await refused(() => [], `${PREFIX}there is no float tensor in what it returned`);
    await refused((x) => wg.argmax(x), `${PREFIX}there is no float tensor`);
    await refused((x) => [wg.sum(x), { loss: 3 }], "tree: expected tensors, arrays and objects, got 3");
    await refused(async (x) => Promise.resolve(wg.sum(x)), `${PREFIX}returned a promise; it must be synchronous`);
  });

  test("functions that are none", async () => {
    let calls = 0;
    await refused(
      (x) => wg.sum(wg.mul(x, ++calls)),
      "checkGradient: the function is not deterministic: at the same inputs output was 3, then 6",
    );
    await refused(
      (x) => wg.mul(x, ++calls > 3 ? 1 : 2),
      /not deterministic: at the same inputs output\[0\] was 2, then 1/,
    );
    const shapes = [[2], [2], [2], [1, 2]];
    let next = 0;
    await refused((x) => wg.reshape(wg.exp(x), shapes[next++] ?? [2]), "shapes must not depend on values");
    await refused((x) => {
      const y = wg.exp(x);
      wg.assign(wg.stopGradient(x), y);
      return y;
    }, "checkGradient: the function overwrites input in place");
    await refused((x) => wg.log(wg.neg(x)), "checkGradient: output[0] of the function is NaN");
    await refused((x) => wg.exp(wg.mul(x, 1e9)), "checkGradient: output[0] of the function is Infinity");
    await refused(() => {
      throw new Error("of its own");
    }, "of its own");
  });

  test("inputs", async () => {
    await refused((x) => wg.exp(x), "checkGradient: input[1] is NaN; it must be finite", wg.tensor([1, NaN]));
    await refused((x) => wg.exp(x), "checkGradient: input is Infinity; it must be finite", wg.tensor(Infinity));
    await refused((x) => x, "no float tensor among the 1 inputs", wg.tensor(Int32Array.of(1)));
    await expect(checkGradient(() => wg.tensor(1), [])).rejects.toThrow("no float tensor among the 0 inputs");
    const gone = wg.tensor([1]);
    gone.dispose();
    await expect(checkGradient(({ a }) => wg.exp(a.w), { a: { w: gone } })).rejects.toThrow('input "a.w" was freed');
  });

  test("options", async () => {
    const bad = async (options: object, message: string): Promise<void> =>
      expect(checkGradient((x) => wg.exp(x), wg.tensor([1]), options)).rejects.toThrow(message);
    await bad({ eps: 1 }, "checkGradient: unknown option 'eps'");
    await bad({ tolerance: { rel: 1 } }, "checkGradient: tolerance: unknown option 'rel'");
    await bad({ tolerance: { relative: -1 } }, "tolerance.relative must be a number, 0 or more, got -1");
    await bad({ order: 3 }, "order must be 1 or 2, got 3");
    await bad({ epsilon: 0 }, "epsilon must be a positive number, got 0");
    await bad({ samples: 1.5 }, "samples must be an integer, 0 or more, got 1.5");
    await bad({ kinks: "ignore" }, 'kinks must be "throw" or "skip", got "ignore"');
  });
});

describe("memory", () => {
  test("nothing is left, be the gradient right or wrong; inputs and what is closed over stay", async () => {
    const plain = await wg.device("wasm");
    for (const device of [f64, plain]) {
      const [x, constant] = [normal([3, 4], 1, device), normal([4], 2, device)];
      const before = device.backend.stats();
      await checkGradient((t) => [wg.mul(wg.sin(t), constant), constant], x, { order: 2 });
      const wrong = sine(({ g, x: [at] }) => [wg.mul(timesCos(g[0], at), 2)]);
      await rejection(wrong, x);
      expect(device.backend.stats()).toMatchObject({ liveBuffers: before.liveBuffers, liveBytes: before.liveBytes });
      expect([x.disposed, constant.disposed]).toEqual([false, false]);
      expect([...x.readSync()]).toEqual(draw(new Rng(1), [3, 4]).map((v) => v + 0));
    }
    plain.dispose();
  });

  test("inputs may be freed or overwritten while the check runs: it has copied them", async () => {
    const [x, ids] = [normal([3]), wg.tensor(Int32Array.of(2, 0))];
    const running = checkGradient(([t, at]) => wg.exp(wg.gather(t, at)), [x, ids]);
    wg.assign(x, wg.tensor([NaN, NaN, NaN]));
    [x, ids].forEach((t) => t.dispose());
    expect(await running).toMatchObject({ compared: 3, wrong: 0 });
  });
});
