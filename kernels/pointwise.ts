/**
 * Broadcasting: turns a list of shapes into the index space that pointwise kernels walk. Neighbouring axes that every
 * input walks in the same way are merged, so equal shapes become one flat axis, and `[B, T, C] + [C]` becomes two axes.
 */

/** Row-major strides of `shape`, aligned to the right end of `out`; 0 where the input is broadcast. */
export function broadcastStrides(shape: readonly number[], out: readonly number[]): number[] {
  const strides = new Array<number>(out.length).fill(0);
  let stride = 1;
  for (let d = shape.length - 1; d >= 0; d--) {
    const axis = out.length - shape.length + d;
    if (shape[d] !== 1) strides[axis] = stride;
    stride *= shape[d]!;
  }
  return strides;
}

/** Merges axes; at least one remains. `strides[k]` belongs to input k. */
export function collapse(
  dims: readonly number[],
  strides: readonly (readonly number[])[],
): { dims: number[]; strides: number[][] } {
  const outDims: number[] = [];
  const outStrides: number[][] = strides.map(() => []);
  for (let d = 0; d < dims.length; d++) {
    if (dims[d] === 1) continue;
    const last = outDims.length - 1;
    const mergeable = last >= 0 && strides.every((s, k) => outStrides[k]![last] === s[d]! * dims[d]!);
    if (mergeable) {
      outDims[last]! *= dims[d]!;
      strides.forEach((s, k) => (outStrides[k]![last] = s[d]!));
    } else {
      outDims.push(dims[d]!);
      strides.forEach((s, k) => outStrides[k]!.push(s[d]!));
    }
  }
  if (outDims.length === 0) {
    outDims.push(1);
    outStrides.forEach((s) => s.push(0));
  }
  return { dims: outDims, strides: outStrides };
}
