/**
 * `worldgrad/fast-check`: arbitraries of shapes, tensors and axes for property-based tests with fast-check, an optional
 * peer package. What they produce is plain data: it prints, it shrinks, and it belongs to no device. `withTensors`
 * makes tensors of it for the time of one run of a property. docs/gradient-checks.md has a complete example.
 *
 * They shrink as a reader would simplify a counterexample by hand: to fewer axes, sizes of 1, short fractions, zeros.
 */
import fc from "fast-check";
import { currentDevice, type DType, type Device, type Shape, Tensor, tensor, WorldgradError } from "./engine/index.ts";
import { checkKeys } from "./engine/options.ts";
import { adopt } from "./engine/scope.ts";

/** How long axes are. */
export interface SizeOptions {
  /** Default 1. */
  readonly minSize?: number;
  /** Default 7: on both sides of the vectors of four that kernels load. */
  readonly maxSize?: number;
}
/** How many axes there are, and how long they are. */
export interface ShapeOptions extends SizeOptions {
  /** Default 0. */
  readonly minRank?: number;
  /** Default 4. */
  readonly maxRank?: number;
}

const SIZE_KEYS = ["minSize", "maxSize"] as const;
const SHAPE_KEYS = [...SIZE_KEYS, "minRank", "maxRank"] as const;

function refuse(message: string): never {
  throw new WorldgradError(message);
}

/** Throws unless `least ≤ from ≤ to` are whole numbers. */
function checkRange(where: string, what: string, least: number, from: number, to: number): void {
  if (!(Number.isInteger(from) && Number.isInteger(to) && least <= from && from <= to)) {
    refuse(`${where}: expected whole numbers ${least} ≤ min${what} ≤ max${what}, got ${from} and ${to}`);
  }
}

/** The size of an axis. One time in four it is 1 since axes of size 1 broadcast. */
export function sizes(options: SizeOptions = {}): fc.Arbitrary<number> {
  checkKeys("sizes", options, SIZE_KEYS);
  const { minSize = 1, maxSize = 7 } = options;
  checkRange("sizes", "Size", 1, minSize, maxSize);
  const any = fc.integer({ min: minSize, max: maxSize });
  return minSize > 1 ? any : fc.oneof(fc.constant(1), any, any, any);
}

/**
 * Shapes.
 *
 * @example
 * fc.property(shapes({ minRank: 1, maxRank: 3 }), (shape) => …);
 */
export function shapes(options: ShapeOptions = {}): fc.Arbitrary<number[]> {
  checkKeys("shapes", options, SHAPE_KEYS);
  const { minRank = 0, maxRank = 4, ...ofSizes } = options;
  checkRange("shapes", "Rank", 0, minRank, maxRank);
  return fc.array(sizes(ofSizes), { minLength: minRank, maxLength: maxRank, size: "max" });
}

/**
 * Lists of shapes that broadcast together: of one shape, each drops leading axes and has size 1 on some others.
 *
 * @param options those of the whole shape, and `count`, the length of the list (default 2)
 */
export function broadcastableShapes(options?: ShapeOptions): fc.Arbitrary<[a: number[], b: number[]]>;
export function broadcastableShapes(options: ShapeOptions & { readonly count: number }): fc.Arbitrary<number[][]>;
export function broadcastableShapes(
  options: ShapeOptions & { readonly count?: number } = {},
): fc.Arbitrary<number[][]> {
  checkKeys("broadcastableShapes", options, [...SHAPE_KEYS, "count"]);
  const { count = 2, ...ofShapes } = options;
  checkRange("broadcastableShapes", "Count", 1, count, count);
  const { maxRank = 4, minSize = 1, maxSize = 7 } = ofShapes;
  // The whole shape has no sizes of 1 where it can, often nothing is dropped, and two axes of three stay. Otherwise one
  // operand would nearly always have the shape of the result, and [2, 1] · [1, 3] would hardly occur.
  const whole = shapes({ ...ofShapes, minSize: Math.max(minSize, Math.min(2, maxSize)) });
  const part = fc.record({
    dropped: fc.oneof(fc.constant(0), fc.constant(0), fc.nat(maxRank)),
    flat: fc.array(fc.nat(2), { minLength: maxRank, maxLength: maxRank }),
  });
  return fc
    .tuple(whole, fc.array(part, { minLength: count, maxLength: count }))
    .map(([shape, parts]) =>
      parts.map(({ dropped, flat }) =>
        shape.map((n, d) => (flat[d] === 2 ? 1 : n)).slice(dropped % (shape.length + 1)),
      ),
    );
}

/**
 * Two shapes of matrices whose product exists: [..., M, K] and [..., K, N].
 *
 * @param options `maxBatchRank`: axes before the last two, which broadcast; default 0
 */
export function matmulShapes(
  options: SizeOptions & { readonly maxBatchRank?: number } = {},
): fc.Arbitrary<[a: number[], b: number[]]> {
  checkKeys("matmulShapes", options, [...SIZE_KEYS, "maxBatchRank"]);
  const { maxBatchRank = 0, ...ofSizes } = options;
  const size = sizes(ofSizes);
  return fc
    .tuple(size, size, size, broadcastableShapes({ maxRank: maxBatchRank, maxSize: 3 }))
    .map(([m, k, n, [a, b]]) => [
      [...a, m, k],
      [...b, k, n],
    ]);
}

/** Orders of the axes of a tensor of this rank, for `permute`. They shrink towards 0, 1, 2, …. */
export function permutations(rank: number): fc.Arbitrary<number[]> {
  checkRange("permutations", "Rank", 0, rank, rank);
  // Lehmer's code: digit d says which of the axes that are left comes next.
  return fc.tuple(...Array.from({ length: rank }, (_, d) => fc.nat(rank - 1 - d))).map((code) => {
    const left = code.map((_, d) => d);
    return code.map((digit) => left.splice(digit, 1)[0]!);
  });
}

/** Which numbers are drawn. */
export interface ValueOptions {
  /** Default −3. */
  readonly min?: number;
  /** Default 3. */
  readonly max?: number;
  /** Points to keep away from: kinks, poles. */
  readonly avoid?: readonly number[];
  /** How far from them, default 0.1: farther than `checkGradient` steps, which is 2.4e-4 in f64 and 0.03 in f32. */
  readonly margin?: number;
  /** About one value in eight is one of these, whatever the other options say. See `SPECIAL_FLOATS`. */
  readonly special?: readonly number[];
}
const VALUE_KEYS = ["min", "max", "avoid", "margin", "special"] as const;

/** Where f32 arithmetic goes wrong: both zeros, the smallest and largest numbers, infinities, NaN. */
export const SPECIAL_FLOATS: readonly number[] = [
  0,
  -0,
  1,
  -1,
  2 ** -149,
  2 ** -126,
  -(2 ** -126),
  (2 - 2 ** -23) * 2 ** 127,
  -(2 - 2 ** -23) * 2 ** 127,
  Infinity,
  -Infinity,
  NaN,
];

/**
 * Numbers that f32 holds exactly, so that all executors start from the same values.
 *
 * @throws if no number is left between `min` and `max`
 *
 * @example
 * values({ min: -2, max: 2, avoid: [0], margin: 0.05 });   // for relu
 * values({ min: 0.1, max: 10 });                           // for log
 */
export function values(options: ValueOptions = {}): fc.Arbitrary<number> {
  checkKeys("values", options, VALUE_KEYS);
  const { special = [] } = options;
  const allowed = allowedBy("values", options);
  const { min, max } = allowed;
  // Whole steps and a fraction of a step: the fraction shrinks to 0, then the number of steps. The step is 1 unless the
  // range is too narrow or too wide for that.
  const exponent = Math.floor(Math.log2((max - min) / 4));
  const step = 2 ** Math.min(Math.max(0, exponent - 40), exponent);
  const regular = fc
    .tuple(fc.integer({ min: Math.floor(min / step), max: Math.floor(max / step) }), fc.nat(2 ** 16 - 1))
    .map(([whole, fraction]) => Math.fround((whole + fraction / 2 ** 16) * step))
    .filter(allowed.includes);
  if (special.length === 0) return regular;
  return fc.oneof(
    { arbitrary: regular, weight: 7 },
    { arbitrary: fc.constantFrom(...special.map(Math.fround)), weight: 1 },
  );
}

/** Whole numbers in the range, for ids and counts. `special` does not apply. */
function wholeNumbers(where: string, options: ValueOptions): fc.Arbitrary<number> {
  const { min, max, includes } = allowedBy(where, options, 0.5);
  return fc.integer({ min: Math.ceil(min), max: Math.floor(max) }).filter(includes);
}

function allowedBy(
  where: string,
  { min = -3, max = 3, avoid = [], margin = 0.1 }: ValueOptions,
  width = 0,
): { min: number; max: number; includes: (x: number) => boolean } {
  if (!(Number.isFinite(min) && Number.isFinite(max) && min < max + width && margin >= 0)) {
    refuse(`${where}: expected finite min < max and margin ≥ 0, got ${min}, ${max} and ${margin}`);
  }
  const includes = (x: number): boolean => min <= x && x <= max && avoid.every((a) => Math.abs(x - a) >= margin);
  const ends = [min, max, ...avoid.flatMap((a) => [a - margin, a + margin])].filter((x) => min <= x && x <= max);
  const sorted = ends.toSorted((a, b) => a - b);
  const middles = width > 0 ? sorted : sorted.slice(1).map((x, i) => (x + sorted[i]!) / 2);
  if (!middles.some(includes))
    refuse(`${where}: no number from ${min} to ${max} is ${margin} away from ${avoid.join(", ")}`);
  return { min, max, includes };
}

/** A tensor as plain data. Floats become the device's float type, f64 on the reference executor. */
export interface TensorData {
  readonly shape: readonly number[];
  readonly dtype: "f32" | "i32";
  readonly data: readonly number[];
}
/** Which elements are drawn. */
export interface TensorDataOptions extends ValueOptions {
  /** "i32": whole numbers from `min` to `max`. Default "f32". */
  readonly dtype?: "f32" | "i32";
}

/**
 * A tensor of a given shape, or of shapes from an arbitrary.
 *
 * @example
 * tensors([2, 3], { avoid: [0] });
 * tensors(shapes({ maxRank: 2 }), { special: SPECIAL_FLOATS });
 */
export function tensors(shape: Shape | fc.Arbitrary<Shape>, options: TensorDataOptions = {}): fc.Arbitrary<TensorData> {
  const list = shape instanceof fc.Arbitrary ? shape.map((own) => [own]) : fc.constant([shape]);
  return tensorLists(list, options).map(([only]) => only!);
}

/**
 * Tensors whose shapes depend on each other, one for each shape of the list.
 *
 * @example
 * tensorLists(broadcastableShapes({ count: 3 }));
 * tensorLists(matmulShapes({ maxBatchRank: 1 }));
 */
export function tensorLists(
  lists: fc.Arbitrary<readonly Shape[]>,
  options: TensorDataOptions = {},
): fc.Arbitrary<TensorData[]> {
  const { dtype = "f32", ...ofValues } = options;
  if (dtype !== "f32" && dtype !== "i32") refuse(`tensors: dtype must be "f32" or "i32", got "${String(dtype)}"`);
  checkKeys("tensors", ofValues, VALUE_KEYS);
  const element = dtype === "f32" ? values(ofValues) : wholeNumbers("tensors", ofValues);
  return lists.chain((list) =>
    fc.tuple(
      ...list.map((shape) => {
        const size = shape.reduce((product, n) => product * n, 1);
        return fc
          .array(element, { minLength: size, maxLength: size })
          .map((data): TensorData => ({ shape: [...shape], dtype, data }));
      }),
    ),
  );
}

/** Tensors as data, in arrays and objects. */
export type DataTree = TensorData | readonly DataTree[] | { readonly [key: string]: DataTree };
/** The same structure with tensors. */
export type TensorsOf<D> = D extends TensorData ? Tensor : { readonly [K in keyof D]: TensorsOf<D[K]> };

const isTensorData = (tree: DataTree): tree is TensorData =>
  "dtype" in tree && typeof tree.dtype === "string" && Array.isArray(tree["data"]);

/**
 * Runs `body` with tensors made of `data`, and frees them afterwards, whether it succeeds or throws. The tensors that
 * `body` makes before its first `await` are freed, too; what comes after that belongs in a `scope`.
 *
 * @param on default: the current device
 * @returns what `body` returns: numbers, not tensors, which are gone by then
 *
 * @example
 * fc.asyncProperty(tensors(shapes()), (x) =>
 *   withTensors({ x }, async ({ x }) => expect(await sum(neg(x)).item()).toBe(-(await sum(x).item()))));
 */
export async function withTensors<const D extends DataTree, R>(
  data: D,
  body: (tensors: TensorsOf<D>) => R | Promise<R>,
  on: Device = currentDevice(),
): Promise<R> {
  const make = (tree: DataTree): unknown => {
    if (isTensorData(tree)) {
      const dtype: DType = tree.dtype === "f32" ? on.float : "i32";
      const values = tree.dtype === "f32" ? Float64Array.from(tree.data) : Int32Array.from(tree.data);
      return tensor(values, { shape: tree.shape, dtype, device: on });
    }
    if (Array.isArray(tree)) return tree.map(make);
    return Object.fromEntries(Object.entries(tree).map(([key, child]) => [key, make(child)]));
  };
  // An async function, so that what `body` throws at once is a rejection as well and `made` is known in any case.
  const { result, made } = adopt(async () => body(make(data) as TensorsOf<D>));
  try {
    return await result;
  } finally {
    for (const x of made) if (x instanceof Tensor) x.dispose();
  }
}
