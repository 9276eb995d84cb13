/**
 * AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101, algorithm 2) with clipping by the global norm, as PyTorch computes
 * both.
 *
 * Parameters that decay and those that do not are two groups. The tensors of a group, and their moments, lie in one
 * piece of memory each, so that one kernel updates a group, however many parameters it has; gradients are packed alike
 * in each step.
 */
import { expr, where } from "../kernels/expr.ts";
import { check } from "../engine/errors.ts";
import { fuseInPlace, type Pointwise } from "../engine/fuse.ts";
import { zerosLike } from "../engine/ops/create.ts";
import { pack, packInPlace, packLayout, type PackParams, sumOfSquares } from "../engine/ops/pack.ts";
import { add, sqrt } from "../engine/ops/pointwise.ts";
import { checkKeys } from "../engine/options.ts";
import { outsideScopes, scope } from "../engine/scope.ts";
import { noGrad } from "../engine/tape.ts";
import type { Storage, Tensor } from "../engine/tensor.ts";
import { mapTree, type Tree, treeEntries, treeLeaves } from "../engine/tree.ts";
import { sameShape, showShape } from "../engine/types.ts";

/** Options of `AdamW`. */
export interface AdamWOptions {
  /** Default 1e-3; each step may give its own. */
  readonly lr?: number;
  /** Default [0.9, 0.999]. */
  readonly betas?: readonly [number, number];
  /** Default 1e-8. */
  readonly eps?: number;
  /** Decoupled weight decay, default 0.01. */
  readonly weightDecay?: number;
  /** Gradients are scaled so that their global L2 norm is at most this; default Infinity (no clipping). */
  readonly clipNorm?: number;
  /** Which parameters decay; default: matrices do, vectors (gains, biases) do not. */
  readonly decays?: (path: string, parameter: Tensor) => boolean;
}

/**
 * p ← p·(1 − lr·wd) − lr·m̂/(√v̂ + ε), where g is scaled by min(1, clip/(‖g‖ + 1e-6)). A norm that is not finite leaves
 * everything as it was: the comparison with 1e30 is false for NaN and infinity.
 */
const adamw: Pointwise<void> = fuseInPlace(
  "adamw",
  (p, g, m, v, norm, lr, beta1, beta2, eps, decay, clip, correction1, correction2) => {
    const finite = norm.lt(1e30);
    const scaled = g.mul(expr(1).min(clip.div(norm.add(1e-6))));
    const m1 = m.mul(beta1).add(scaled.mul(expr(1).sub(beta1)));
    const v1 = v.mul(beta2).add(scaled.square().mul(expr(1).sub(beta2)));
    const update = m1.div(correction1).div(v1.div(correction2).sqrt().add(eps));
    const p1 = p.mul(expr(1).sub(lr.mul(decay))).sub(lr.mul(update));
    return [where(finite, p1, p), where(finite, m1, m), where(finite, v1, v)];
  },
  [0, 2, 3],
);

const addInPlace: Pointwise<void> = fuseInPlace("accumulate", (total, g) => [total.add(g)], [0]);

/** √Σ g² over a whole tree, on the device. */
export function globalNorm(grads: Tree): Tensor {
  return scope(
    () =>
      sqrt(
        treeLeaves(grads)
          .map(sumOfSquares)
          .reduce((a, b) => add(a, b)),
      ),
    "globalNorm",
  );
}

/**
 * Sums gradients of several micro-batches: adds `grads` to `total` in place. Go on with the result: it is `grads` if
 * there is no total yet, and where two parameters had one gradient tensor (those of a + b have), each gets memory of
 * its own, to be added to once.
 */
export function accumulateGrads<T extends Tree>(total: T | undefined, grads: T): T {
  const seen = new Set<Storage>();
  const own = (g: Tensor): Tensor => (seen.size < seen.add(g.storage).size ? g : noGrad(() => add(g, 0)));
  const result = mapTree(total ?? grads, own);
  if (total === undefined) return result;
  const parts = treeLeaves(grads);
  for (const [i, sumSoFar] of treeLeaves(result).entries()) addInPlace(sumSoFar, parts[i]!);
  return result;
}

/** What has to be saved to continue exactly. */
export interface AdamWState<T extends Tree> {
  readonly step: number;
  readonly m: T;
  readonly v: T;
}

/** Parameters with one weight decay: numbers of leaves of the tree, and their memory. */
interface Group {
  readonly members: readonly number[];
  readonly layout: PackParams;
  readonly decay: number;
  readonly m: Tensor;
  readonly v: Tensor;
  /** The parameters' memory, and who was in it: another optimiser, made later, may have moved them. */
  p: Tensor;
  buffers: readonly unknown[];
}

/**
 * AdamW over a tree of parameters, which `step` changes in place.
 *
 * @example
 * const optimizer = new AdamW(params, { lr: 1e-3, clipNorm: 1 });
 * for (const batch of batches) scope(() => void optimizer.step(grad(lossOf(batch))(params)));
 */
export class AdamW<T extends Tree> {
  readonly #options: Required<AdamWOptions>;
  readonly #params: T;
  readonly #m: T;
  readonly #v: T;
  readonly #groups: readonly Group[];
  #step = 0;

  /**
   * @param params the tree that `step` updates in place; their memory is moved together, which their users do not
   *   notice
   */
  constructor(params: T, options: AdamWOptions = {}) {
    checkKeys("AdamW", options, ["lr", "betas", "eps", "weightDecay", "clipNorm", "decays"]);
    this.#options = {
      lr: 1e-3,
      betas: [0.9, 0.999],
      eps: 1e-8,
      weightDecay: 0.01,
      clipNorm: Infinity,
      decays: (_, parameter) => parameter.rank >= 2,
      ...options,
    };
    const { lr, betas, eps, weightDecay, clipNorm } = this.#options;
    check(lr >= 0, () => `AdamW: lr must be ≥ 0, got ${lr}`);
    check(
      betas.every((b) => b >= 0 && b < 1),
      () => `AdamW: betas must be in [0, 1), got ${betas.join(", ")}`,
    );
    check(eps > 0, () => `AdamW: eps must be > 0, got ${eps}`);
    check(weightDecay >= 0, () => `AdamW: weightDecay must be ≥ 0, got ${weightDecay}`);
    check(clipNorm > 0, () => `AdamW: clipNorm must be > 0, got ${clipNorm}`);
    const ps = treeLeaves(params);
    const apart = new Set(ps.map((p) => p.storage)).size === ps.length;
    check(apart, () => "AdamW: two of the parameters share their memory; give each once");
    this.#params = params;
    const empty = (): T => outsideScopes(() => mapTree(params, zerosLike));
    [this.#m, this.#v] = [empty(), empty()];
    const entries = treeEntries(params);
    const [ms, vs] = [treeLeaves(this.#m), treeLeaves(this.#v)];
    const isDecaying = entries.map(([path, p]) => weightDecay > 0 && this.#options.decays(path, p));
    this.#groups = [true, false].flatMap((decaying): Group[] => {
      const members = entries.flatMap((_, i) => (isDecaying[i] === decaying ? [i] : []));
      if (members.length === 0) return [];
      const own = (leaves: readonly Tensor[]): Tensor[] => members.map((i) => leaves[i]!);
      const layout = packLayout(own(ps).map((x) => x.size));
      const [p, m, v] = [packInPlace(own(ps), layout), packInPlace(own(ms), layout), packInPlace(own(vs), layout)];
      return [{ members, layout, decay: decaying ? weightDecay : 0, m, v, p, buffers: own(ps).map(bufferOf) }];
    });
  }

  /** The moments are the live tensors; read them before the next step. */
  get state(): AdamWState<T> {
    return { step: this.#step, m: this.#m, v: this.#v };
  }

  /** Continues from a step count; the caller has written the moments into `state.m` and `state.v`. */
  resume(step: number): void {
    check(Number.isInteger(step) && step >= 0, () => `AdamW: step must be an integer ≥ 0, got ${step}`);
    this.#step = step;
  }

  /**
   * One update in place. A gradient norm that is not finite changes nothing but the step count.
   * @returns the norm before clipping, on the device
   */
  step(grads: T, lr: number = this.#options.lr): Tensor {
    const { betas, eps, clipNorm } = this.#options;
    const gs = treeLeaves(grads);
    const entries = treeEntries(this.#params);
    // All checks come before the first change: half an update would be worse than none.
    check(lr >= 0, () => `AdamW: lr must be ≥ 0, got ${lr}`);
    check(gs.length === entries.length, () => `AdamW: ${entries.length} parameters, but ${gs.length} gradients`);
    entries.forEach(([path, p], i) => {
      check(
        sameShape(p.shape, gs[i]!.shape),
        () => `AdamW: the gradient of "${path}" has shape ${showShape(gs[i]!.shape)}, expected ${showShape(p.shape)}`,
      );
    });
    const t = ++this.#step;
    const clip = Number.isFinite(clipNorm) ? clipNorm : 1e30;
    const [correction1, correction2] = [1 - betas[0] ** t, 1 - betas[1] ** t];
    const ps = entries.map(([, p]) => p);
    return noGrad(() =>
      scope(() => {
        const packed = this.#groups.map(({ members, layout }) =>
          pack(
            members.map((i) => gs[i]!),
            layout,
          ),
        );
        const norm = sqrt(packed.map(sumOfSquares).reduce((a, b) => add(a, b)));
        this.#groups.forEach((group, k) => {
          holdTogether(group, ps);
          const { p, m, v, decay } = group;
          adamw(p, packed[k]!, m, v, norm, lr, betas[0], betas[1], eps, decay, clip, correction1, correction2);
        });
        // The kernels wrote through other handles: a backward pass that still needs the old values must notice.
        for (const x of [...ps, ...treeLeaves(this.#m), ...treeLeaves(this.#v)]) x.storage.version++;
        return norm;
      }, "AdamW"),
    );
  }

  dispose(): void {
    for (const x of [...treeLeaves(this.#m), ...treeLeaves(this.#v)]) x.dispose();
    for (const { p, m, v } of this.#groups) for (const x of [p, m, v]) x.dispose();
  }
}

const bufferOf = (x: Tensor): unknown => x.storage.buffer;

/** Packs a group's parameters again if they were moved since. */
function holdTogether(group: Group, ps: readonly Tensor[]): void {
  const own = group.members.map((i) => ps[i]!);
  if (own.every((x, k) => x.storage.buffer === group.buffers[k])) return;
  group.p.dispose();
  group.p = packInPlace(own, group.layout);
  group.buffers = own.map(bufferOf);
}

/** A learning rate by step. */
export type Schedule = (step: number) => number;

/** Options of `schedule`. */
export interface ScheduleOptions {
  /** The rate after warm-up. */
  readonly lr: number;
  /** Steps of linear warm-up from lr/warmup to lr; default 0. */
  readonly warmup?: number;
  /** `cosine` ends at `lr · minRatio` after `steps`; default `constant`. */
  readonly decay?: "constant" | "cosine" | "linear";
  readonly steps?: number;
  readonly minRatio?: number;
}

/** Warm-up, then constant, linear or cosine decay (Loshchilov & Hutter 2017, without restarts). Steps count from 0. */
export function schedule(options: ScheduleOptions): Schedule {
  checkKeys("schedule", options, ["lr", "warmup", "decay", "steps", "minRatio"]);
  const { lr, warmup = 0, decay = "constant", steps, minRatio = 0 } = options;
  check(lr >= 0, () => `schedule: lr must be ≥ 0, got ${lr}`);
  check(
    ["constant", "cosine", "linear"].includes(decay),
    () => `schedule: unknown decay "${decay}", expected constant, cosine or linear`,
  );
  check(
    decay === "constant" || (steps !== undefined && steps > warmup),
    () => `schedule: ${decay} decay needs steps > warmup (${warmup}), got ${steps}`,
  );
  return (step) => {
    if (step < warmup) return (lr * (step + 1)) / warmup;
    if (decay === "constant") return lr;
    const progress = Math.min(1, (step - warmup) / (steps! - warmup));
    const shape = decay === "linear" ? 1 - progress : 0.5 * (1 + Math.cos(Math.PI * progress));
    return lr * (minRatio + (1 - minRatio) * shape);
  };
}
