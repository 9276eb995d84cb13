/**
 * The checks that every op has to pass on each of its samples. `tests/ops/ops.test.ts` runs them over all ops; the test
 * of the test (`tests/ops/checker.test.ts`) runs them over ops that were broken on purpose.
 */
import { apply, applyOn, type OpDef, type Sample } from "../../engine/op.ts";
import type { Device } from "../../engine/device.ts";
import { fuseInPlace } from "../../engine/fuse.ts";
import * as ops from "../../engine/ops/index.ts";
import { assignOp } from "../../engine/state.ts";
import { Rng } from "../../engine/random.ts";
import { checkGradient } from "../../engine/check.ts";
import { grad } from "../../engine/grad.ts";
import { noGrad } from "../../engine/tape.ts";
import { scope } from "../../engine/scope.ts";
import { Tensor, toTypedArray } from "../../engine/tensor.ts";
import { isFloat } from "../../engine/types.ts";
import * as packed from "../../pretrained/packed/ops.ts";
import { GuardedDevice } from "./guarded.ts";

/** Ops have different parameter types; the checks pass each op its own samples' parameters and look no closer. */
export type AnyOp = OpDef<unknown>;
export type AnySample = Sample<unknown>;

/** For `fuseInPlace`: two of four arguments overwritten, the others read. */
const inPlace = fuseInPlace("inPlace", (p, g, m, rate) => [p.sub(m.mul(rate)), m.mul(0.9).add(g)], [0, 2]);

/** Ops that stand outside of the engine and bring their kernels along: what their modules export. */
const OUTSIDE = Object.values(packed);

/** All definitions, of ops from outside, too: exported `…Op` objects and the `.op` of pointwise functions. */
export function allOps(): AnyOp[] {
  const found = new Map<string, AnyOp>();
  for (const value of [...Object.values(ops), ...OUTSIDE, assignOp, inPlace] as unknown[]) {
    if (typeof value === "object" && value !== null && "infer" in value)
      found.set((value as AnyOp).name, value as AnyOp);
    else if (typeof value === "function" && "op" in value) found.set((value.op as AnyOp).name, value.op as AnyOp);
  }
  return [...found.values()];
}

export const samplesOf = (op: AnyOp): AnySample[] => op.samples(new Rng(1).split(op.name));

export function labelOf(sample: AnySample): string {
  const shapes = sample.inputs.map((x) => `[${x.shape.join()}]`).join(" ");
  return `${sample.label ?? ""} ${shapes} ${JSON.stringify(sample.params)}`.trim().slice(0, 110);
}

export function makeInputs(
  device: Device,
  sample: AnySample,
  data: readonly (readonly number[])[] = sample.inputs.map((x) => x.data),
): Tensor[] {
  return sample.inputs.map((x, i) =>
    ops.tensor(data[i]! as number[], { shape: x.shape, device, dtype: isFloat(x.dtype) ? device.float : x.dtype }),
  );
}

/** Parameters that name a float type must name the device's. */
function paramsFor(device: Device, params: unknown): unknown {
  if (typeof params !== "object" || params === null || !("dtype" in params)) return params;
  return { ...params, dtype: isFloat(params.dtype as "f32") ? device.float : params.dtype };
}

export function runOp(device: Device, op: AnyOp, inputs: Tensor[], params: unknown): Tensor[] {
  const outputs = applyOn(device, op, inputs, paramsFor(device, params));
  // An op that works in place shows its result in the inputs that it overwrote.
  return outputs.length > 0 ? outputs : (op.overwrites?.(params) ?? []).map((i) => inputs[i]!);
}

/**
 * Runs an op on a device and returns its outputs' elements.
 * @throws if an input was changed that the op does not say it overwrites or, on a guarded device, if something was
 *   written behind the end of a buffer
 */
export async function evaluate(device: Device, op: AnyOp, sample: AnySample): Promise<number[][]> {
  const { inputs, outputs } = scope(() => {
    const made = makeInputs(device, sample);
    return { inputs: made, outputs: runOp(device, op, made, sample.params) };
  });
  const values = await Promise.all(outputs.map(async (y) => [...(await y.read())]));
  const after = await Promise.all(inputs.map(async (x) => [...(await x.read())]));
  [...inputs, ...outputs].forEach((x) => x.dispose());
  const overwritten = op.overwrites?.(sample.params) ?? [];
  sample.inputs.forEach((x, i) => {
    if (overwritten.includes(i)) return;
    const before = toTypedArray(inputs[i]!.dtype, x.data);
    const at = after[i]!.findIndex((v, k) => !Object.is(v, before[k]));
    if (at >= 0) throw new Error(`${op.name}: input ${i} was changed at element ${at}`);
  });
  if (device instanceof GuardedDevice) await device.verify();
  return values;
}

/**
 * Largest difference relative to max(1, the largest element): the usual measure of this test suite. The −1e30 that
 * stands for "excluded" does not count towards the scale and must be met to its own precision.
 */
export function difference(actual: readonly number[], expected: readonly number[]): number {
  if (actual.length !== expected.length) return Infinity;
  const isSentinel = (v: number): boolean => Math.abs(v) >= 1e29;
  const scale = Math.max(1, ...expected.map(Math.abs).filter((v) => Number.isFinite(v) && !isSentinel(v)));
  let worst = 0;
  expected.forEach((e, i) => {
    if (Object.is(actual[i], e) || actual[i] === e) return;
    const d = Math.abs(actual[i]! - e) / (isSentinel(e) ? Math.abs(e) : scale);
    worst = Math.max(worst, Number.isNaN(d) ? Infinity : d);
  });
  return worst;
}

const differentiableOf = (sample: AnySample): boolean[] =>
  sample.inputs.map((x, i) => isFloat(x.dtype) && (sample.differentiable?.[i] ?? true));

/** A fixed random direction for each output: the check is of one number, ⟨direction, outputs⟩, at any size. */
function directions(device: Device, outputs: readonly Tensor[], rng: Rng): (Tensor | null)[] {
  return outputs.map((y, k) => {
    if (!isFloat(y.dtype)) return null;
    const along = Array.from({ length: y.size }, (_, i) => rng.split(k).split(i).normal());
    return ops.tensor(Float64Array.from(along), { device, shape: y.shape, dtype: device.float });
  });
}

function project(device: Device, op: AnyOp, inputs: Tensor[], params: unknown, rng: Rng): Tensor {
  const outputs = apply(op, inputs, params);
  const along = noGrad(() => directions(device, outputs, rng));
  return outputs.flatMap((y, k) => (along[k] ? [ops.sum(ops.mul(y, along[k]))] : [])).reduce((a, b) => ops.add(a, b));
}

/**
 * The gradient of an op at a sample against central differences in f64, along a direction through all of its elements.
 * @throws GradientCheckError naming the worst element, if one is wrong by more than 1e-7
 */
export async function checkOpGradient(device: Device, op: AnyOp, sample: AnySample, order: 1 | 2): Promise<void> {
  const wanted = differentiableOf(sample);
  if (!wanted.includes(true)) return;
  const made = scope(() => makeInputs(device, sample));
  const variables = made.filter((_, i) => wanted[i]);
  const f = (xs: readonly Tensor[]): Tensor[] => {
    let next = 0;
    return apply(
      op,
      made.map((x, i) => (wanted[i] ? xs[next++]! : x)),
      sample.params,
    );
  };
  const tolerance = { absolute: 5e-8, relative: 5e-8 };
  try {
    await checkGradient(f, variables, { order, tolerance, samples: 0 });
  } finally {
    made.forEach((x) => x.dispose());
  }
}

/**
 * The gradient of an op at a sample along a fixed direction through its outputs, and the gradient of that along a
 * direction through its inputs: one list of numbers per differentiable input each. The directions are the same on every
 * device.
 */
export async function derivatives(
  device: Device,
  op: AnyOp,
  sample: AnySample,
): Promise<{ readonly first: number[][]; readonly second: number[][] }> {
  const wanted = differentiableOf(sample);
  const rng = new Rng(5).split(op.name);
  const inputs = scope(() => makeInputs(device, sample));
  const along = (xs: readonly Tensor[]): Tensor => {
    let next = 0;
    const all = inputs.map((x, i) => (wanted[i] ? xs[next++]! : x));
    return project(device, op, all, sample.params, rng);
  };
  const variables = inputs.filter((_, i) => wanted[i]);
  const { first, second } = scope(() => ({
    first: grad(along)(variables),
    second: grad((xs: Tensor[]) =>
      grad(along)(xs)
        .map((g, k) => ops.sum(ops.mul(g, directions(device, [g], rng.split("second").split(k))[0]!)))
        .reduce((a, b) => ops.add(a, b)),
    )(variables),
  }));
  const read = (tensors: readonly Tensor[]): Promise<number[][]> =>
    Promise.all(tensors.map(async (x) => [...(await x.read())]));
  const values = { first: await read(first), second: await read(second) };
  [...inputs, ...first, ...second].forEach((x) => x.dispose());
  return values;
}

/** ⟨g, A x⟩ against ⟨Aᵀ g, x⟩ for ops that are linear in their float inputs together. */
export function adjointError(device: Device, op: AnyOp, sample: AnySample): number {
  const wanted = differentiableOf(sample);
  const rng = new Rng(4).split(op.name);
  return scope(() => {
    const inputs = makeInputs(device, sample);
    const xs = inputs.filter((_, i) => wanted[i]);
    const f = (tree: Tensor[]): Tensor => {
      let next = 0;
      return project(
        device,
        op,
        inputs.map((x, i) => (wanted[i] ? tree[next++]! : x)),
        sample.params,
        rng,
      );
    };
    const forward = f(xs).readSync()[0]!;
    const gradients = grad(f)(xs);
    let adjoint = 0;
    gradients.forEach((g, k) => {
      const [values, x] = [g.readSync(), xs[k]!.readSync()];
      for (let j = 0; j < values.length; j++) adjoint += values[j]! * x[j]!;
    });
    return Math.abs(forward - adjoint) / Math.max(1, Math.abs(forward));
  });
}
