/**
 * What tests of single ops share: f64 tensors on a fresh reference device for every test, and comparison element by
 * element.
 */
import { beforeEach, expect } from "vitest";
import { createReferenceBackend } from "../../engine/backends/reference.ts";
import { Device, setDevice } from "../../engine/device.ts";
import { randomNormal, tensor } from "../../engine/ops/create.ts";
import { Rng } from "../../engine/random.ts";
import type { Tensor } from "../../engine/tensor.ts";

export interface Draws {
  /** Standard normal numbers, others at every call, the same in every run. */
  readonly normal: (...shape: number[]) => Tensor;
  readonly rng: () => Rng;
}

/** Before each test of the file: the default device is a new reference in f64, and the draws begin anew. */
export function onReference(): Draws {
  let rng = new Rng(11);
  let drawn = 0;
  beforeEach(() => {
    setDevice(new Device(createReferenceBackend("f64"), "f64"));
    rng = new Rng(11);
    drawn = 0;
  });
  return { normal: (...shape) => randomNormal(rng.split(drawn++), shape), rng: () => rng };
}

export const ints = (...values: number[]): Tensor => tensor(Int32Array.from(values));

/** The elements; −0 counts as 0. */
export const values = (x: Tensor): number[] => [...x.readSync()].map((v) => v + 0);

export function expectClose(x: Tensor, expected: readonly number[] | Tensor, tolerance = 1e-12): void {
  const [a, b] = [values(x), Array.isArray(expected) ? (expected as number[]) : values(expected as Tensor)];
  expect(a.length).toBe(b.length);
  a.forEach((v, i) => expect(Math.abs(v - b[i]!), `element ${i}: ${v} and ${b[i]}`).toBeLessThanOrEqual(tolerance));
}
