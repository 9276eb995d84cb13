/**
 * The masks of attention, for tiles of four queries and groups of four keys: the order in which forward and backward
 * kernels visit the keys, and the masks where only some of a tile's queries see some of a group's keys.
 */
import type { AttentionSpec } from "../specs.ts";
import { type FunctionBuilder, I32, I32x4, load, type Var } from "./assembler.ts";
import { type Block, BLOCK, range, TILE } from "./attentionTiles.ts";

/** The keys that the queries of one row of the batch may see. */
export interface KeyMask {
  readonly queries: I32;
  readonly keys: I32;
  /** The key position of query 0. */
  readonly start: I32;
  /** The address of the keys' segments, if segments mask. */
  readonly segments: I32 | undefined;
  readonly causal: boolean;
  /** The largest number of keys that a causal query sees, if that is limited. */
  readonly window: I32 | undefined;
}

/** The kind of mask, which is baked into a kernel. */
export interface MaskKind {
  readonly mask: AttentionSpec["mask"];
  readonly causal: boolean;
  readonly windowed: boolean;
}
export const maskKindOf = ({ mask, causal, window }: AttentionSpec): MaskKind => ({
  mask,
  causal,
  windowed: window > 0,
});
/** The text of a mask kind in a kernel's key. */
export const showMaskKind = ({ mask, causal, windowed }: MaskKind): string =>
  `${mask}${causal ? ".causal" : ""}${windowed ? ".window" : ""}`;
/** The approximate number of computed pairs of a query and a key. */
export const pairsOf = (queries: number, { keys, causal, window }: AttentionSpec): number =>
  window > 0 ? queries * Math.min(keys, window + TILE) : queries * keys * (causal && queries > 1 ? 0.5 : 1);

/** The mask of one row of the batch; `aux` is its data, see `AttentionSpec`. */
export function keyMaskOf(
  f: FunctionBuilder,
  { queries, keys, aux, window }: Record<"queries" | "keys" | "aux" | "window", I32>,
  batch: I32,
  { mask, causal, windowed }: MaskKind,
): KeyMask {
  const start = f.let(mask === "start" ? load.i32(aux.at(batch)) : I32.of(0));
  const segments = mask === "segments" ? f.let(aux.at(batch.mul(keys))) : undefined;
  return { queries, keys, start, segments, causal, window: windowed ? window : undefined };
}

/** The number of bytes of the masks of one group. */
export const SEEN_BYTES: number = 4 * TILE * TILE;

/** The visitor of the keys that a tile sees. */
export interface KeyVisitor {
  /**
   * Takes the four keys from `j` on into the block, which has room. Without `seen` all four exist and all queries see
   * them. With it only `count` of the keys exist, and `seen` has a mask for each, with lane r for row r.
   */
  readonly add: (j: Var<I32>, count: I32 | number, seen?: readonly Var<I32x4>[]) => void;
  /** Takes the complete block: all of its keys were added without masks, or it is one group with masks. */
  readonly flush: (masked: boolean) => void;
}

/**
 * Visits the keys that the queries t … t + 3 see, in order. If all queries see all keys, a row beyond the last query
 * sees all as well; with masks it sees none.
 */
export function forKeys(f: FunctionBuilder, keyMask: KeyMask, t: Var<I32>, block: Block, visitor: KeyVisitor): void {
  const { queries, keys, start, segments, causal, window } = keyMask;
  const rows = f.let(laneNumbers(t));
  const exists = f.let(rows.lt(queries.splat()));
  const lastKey = f.let(keys.sub(1).splat());
  // No query sees a key beyond its limit, which is −1 for padding.
  const limit = f.let(causal ? rows.minS(queries.sub(1).splat()).add(start.splat()).minS(lastKey) : lastKey.add(0));
  const ownSegments = segments && loadLanes(f, segments, t, queries);
  if (ownSegments) f.set(limit, ownSegments.gt(-1).bitselect<I32x4>(limit, I32x4.of(-1)));
  const swapped = f.let(limit.shuffle(limit, 2, 3, 0, 1));
  const [low, high] = [f.let(limit.minS(swapped)), f.let(limit.maxS(swapped))];
  const lowest = f.let(low.lane(0).min(low.lane(1)));
  const end = f.let(high.lane(0).max(high.lane(1)).add(1).max(0));
  // With a window no query sees a key before its own first one; the tile's first query sees farthest back.
  const firstKeys = window && f.let(rows.minS(queries.sub(1).splat()).add(f.let(start.add(1).sub(window)).splat()));
  const begin = firstKeys && f.let(firstKeys.lane(0).max(0).and(-TILE));
  const latestFirst = firstKeys && f.let(firstKeys.lane(3));

  const masksAt = (j: Var<I32>): Var<I32x4>[] => {
    const keySegments = segments && loadLanes(f, segments, j, keys);
    return range(TILE).map((c) => {
      const within = f.let(limit.lt(j.add(c).splat()).not());
      if (firstKeys) f.set(within, within.and(firstKeys.gt(j.add(c).splat()).not()));
      if (ownSegments === undefined || keySegments === undefined) return within;
      return f.let(within.and(ownSegments.eq(keySegments.shuffle(keySegments, c, c, c, c))));
    });
  };
  const flush = (masked: boolean): void => {
    visitor.flush(masked);
    f.set(block.count, I32.of(0));
  };
  // The loop makes one turn more than there are groups; that turn adds the last block.
  f.for(begin ?? 0, f.let(end.add(TILE)), TILE, (j) => {
    const masks = ownSegments && masksAt(j);
    const before = j.add(TILE - 1).le(lowest);
    const all = f.let(
      masks?.reduce<I32x4>((a, b) => a.and(b), I32x4.of(-1)).all() ??
        (latestFirst ? before.and(latestFirst.le(j)) : before),
    );
    f.if(block.count.ne(0).and(all.not().or(block.count.eq(BLOCK))), () => flush(false));
    f.if(
      all,
      () => visitor.add(j, TILE),
      () =>
        f.if(j.lt(end), () => {
          const seen = (masks ?? masksAt(j)).map((mask) => f.let(mask.and(exists)));
          f.if(seen.reduce<I32x4>((a, b) => a.or(b), I32x4.of(0)).any(), () => {
            visitor.add(j, keys.sub(j).min(TILE), seen);
            flush(true);
          });
        }),
    );
  });
}

/** first, first + 1, first + 2, first + 3 */
const laneNumbers = (first: I32): I32x4 => first.splat().add(I32x4.lanes(0, 1, 2, 3));

/** Four integers of an array from `first` on; the last one (number `count` − 1) stands for those beyond it. */
function loadLanes(f: FunctionBuilder, base: I32, first: I32, count: I32): Var<I32x4> {
  const at = (r: number): I32 => load.i32(base.at(first.add(r).min(count.sub(1))));
  const v = f.let(at(0).splat());
  for (const r of [1, 2, 3]) f.set(v, v.withLane(r, at(r)));
  return v;
}
