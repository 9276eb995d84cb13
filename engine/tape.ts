/**
 * The tape. While a gradient is recorded, every op leaves a note (a `GraphNode`) on its outputs: its name, its inputs,
 * and how to compute its vjp. backward.ts reads these notes from the end.
 */
import { check } from "./errors.ts";
import type { GraphNode, Tensor } from "./tensor.ts";
import { isFloat } from "./types.ts";

/** The number of nested forward passes that are being recorded. */
let recording = 0;
/** The number of nested `noGrad` calls. */
let paused = 0;

/** Whether an op on `inputs` has to be recorded. */
export function isRecording(inputs: readonly Tensor[]): boolean {
  return recording > 0 && paused === 0 && inputs.some((x) => x.node !== undefined);
}

/** Whether the code that runs now is inside a forward pass that will be differentiated. */
export function recordingOutside(): boolean {
  return recording > 0 && paused === 0;
}

/** Records on `outputs` how they were computed. */
export function recordNode(
  name: string,
  params: unknown,
  inputs: readonly Tensor[],
  outputs: readonly Tensor[],
  vjp: GraphNode["vjp"],
): void {
  const node: GraphNode = { name, params, inputs, outputs, versions: inputs.map((x) => x.storage.version), vjp };
  for (const y of outputs) if (isFloat(y.dtype)) y.node = node;
}

/** Runs the forward pass of a gradient. */
export function whileRecording<R>(body: () => R): R {
  const pausedOutside = paused;
  recording++;
  paused = 0;
  try {
    return body();
  } finally {
    recording--;
    paused = pausedOutside;
  }
}

/** Runs `body` without recording: its results are constants to every gradient. */
export function noGrad<R>(body: () => R): R {
  paused++;
  try {
    const result = body();
    check(!(result instanceof Promise), () => "noGrad: the callback must be synchronous, it returned a promise");
    return result;
  } finally {
    paused--;
  }
}
