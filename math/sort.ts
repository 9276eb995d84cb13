/**
 * Sorting along an axis by a network of comparisons (Batcher 1968, bitonic), whose every stage is a few ops over the
 * whole tensor: nothing is read back, and all rows are sorted at once.
 */
import { type AxisOptions, broadcastTo, cast, concat, type Expr, full, fuse, gather, noGrad } from "../engine/index.ts";
import { scope, select, slice, takeAlong, type Tensor, tensor, transpose } from "../engine/index.ts";
import { check } from "../engine/errors.ts";
import { checkTensor } from "../engine/operands.ts";
import { checkKeys } from "../engine/options.ts";
import { isFloat, normalizeAxis, showType } from "../engine/types.ts";

/** Options of `sort`. */
export interface SortOptions extends AxisOptions {
  /** Largest first; default false. */
  readonly descending?: boolean;
}
/** Options of `topk`. */
export interface TopkOptions extends AxisOptions {
  /** Whether the largest are taken, and not the smallest; default true. */
  readonly largest?: boolean;
}
/** Elements in order, and where they were. */
export interface Sorted {
  /** The gradient of each goes to the element that it was. */
  readonly values: Tensor;
  /** i32, places along the axis. */
  readonly indices: Tensor<"i32">;
}

/**
 * The elements along an axis, the last unless given, in ascending order, as PyTorch's `sort` with `stable=True`: equal
 * ones keep their order, −0 and 0 are equal, and NaN is larger than all.
 *
 * n elements take ½·log₂n·(log₂n + 1) stages of four kernels: 220 for 1,024.
 *
 * @example
 * const { values, indices } = sort(tensor([3, 1, 2]));   // [1, 2, 3] and [1, 2, 0]
 */
export function sort(x: Tensor, options: SortOptions = {}): Sorted {
  checkKeys("sort", options, ["axis", "descending"]);
  return sorted("sort", x, options.axis, options.descending ?? false);
}

/**
 * The k largest elements along an axis, the last unless given, the largest first, as PyTorch's `topk`. Of equal ones
 * the first is taken. It sorts the whole axis.
 */
export function topk(x: Tensor, k: number, options: TopkOptions = {}): Sorted {
  checkKeys("topk", options, ["axis", "largest"]);
  return sorted("topk", x, options.axis, options.largest ?? true, k);
}

function sorted(where: string, x: Tensor, axis = -1, descending: boolean, k?: number): Sorted {
  checkTensor(where, x);
  check(isFloat(x.dtype) && x.rank > 0, () => `${where}: expected floats with an axis, got ${showType(x)}`);
  const a = normalizeAxis(where, axis, x.rank);
  const count = x.shape[a]!;
  const kept = k ?? count;
  const isCount = Number.isInteger(kept) && kept >= 1 && kept <= count;
  check(isCount, () => `${where}: expected an integer k from 1 to ${count}, got ${kept}`);
  const indices = noGrad(() => scope(() => transpose(order(transpose(x, a, -1), descending, kept), a, -1), where));
  return { values: takeAlong(x, indices, { axis: a }), indices: cast(indices, "i32") };
}

// A total order: by key, and by id where keys are equal. NaN has the key of the largest and an id behind all others.
const ascendingKey = fuse("ascendingKey", (x) => select(x.ne(x), Infinity, x));
const descendingKey = fuse("descendingKey", (x) => select(x.ne(x), -Infinity, x.neg()));
const idOf = fuse("sortId", (x, place, shift) => select(x.ne(x), place.add(shift), place));
const precedes = (key: Expr, id: Expr, otherKey: Expr, otherId: Expr): Expr =>
  select(key.eq(otherKey), id.lt(otherId), key.lt(otherKey));
/** Of two elements the own one or the partner's, whichever belongs here. */
const keptKey = fuse("sortKey", (key, id, otherKey, otherId, first) =>
  select(precedes(otherKey, otherId, key, id).eq(first), otherKey, key),
);
const keptId = fuse("sortPlace", (key, id, otherKey, otherId, first) =>
  select(precedes(otherKey, otherId, key, id).eq(first), otherId, id),
);
const placeOf = fuse("sortIndex", (id, count) =>
  select(id.lt(0), id.add(count), select(id.lt(count), id, id.sub(count))),
);

/** i32: the first `kept` places of the order along the last axis. */
function order(x: Tensor, descending: boolean, kept: number): Tensor<"i32"> {
  const { device, dtype, shape } = x;
  const outer = shape.slice(0, -1);
  const n = shape.at(-1)!;
  const width = 2 ** Math.ceil(Math.log2(n));
  const constants = (values: readonly number[]): Tensor => tensor(values, { device, dtype });
  let key = descending ? descendingKey(x) : ascendingKey(x);
  let id = idOf(x, constants(range(n)), descending ? -n : n);
  if (width > n) {
    // What fills the axis up comes last: behind all infinities and all NaN.
    const filled = (values: Tensor): Tensor => broadcastTo(values, [...outer, width - n]);
    key = concat([key, filled(full([1], Infinity, { device, dtype }))], { axis: -1 });
    id = concat([id, filled(constants(range(width - n).map((i) => 2 * n + i)))], { axis: -1 });
  }
  for (let block = 2; block <= width; block *= 2) {
    for (let distance = block / 2; distance >= 1; distance /= 2) {
      const partners = tensor(
        Int32Array.from(range(width), (i) => i ^ distance),
        { device },
      );
      // Blocks are sorted up and down in turns, so that two of them make one that goes up and down.
      const first = constants(range(width).map((i) => Number(((i & block) === 0) === ((i & distance) === 0))));
      const [otherKey, otherId] = [gather(key, partners, { axis: -1 }), gather(id, partners, { axis: -1 })];
      [key, id] = [keptKey(key, id, otherKey, otherId, first), keptId(key, id, otherKey, otherId, first)];
    }
  }
  const start = outer.map(() => 0);
  return cast(placeOf(slice(id, start, [...outer, kept]), n), "i32");
}

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
