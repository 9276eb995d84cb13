/**
 * Everything the library knows about an op is one object, an `OpDef`:
 *
 *     infer      its type rule: shapes and element types of the inputs → those of the outputs
 *     reference  its definition, in plain TypeScript loops                               (executable.ts)
 *     kernel     the same computation as one or more problems `{ family, spec }`; a family (pointwise, matmul, …) is a
 *                kind of problem that each executor has a kernel generator for     (executable.ts, kernels/specs.ts)
 *     vjp        its derivative: ∂L/∂outputs → ∂L/∂inputs
 *     samples    small inputs on which tests compare all of these
 *
 * `engine/ops/*.ts` export these objects. There is no registry: importing an op has no side effects.
 *
 * Execution is eager: `apply` infers the types, takes memory for the outputs and calls `device.execute`. The reference
 * executor runs `reference`. The others, wasm and webgpu, have a generator for each family: it turns a problem into
 * kernels, which are WebAssembly bytes or WGSL text, arguments such as sizes, and a key; code is compiled once per key
 * (kernels/program.ts, engine/backends/). wasm with one thread runs a call at once. webgpu, and wasm with several
 * threads, queue calls; a read waits until the queue is empty.
 *
 * While a gradient is recorded, the outputs get a note of their origin (tape.ts); backward.ts goes through these notes
 * from the end, calls each `vjp`, and sums the gradients of a tensor that is used more than once.
 *
 * About half of the ops are formulas (docs/ops.md): from one scalar expression `fuse` (fuse.ts) makes the whole object,
 * its `vjp` by symbolic differentiation.
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

/** The values that the derivative of an op y = f(x) may use, where L is the scalar that is differentiated. */
export interface VjpContext<P> {
  /** ∂L/∂y of each output; `null` where no gradient flows back. */
  readonly g: readonly (Tensor | null)[];
  /** The inputs. */
  readonly x: readonly Tensor[];
  /** The outputs. */
  readonly y: readonly Tensor[];
  readonly params: P;
  /** Whether the gradient of each input is wanted; the others may be `null` in the result. */
  readonly needs: readonly boolean[];
}

/** Inputs and parameters with which an op is tested. */
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

/**
 * The whole definition of an op, from which it is run on every executor, differentiated and tested. Its `name`,
 * `reference` and `kernel`, which are all that an executor needs, are declared in `Executable` (executable.ts).
 */
export interface OpDef<P = NoParams> extends Executable<P> {
  /** The type rule: the outputs' types, or an error that names the op and the offending types. */
  infer(inputs: readonly TensorType[], params: P): readonly TensorType[];
  /**
   * Vector-Jacobian product: ∂L/∂x_i = Σ_j g_j · ∂y_j/∂x_i for each input i. It is computed with public ops, so it runs
   * on every executor, and an outer gradient can record and differentiate it. If the op broadcast input i, its gradient
   * may keep the broadcast shape: backward.ts sums it to the input's own.
   */
  vjp(context: VjpContext<P>): readonly (Tensor | null)[];
  /** Small inputs, among them an axis of size 1, a size that is no multiple of a SIMD vector, both sides of a kink. */
  samples(rng: Rng): Sample<P>[];
  /** Whether it is linear in all float inputs jointly: then ⟨g, A x⟩ = ⟨Aᵀ g, x⟩ is tested, not finite differences. */
  readonly linear?: boolean;
  /** Whether the single output is input 0 under another shape: then memory is shared and no kernel runs. */
  readonly view?: boolean;
  /** The inputs that are overwritten. An op that overwrites an input has no outputs, so its `vjp` is never called. */
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

/** As `apply`, for ops without tensor inputs (`fill`, `random`), whose device has to be given. */
export function applyOn<P>(device: Device, op: OpDef<P>, inputs: readonly Tensor[], params: P): Tensor[] {
  const types = op.infer(inputs, params);
  if (op.view) {
    return record(op, inputs, [new Tensor(inputs[0]!.storage, types[0]!.shape, types[0]!.dtype)], params);
  }
  const overwritten = op.overwrites?.(params) ?? [];
  for (const i of overwritten) {
    check(
      inputs[i]!.node === undefined,
      () => `${op.name}: cannot overwrite ${showType(inputs[i]!)} while a gradient that depends on it is recorded`,
    );
  }
  for (const { shape, dtype } of types) {
    checkShape(op.name, shape);
    device.checkDtype(op.name, dtype);
  }
  const outputs: Tensor[] = [];
  try {
    for (const i of overwritten) inputs[i]!.storage.thaw(); // no longer read-only (Storage.freeze)
    for (const { shape, dtype } of types) {
      // The constructor enters the tensor into the current scope.
      outputs.push(new Tensor(new Storage(device, sizeOf(shape) * bytesPerElement(dtype)), shape, dtype));
    }
    execute(device, op, inputs, outputs, params);
  } catch (error) {
    for (const y of outputs) y.dispose(); // without a scope nothing else would free them
    throw error;
  }
  for (const i of overwritten) {
    inputs[i]!.storage.version++; // so that a backward pass that needs the old values throws
    inputs[i]!.storage.hostInts = undefined;
  }
  return record(op, inputs, outputs, params);
}

function execute<P>(device: Device, op: OpDef<P>, x: readonly Tensor[], y: readonly Tensor[], params: P): void {
  try {
    device.execute(op, x, y, params);
  } catch (error) {
    throw namingScopes(error); // if memory ran out: the same error, saying which open scopes hold how much
  }
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

/** Shorthand for the type rule of an op with one output, of the element type of `like`. */
export function typed(shape: Shape, like: TensorType): readonly TensorType[] {
  return [{ shape, dtype: like.dtype }];
}
