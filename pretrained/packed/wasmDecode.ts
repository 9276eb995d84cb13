/** The words of a packed matrix as f32 in registers. */
import { F32x4, type FunctionBuilder, I32, I32x4, load } from "../../kernels/wasm/assembler.ts";
import type { PackedFormat } from "./format.ts";

/** 0 … n − 1. */
export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/** The number of vectors of four columns in a group of four words. */
export const stepsOf = (format: PackedFormat): number => (format === "q8" ? 4 : 2);

/**
 * The columns 4·step … of a group. `scale` (q8 only) is the block's scale · 2⁻²⁴, as q stays at the upper end of its
 * word after the shift.
 */
export function decode(format: PackedFormat, words: I32x4, step: number, scale: F32x4 | undefined): F32x4 {
  if (format === "bf16") return (step === 0 ? words.shl(16) : words.and(UPPER_HALF)).asF32x4();
  if (format === "f16") {
    // Exponent and fraction move to their places in an f32, whose exponent counts from 127 instead of 15.
    const bits = (step === 0 ? words.shl(16) : words).shrS(3).and(I32x4.of(0x8fffe000 | 0));
    return bits.asF32x4().mul(2 ** 112);
  }
  const shifted = step === 3 ? words : words.shl(24 - 8 * step);
  return (step === 0 ? shifted : shifted.and(UPPER_BYTE)).toF32x4().mul(scale!);
}
const UPPER_HALF = I32x4.of(0xffff0000 | 0);
const UPPER_BYTE = I32x4.of(0xff000000 | 0);

/** The scale at `pointer` as `decode` takes it; undefined where there is none. */
export const scaleAt = (f: FunctionBuilder, format: PackedFormat, pointer: I32): F32x4 | undefined =>
  format === "q8" ? f.let(load.splat(pointer).mul(2 ** -24)) : undefined;
