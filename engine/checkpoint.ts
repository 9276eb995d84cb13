/** Functions that run again in the backward pass: to save memory, or because their derivatives are simplest so. */
import { backward } from "./backward.ts";
import { leaf } from "./leaf.ts";
import { scope } from "./scope.ts";
import { freeGraph, keepGraph } from "./sweepMemory.ts";
import { isRecording, noGrad, recordingOutside, recordNode, whileRecording } from "./tape.ts";
import type { Tensor } from "./tensor.ts";

/**
 * Vector-Jacobian product of any function of tensors, by running it again: the gradients of Σ_k ⟨gs_k, f(xs)_k⟩ with
 * respect to the `xs` that are needed. For fused ops whose derivative's derivative is simplest as that of the unfused
 * formula, and for `checkpoint`.
 */
export function vjpOf(
  f: (xs: readonly Tensor[]) => readonly Tensor[],
  xs: readonly Tensor[],
  gs: readonly (Tensor | null)[],
  needs: readonly boolean[],
): (Tensor | null)[] {
  const outer = recordingOutside();
  const run = (): (Tensor | null)[] => {
    const inputs = xs.map((x, k) => (needs[k] ? leaf(x) : x));
    const outputs = whileRecording(() => f(inputs));
    const memory = outer ? keepGraph : freeGraph(new Set(xs));
    const wanted = inputs.filter((_, k) => needs[k]);
    const gradients = backward(outputs, gs, wanted, memory);
    let next = 0;
    return needs.map((needed) => (needed ? gradients[next++]! : null));
  };
  return outer ? run() : scope(run, "vjp");
}

/**
 * Runs `f` without keeping its activations and runs it again in the backward pass: less memory, more time (Chen et al.
 * 2016, arXiv 1604.06174). `f` must be a pure function of its tensors; it may return several.
 */
export function checkpoint(f: (xs: readonly Tensor[]) => readonly Tensor[], xs: readonly Tensor[]): readonly Tensor[] {
  if (!isRecording(xs)) return scope(() => f(xs), "checkpoint");
  const outputs = scope(() => noGrad(() => f(xs)), "checkpoint");
  recordNode("checkpoint", {}, xs, outputs, (g, needs) => vjpOf(f, xs, g, needs));
  return outputs;
}
