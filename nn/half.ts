/**
 * The 16-bit floating-point formats of checkpoints: IEEE 754 binary16 (F16: 1 sign, 5 exponent, 10 fraction bits) and
 * bfloat16 (BF16: the upper half of a binary32). Widening is exact, narrowing rounds to nearest, ties to even (IEEE 754
 * §4.3.1). All functions work on bit patterns, so that NaN payloads survive: widening and narrowing again is the
 * identity on all 65,536 patterns. These are storage formats only: nothing computes in 16 bits.
 */

/** Binary16 patterns → f32, exactly (subnormals, infinities and NaNs included). */
export function fromFloat16Bits(bits: Uint16Array): Float32Array {
  const result = new Float32Array(bits.length);
  const words = new Uint32Array(result.buffer);
  for (let i = 0; i < bits.length; i++) {
    const sign = (bits[i]! & 0x8000) << 16;
    const exponent = (bits[i]! >>> 10) & 0x1f;
    let fraction = bits[i]! & 0x3ff;
    if (exponent === 0x1f) words[i] = sign | 0x7f800000 | (fraction << 13);
    else if (exponent !== 0) words[i] = sign | ((exponent + 112) << 23) | (fraction << 13);
    else if (fraction === 0) words[i] = sign;
    else {
      // Subnormal: fraction · 2⁻²⁴. Shift until the leading one stands where f32 has its hidden bit.
      const shift = Math.clz32(fraction) - 21;
      fraction = (fraction << shift) & 0x3ff;
      words[i] = sign | ((113 - shift) << 23) | (fraction << 13);
    }
  }
  return result;
}

/** f32 → binary16 patterns, to nearest, ties to even; beyond ±65520 an infinity. */
export function float16Bits(values: Float32Array): Uint16Array<ArrayBuffer> {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const result = new Uint16Array(values.length);
  for (let i = 0; i < words.length; i++) {
    const sign = (words[i]! >>> 16) & 0x8000;
    const magnitude = words[i]! & 0x7fffffff;
    if (magnitude > 0x7f800000) result[i] = sign | nanBits(0x7c00, (magnitude >>> 13) & 0x3ff, 0x200);
    else if (magnitude >= 0x477ff000)
      result[i] = sign | 0x7c00; // ≥ 65520: half-way to 65536 and beyond
    else if (magnitude >= 0x38800000)
      result[i] = sign | roundShift(magnitude - 0x38000000, 13); // normal; a carry rightly enters the exponent
    else {
      // Below 2⁻¹⁴: the result counts units of 2⁻²⁴. Shifts beyond 24 leave less than half a unit: zero.
      const shift = 126 - (magnitude >>> 23);
      result[i] = sign | (shift > 24 ? 0 : roundShift((magnitude & 0x7fffff) | 0x800000, shift));
    }
  }
  return result;
}

/** bfloat16 patterns → f32, exactly. */
export function fromBfloat16Bits(bits: Uint16Array): Float32Array {
  const result = new Float32Array(bits.length);
  const words = new Uint32Array(result.buffer);
  for (let i = 0; i < bits.length; i++) words[i] = bits[i]! << 16;
  return result;
}

/** f32 → bfloat16 patterns, to nearest, ties to even. */
export function bfloat16Bits(values: Float32Array): Uint16Array<ArrayBuffer> {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const result = new Uint16Array(values.length);
  for (let i = 0; i < words.length; i++) {
    const sign = (words[i]! >>> 16) & 0x8000;
    const magnitude = words[i]! & 0x7fffffff;
    if (magnitude > 0x7f800000) result[i] = sign | nanBits(0x7f80, (magnitude >>> 16) & 0x7f, 0x40);
    else result[i] = sign | roundShift(magnitude, 16);
  }
  return result;
}

/** `value · 2^−shift`, to nearest, ties to even; value < 2^31, 1 ≤ shift ≤ 24. */
function roundShift(value: number, shift: number): number {
  const odd = (value >>> shift) & 1;
  return (value + (1 << (shift - 1)) - 1 + odd) >>> shift;
}

/** The pattern of a NaN; if its payload was cut off, which would make it an infinity, the quiet bit is set. */
function nanBits(infinity: number, payload: number, quiet: number): number {
  return infinity | (payload === 0 ? quiet : payload);
}
