/**
 * Loads and stores of the last one to three elements of a row as a vector. So edges run the same vector code as
 * everything else, an element's bits do not depend on its place, and no memory outside the row is touched.
 */
import { load, type AnyVector, type F32x4, type FunctionBuilder, type I32, type Var } from "./assembler.ts";

/** `count` ∈ {1, 2, 3} words from `address`; the other lanes are 0. */
export function loadPart(f: FunctionBuilder, address: I32, count: I32): Var<F32x4> {
  const x = f.let(load.lane0(address));
  f.if(count.gt(1), () => f.set(x, x.withLane(1, load.f32(address, 4))));
  f.if(count.gt(2), () => f.set(x, x.withLane(2, load.f32(address, 8))));
  return x;
}

/** Stores the first `count` ∈ {1, 2, 3} lanes. */
export function storePart(f: FunctionBuilder, address: I32, x: AnyVector, count: I32): void {
  f.storeLane(address, x, 0);
  f.if(count.gt(1), () => f.storeLane(address, x, 1, 4));
  f.if(count.gt(2), () => f.storeLane(address, x, 2, 8));
}
