/**
 * Everything the library knows about an op is one object: its type rule, its definition in plain TypeScript, its
 * kernels, its derivative and where to test it. `engine/ops/*.ts` export these objects; nothing is registered at
 * import.
 *
 * Execution is eager: `apply` runs the op at once and, while a gradient is being recorded, remembers what made the
 * result.
 */
import type { Device } from "./device.ts";
import { check, fail } from "./errors.ts";
import type { Executable } from "./executable.ts";
import { checkTensor } from "./operands.ts";
import type { Rng } from "./random.ts";
import { isRecording, recordNode } from "./tape.ts";
import { namingScopes, Storage, Tensor } from "./tensor.ts";
import { bytesPerElement, checkShape, showType, sizeOf, type Shape, type TensorType } from "./types.ts";

export type { Call, Elements } from "./executable.ts";

/** An op without parameters. */
export type NoParams = Readonly<Record<never, never>>;

/** What a derivative may use. `g` has one entry per output, `null` where nothing flows back. */
export interface VjpContext<P> {
  readonly g: readonly (Tensor | null)[];
  readonly x: readonly Tensor[];
  readonly y: readonly Tensor[];
  readonly params: P;
  /** Which inputs' gradients are wanted; the others may be `null` in the answer. */
  readonly needs: readonly boolean[];
}

/** A place to test an op. */
export interface Sample<P> {
  readonly label?: string;
  readonly inputs: readonly SampleInput[];
  readonly params: P;
  /** Inputs to differentiate; all float inputs unless said otherwise. */
  readonly differentiable?: readonly boolean[];
}
export interface SampleInput extends TensorType {
  readonly data: readonly number[];
}

/** The whole definition of an op, from which it is run on every executor, differentiated and tested. */
export interface OpDef<P = NoParams> extends Executable<P> {
  /** The type rule: the outputs' types, or an error that names the op and the offending types. */
  infer(inputs: readonly TensorType[], params: P): readonly TensorType[];
  /**
   * Vector-Jacobian product in public ops, one entry per input, so that derivatives of any order and every executor
   * come free. A gradient that is larger than its input is summed to the input's shape by the engine (un-broadcasting
   * lives once, there).
   */
  vjp(context: VjpContext<P>): readonly (Tensor | null)[];
  /** Small inputs that reach a size-1 axis, a size that is no multiple of a vector, both sides of a kink. */
  samples(rng: Rng): Sample<P>[];
  /** Linear in its float inputs together: tested by ⟨g, A x⟩ = ⟨Aᵀ g, x⟩ instead of differences. */
  readonly linear?: boolean;
  /** The single output is input 0 under another shape: memory is shared and no kernel runs. */
  readonly view?: boolean;
  /** Inputs that are written in place. Such an op has no outputs to record and no derivative. */
  overwrites?(params: P): readonly number[];
  /**
   * Relative tolerance of the f32 executors against the f64 reference on `samples`; 1e-5 unless said otherwise, with
   * the reason beside it.
   */
  readonly tolerance?: number;
}

/**
 * Runs an op: checks types, makes the outputs in the current scope, executes, records.
 * @throws if inputs are on different devices, were freed, or break the op's type rule
 */
export function apply<P>(op: OpDef<P>, inputs: readonly Tensor[], params: P): Tensor[] {
  const device = deviceOf(op.name, inputs);
  return applyOn(device, op, inputs, params);
}

/** As `apply`, for ops without tensor inputs (`fill`, `random`), which cannot tell their device. */
export function applyOn<P>(device: Device, op: OpDef<P>, inputs: readonly Tensor[], params: P): Tensor[] {
  const types = op.infer(inputs, params);
  if (op.view) {
    const view = new Tensor(inputs[0]!.storage, types[0]!.shape, types[0]!.dtype);
    view.hostInts = inputs[0]!.hostInts;
    return record(op, inputs, [view], params);
  }
  const overwritten = op.overwrites?.(params) ?? [];
  for (const i of overwritten) {
    check(
      inputs[i]!.node === undefined,
      () => `${op.name}: cannot overwrite ${showType(inputs[i]!)} while a gradient that depends on it is recorded`,
    );
  }
  const outputs = types.map(({ shape, dtype }) => {
    checkShape(op.name, shape);
    device.checkDtype(op.name, dtype);
    return new Tensor(new Storage(device, sizeOf(shape) * bytesPerElement(dtype)), shape, dtype);
  });
  try {
    device.execute(op, inputs, outputs, params);
  } catch (error) {
    throw namingScopes(error); // temporary memory may have run out
  }
  for (const i of overwritten) {
    inputs[i]!.storage.version++;
    inputs[i]!.hostInts = undefined;
  }
  return record(op, inputs, outputs, params);
}

function record<P>(op: OpDef<P>, x: readonly Tensor[], y: Tensor[], params: P): Tensor[] {
  if (isRecording(x)) recordNode(op.name, params, x, y, (g, needs) => op.vjp({ g, x, y, params, needs }));
  return y;
}

/** The single output of an op. */
export function apply1<P>(op: OpDef<P>, inputs: readonly Tensor[], params: P): Tensor {
  return apply(op, inputs, params)[0]!;
}

function deviceOf(name: string, inputs: readonly Tensor[]): Device {
  const first = inputs[0] ?? fail(`${name}: needs at least one tensor`);
  for (const x of inputs) {
    checkTensor(name, x);
    check(
      x.device === first.device,
      () => `${name}: tensors are on different devices: ${first.device.description} · ${x.device.description}`,
    );
  }
  return first.device;
}

/** Shorthand for the type rule of a single float output. */
export function typed(shape: Shape, like: TensorType): readonly TensorType[] {
  return [{ shape, dtype: like.dtype }];
}
