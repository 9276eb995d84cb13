/**
 * AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101, algorithm 2) with clipping by the global norm, as PyTorch computes
 * both.
 *
 * Parameters that decay and those that do not are two groups. The tensors of a group lie in one piece of memory, and so
 * do their moments, so that one kernel updates a group, however many parameters it has; each step packs the gradients
 * alike. Groups of more than 64 MiB are cut into blocks, so that no copy of a large model is ever needed.
 */
import { expr, where } from "../kernels/expr.ts";
import { check, OutOfMemoryError, WorldgradError } from "../engine/errors.ts";
import { fuse, fuseInPlace, type Pointwise } from "../engine/fuse.ts";
import { zeros } from "../engine/ops/create.ts";
import { reshape } from "../engine/ops/movement.ts";
import { pack, packedViews, packInPlace, packLayout, type PackParams, sumOfSquares } from "../engine/ops/pack.ts";
import { add, sqrt } from "../engine/ops/pointwise.ts";
import { checkKeys, showValue } from "../engine/options.ts";
import { outsideScopes, scope } from "../engine/scope.ts";
import { noGrad, recordingOutside } from "../engine/tape.ts";
import type { Storage, Tensor } from "../engine/tensor.ts";
import { mapTree, type Tree, treeEntries, treeFromLeaves, treeLeaves, treeLeavesLike } from "../engine/tree.ts";
import { bytesPerElement, sameShape, showShape } from "../engine/types.ts";

/** Options of `AdamW`. */
export interface AdamWOptions {
  /** The learning rate, default 1e-3; each step may give another. */
  readonly lr?: number;
  /** The decay rates of the moments, default [0.9, 0.999]. */
  readonly betas?: readonly [number, number];
  /** ε, added to √v̂; default 1e-8. */
  readonly eps?: number;
  /** Decoupled weight decay, default 0.01. */
  readonly weightDecay?: number;
  /** The largest global L2 norm of the gradients, to which larger ones are scaled; default Infinity (no clipping). */
  readonly clipNorm?: number;
  /** Whether a parameter decays; default: matrices do, vectors (gains, biases) do not. */
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

/** √x with the slope 0 at 0, as PyTorch's norms have it. The argument is chosen, too: √0 has the slope ∞. */
const rootOfSquares: Pointwise<Tensor> = fuse("rootOfSquares", (x) => {
  const isZero = x.eq(0);
  return where(isZero, 0, where(isZero, 1, x).sqrt());
});

/** √Σ g² over a whole tree, on the device. It is differentiable, for gradient penalties; at 0 the slope is 0. */
export function globalNorm(grads: Tree): Tensor {
  const squares = (): Tensor[] => treeLeaves(grads).map(sumOfSquares);
  const norm = (): Tensor => rootOfSquares(squares().reduce((a, b) => add(a, b)));
  // A backward pass needs the tensors that a scope would free.
  return recordingOutside() ? norm() : scope(norm, "globalNorm");
}

/**
 * Sums gradients of several micro-batches: adds `grads` to `total` in place, each to the one of its name. The result is
 * the new total: `grads` if there was none yet. If two parameters had one gradient tensor (as those of a + b have),
 * each gets its own memory, to which further gradients are added.
 * @throws if names or shapes differ from those of `total`; nothing has been added then
 */
export function accumulateGrads<T extends Tree>(total: T | undefined, grads: T): T {
  const parts = total === undefined ? [] : treeLeavesLike(grads, total, "accumulateGrads: gradients and their total");
  checkShapes("accumulateGrads", total ?? [], parts);
  const seen = new Set<Storage>();
  const distinct = (g: Tensor): Tensor => (seen.size < seen.add(g.storage).size ? g : noGrad(() => add(g, 0)));
  const result = mapTree(total ?? grads, distinct);
  if (total === undefined) return result;
  for (const [i, sumSoFar] of treeLeaves(result).entries()) addInPlace(sumSoFar, parts[i]!);
  return result;
}

/** @throws if a gradient does not have the shape of its parameter */
function checkShapes(where: string, params: Tree, grads: readonly Tensor[]): void {
  treeLeaves(params).forEach(({ shape }, i) => {
    const path = (): string => treeEntries(params)[i]![0];
    check(
      sameShape(shape, grads[i]!.shape),
      () =>
        `${where}: the gradient of "${path()}" has shape ${showShape(grads[i]!.shape)}, expected ${showShape(shape)}`,
    );
  });
}

/** The state that has to be saved to continue exactly. */
export interface AdamWState<T extends Tree> {
  readonly step: number;
  readonly m: T;
  readonly v: T;
}

/**
 * The parameters that one kernel updates: they have one weight decay; their numbers in the tree, and their memory. A
 * single parameter is a block as it is, without a copy.
 */
interface Block {
  readonly members: readonly number[];
  readonly layout: PackParams;
  readonly decay: number;
  readonly m: Tensor;
  readonly v: Tensor;
  /** The parameters' memory, and its buffers: another optimiser, made later, may have moved them. */
  p: Tensor | undefined;
  /** Undefined if the block is one large parameter, whose own memory is used. */
  buffers: readonly unknown[] | undefined;
}

/** The largest block, in bytes, unless it is one parameter; a step copies so much of the gradients at a time. */
const BLOCK_BYTES = 64 * 2 ** 20;

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
  /** The leaves of the moments. */
  readonly #moments: { readonly m: readonly Tensor[]; readonly v: readonly Tensor[] };
  readonly #blocks: readonly Block[];
  #step = 0;

  /**
   * @param params the tree that `step` updates in place; their memory is moved together, which their users do not
   *   notice
   * @throws if an option is out of range, if two parameters share memory, or if memory runs out. Nothing stays
   * allocated
   *   then; parameters that were moved already stay there, with the same values
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
    const entries = treeEntries(params);
    const isDecaying = entries.map(([path, p]) => weightDecay > 0 && this.#options.decays(path, p));
    const planned = [true, false].flatMap((decaying) => {
      const members = entries.flatMap((_, i) => (isDecaying[i] === decaying ? [i] : []));
      return inBlocks(ps, members).map((block) => ({ members: block, decay: decaying ? weightDecay : 0 }));
    });
    // The scope frees the tensors if memory runs out; its result has no scope around it and lives on.
    const made = outsideScopes(() =>
      scope(() => {
        const moments = (): [whole: Tensor[], leaves: Tensor[]] => {
          const leaves: Tensor[] = [];
          const wholes = planned.map(({ members }) => {
            const layout = layoutOf(ps, members);
            const { device, dtype } = ps[members[0]!]!;
            const whole = zeros([layout.total], { device, dtype });
            const shapes = members.map((i) => ps[i]!.shape);
            packedViews(whole, layout, shapes).forEach((view, k) => (leaves[members[k]!] = view));
            return whole;
          });
          return [wholes, leaves];
        };
        return { m: moments(), v: moments() };
      }, "AdamW"),
    );
    const [[ms, m], [vs, v]] = [made.m, made.v];
    this.#m = treeFromLeaves(params, m);
    this.#v = treeFromLeaves(params, v);
    this.#moments = { m, v };
    this.#blocks = planned.map(({ members, decay }, k): Block => {
      const layout = layoutOf(ps, members);
      return {
        members,
        layout,
        decay,
        m: ms[k]!,
        v: vs[k]!,
        p: undefined,
        buffers: isLarge(ps, members) ? undefined : [],
      };
    });
    try {
      for (const block of this.#blocks) holdTogether(block, ps);
    } catch (error) {
      this.dispose();
      throw error;
    }
  }

  /** The parameters that `step` changes, as they were given. */
  get params(): T {
    return this.#params;
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
   * One update in place. A gradient norm that is not finite changes only the step count. A step that throws has changed
   * nothing and is not counted; if there are several blocks of memory and it ends between two, the error names the
   * parameters that have changed.
   * @param grads a gradient for each parameter, under its name
   * @throws if a gradient is missing, has a name that no parameter has, or another shape
   * @returns the norm before clipping, on the device
   */
  step(grads: T, lr: number = this.#options.lr): Tensor {
    const { betas, eps, clipNorm } = this.#options;
    const ps = treeLeaves(this.#params);
    // All checks come before the first change, so that no update is left half done.
    check(lr >= 0, () => `AdamW: lr must be ≥ 0, got ${lr}`);
    const gs = treeLeavesLike(grads, this.#params, "AdamW: gradients and parameters");
    checkShapes("AdamW", this.#params, gs);
    const t = this.#step + 1;
    const clip = Number.isFinite(clipNorm) ? clipNorm : 1e30;
    const [correction1, correction2] = [1 - betas[0] ** t, 1 - betas[1] ** t];
    const blocks = this.#blocks;
    const bytes = blocks.reduce((sum, { m }) => sum + m.storage.buffer.bytes, 0);
    const packed = ({ members, layout, buffers }: Block): Tensor => {
      const ofBlock = members.map((i) => gs[i]!);
      return buffers === undefined ? reshape(ofBlock[0]!, [-1]) : pack(ofBlock, layout);
    };
    const norm = noGrad(() =>
      scope(() => {
        for (const block of blocks) holdTogether(block, ps);
        // Small gradients are packed all at once; large ones block by block, so that there is never a second copy of
        // all.
        const kept = bytes <= BLOCK_BYTES ? blocks.map(packed) : undefined;
        const squares = blocks.map((block, k) => scope(() => sumOfSquares(kept?.[k] ?? packed(block)), "AdamW"));
        const norm = sqrt(squares.reduce((a, b) => add(a, b)));
        blocks.forEach((block, k) => {
          const { m, v, decay } = block;
          const update = (): void => {
            const [p, g] = [block.p ?? reshape(ps[block.members[0]!]!, [-1]), kept?.[k] ?? packed(block)];
            adamw(p, g, m, v, norm, lr, betas[0], betas[1], eps, decay, clip, correction1, correction2);
          };
          try {
            scope(update, "AdamW");
          } catch (error) {
            if (k > 0) throw partial(error, t, treeEntries(this.#params), blocks, k);
            throw error;
          }
          // The kernel wrote through other handles: the versions tell a backward pass that still needs the old values.
          for (const i of block.members) {
            for (const x of [ps[i]!, this.#moments.m[i]!, this.#moments.v[i]!]) x.storage.version++;
          }
        });
        return norm;
      }, "AdamW"),
    );
    this.#step = t;
    return norm;
  }

  /** Frees the moments. The parameters live on. */
  dispose(): void {
    for (const x of [...this.#moments.m, ...this.#moments.v]) x.dispose();
    for (const { p, m, v } of this.#blocks) for (const x of [p, m, v]) x?.dispose();
  }
}

const bufferOf = (x: Tensor): unknown => x.storage.buffer;

const bytesOf = (p: Tensor): number => p.size * bytesPerElement(p.dtype);

/** The offsets of a block's parameters; a large one needs no room behind it, as nothing is packed. */
const layoutOf = (ps: readonly Tensor[], members: readonly number[]): PackParams =>
  isLarge(ps, members) ? { offsets: [0], total: ps[members[0]!]!.size } : packLayout(members.map((i) => ps[i]!.size));

const isLarge = (ps: readonly Tensor[], members: readonly number[]): boolean =>
  members.length === 1 && bytesOf(ps[members[0]!]!) > BLOCK_BYTES;

/**
 * `members` in blocks of at most `BLOCK_BYTES`, which every device can bind (WebGPU guarantees 128 MiB); a larger
 * parameter is a block of its own.
 */
function inBlocks(ps: readonly Tensor[], members: readonly number[]): number[][] {
  const blocks: number[][] = [];
  let bytes = Infinity;
  for (const i of members) {
    const more = bytesOf(ps[i]!);
    if (bytes + more > BLOCK_BYTES) {
      blocks.push([]);
      bytes = 0;
    }
    blocks.at(-1)!.push(i);
    bytes += more;
  }
  return blocks;
}

/** Packs a block's parameters again if they were moved since. */
function holdTogether(block: Block, ps: readonly Tensor[]): void {
  if (block.buffers === undefined) return;
  const parameters = block.members.map((i) => ps[i]!);
  if (block.p && parameters.every((x, k) => x.storage.buffer === block.buffers![k])) return;
  const moved = packInPlace(parameters, block.layout);
  block.p?.dispose();
  block.p = moved;
  block.buffers = parameters.map(bufferOf);
}

/** The error of a step that ended between two blocks, with the parameters that it has changed. */
function partial(
  error: unknown,
  step: number,
  entries: readonly (readonly [path: string, leaf: Tensor])[],
  blocks: readonly Block[],
  done: number,
): Error {
  const paths = (some: readonly Block[]): string[] => some.flatMap(({ members }) => members.map((i) => entries[i]![0]));
  const [changed, left] = [paths(blocks.slice(0, done)), paths(blocks.slice(done))];
  const message =
    `AdamW: step ${step} ended half-way: ${changed.length} parameters have changed ("${changed[0]}" … ` +
    `"${changed.at(-1)}"), ${left.length} have not ("${left[0]}" … "${left.at(-1)}"): ` +
    (error instanceof Error ? error.message : String(error));
  return error instanceof OutOfMemoryError
    ? new OutOfMemoryError(message, { cause: error })
    : new WorldgradError(message, { cause: error });
}

/** A learning rate by step. */
export type Schedule = (step: number) => number;

/** Options of `schedule`. */
export interface ScheduleOptions {
  /** The rate after warm-up. */
  readonly lr: number;
  /** The number (not the share) of steps of linear warm-up from lr/warmup to lr; default 0. */
  readonly warmup?: number;
  /** `cosine` and `linear` end at `lr · minRatio` after `steps`; default `constant`. */
  readonly decay?: "constant" | "cosine" | "linear";
  readonly steps?: number;
  /** The last rate as a part of `lr`, in [0, 1]; default 0. */
  readonly minRatio?: number;
}

/** Warm-up, then constant, linear or cosine decay (Loshchilov & Hutter 2017, without restarts). Steps count from 0. */
export function schedule(options: ScheduleOptions): Schedule {
  checkKeys("schedule", options, ["lr", "warmup", "decay", "steps", "minRatio"]);
  const { lr, warmup = 0, decay = "constant", steps, minRatio = 0 } = options;
  const isRate = typeof lr === "number" && lr >= 0 && lr < Infinity;
  check(isRate, () => `schedule: lr must be a number ≥ 0, got ${showValue(lr)}`);
  check(
    Number.isInteger(warmup) && warmup >= 0,
    () => `schedule: warmup must be a number of steps, an integer ≥ 0, got ${warmup}`,
  );
  check(minRatio >= 0 && minRatio <= 1, () => `schedule: minRatio must be in [0, 1], got ${minRatio}`);
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
