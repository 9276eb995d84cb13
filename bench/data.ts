/**
 * Inputs of all contenders: a function of seed and position, so that TypeScript and Python make equal numbers without
 * files. The mixing is the finaliser of MurmurHash3 (Appleby 2011), random enough for a benchmark.
 */

/** `count` floats in [−scale, scale), multiples of scale · 2⁻²³. */
export function noise(seed: number, count: number, scale = 1): Float32Array {
  const values = new Float32Array(count); // filled by a loop: `from` takes seconds for the largest matrices
  for (let i = 0; i < count; i++) values[i] = ((hash(seed, i) >>> 8) * 2 ** -23 - 1) * scale;
  return values;
}

/** `noise` for a tensor of this shape. */
export function noiseOf(seed: number, shape: readonly number[], scale = 1): Float32Array {
  const count = shape.reduce((a, b) => a * b, 1);
  return noise(seed, count, scale);
}

/** `count` integers in [0, below). */
export function noiseIds(seed: number, count: number, below: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => hash(seed, i) % below);
}

function hash(seed: number, i: number): number {
  let x = (Math.imul(seed, 0x9e3779b9) + i) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/** Up to 64 places, spread over a result of `size` elements from the first to the last, at which it is compared. */
export function samplePlaces(size: number): number[] {
  const count = Math.min(size, 64);
  return Array.from({ length: count }, (_, i) => (count === 1 ? 0 : Math.floor((i * (size - 1)) / (count - 1))));
}

/** Values at `samplePlaces`. */
export function sample(values: ArrayLike<number>): number[] {
  return samplePlaces(values.length).map((i) => values[i]!);
}

/**
 * Positions t at which the last head of the last row of q, k, v [B, T, H, D] is compared, and the places of their
 * elements.
 */
export function headPlaces({ B, T, H, D }: Record<"B" | "T" | "H" | "D", number>): {
  readonly positions: readonly number[];
  readonly places: readonly number[];
} {
  const positions = Array.from({ length: 9 }, (_, i) => Math.floor((i * (T - 1)) / 8));
  const firsts = positions.map((t) => (((B - 1) * T + t) * H + H - 1) * D);
  return { positions, places: firsts.flatMap((first) => Array.from({ length: D }, (_, d) => first + d)) };
}

/** Initial values of parameter number `place` of the model of `cases/task.ts`. */
export function parameterValues(
  place: number,
  shape: readonly number[],
  kind: "weight" | "one" | "zero",
): Float32Array {
  const count = shape.reduce((a, b) => a * b, 1);
  if (kind === "weight") return noise(100 + place, count, Math.sqrt(3) * 0.02);
  return new Float32Array(count).fill(kind === "one" ? 1 : 0);
}

/** Inputs and targets, [B, T] each, of training step `step`. */
export function trainingBatch(step: number, B: number, T: number, V: number): { ids: Int32Array; targets: Int32Array } {
  const text = noiseIds(10 + (step % 4), B * (T + 1), V);
  const shifted = (shift: number): Int32Array =>
    Int32Array.from({ length: B * T }, (_, i) => text[Math.floor(i / T) * (T + 1) + (i % T) + shift]!);
  return { ids: shifted(0), targets: shifted(1) };
}
