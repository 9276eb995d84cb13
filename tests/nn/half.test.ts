/** The 16-bit floating-point formats, over all their bit patterns. */
import { describe, expect, test } from "vitest";
import { bfloat16Bits, float16Bits, fromBfloat16Bits, fromFloat16Bits } from "../../nn/half.ts";

describe("16-bit floats", () => {
  const patterns = Uint16Array.from({ length: 65536 }, (_, bits) => bits);
  const formats = [
    { name: "F16", widen: fromFloat16Bits, narrow: float16Bits, exponentBits: 5, fractionBits: 10 },
    { name: "BF16", widen: fromBfloat16Bits, narrow: bfloat16Bits, exponentBits: 8, fractionBits: 7 },
  ];

  describe.each(formats)("$name", ({ widen, narrow, exponentBits, fractionBits }) => {
    const wide = widen(patterns);
    const infinity = ((1 << exponentBits) - 1) << fractionBits;

    test("widening is the value that the format defines, for all patterns", () => {
      const bias = 2 ** (exponentBits - 1) - 1;
      for (const bits of patterns) {
        const fraction = bits & ((1 << fractionBits) - 1);
        const exponent = (bits & 0x7fff) >> fractionBits;
        let value = (1 + fraction * 2 ** -fractionBits) * 2 ** (exponent - bias);
        if (exponent === 0) value = fraction * 2 ** (1 - bias - fractionBits);
        if ((bits & 0x7fff) === infinity) value = Infinity;
        if ((bits & 0x7fff) > infinity) value = NaN;
        const expected = bits >= 0x8000 ? -value : value;
        if (!Object.is(wide[bits], expected)) expect([bits, wide[bits]]).toEqual([bits, expected]);
      }
    });

    test("narrowing what was widened gives the same pattern, for all patterns, NaN payloads too", () => {
      expect(narrow(wide)).toEqual(patterns);
    });

    test("narrowing rounds to nearest, ties to even, around every pattern", () => {
      // Between two neighbours: the midpoint goes to the even pattern, anything off it to the nearer one.
      const lower = patterns.subarray(0, infinity - 1);
      const step = (bits: number): number => (wide[bits + 1]! - wide[bits]!) / 2;
      const cases = [
        { at: (bits: number) => wide[bits]! + step(bits), expected: (bits: number) => bits + (bits & 1) },
        { at: (bits: number) => wide[bits]! + step(bits) * (1 - 2 ** -11), expected: (bits: number) => bits },
        { at: (bits: number) => wide[bits]! + step(bits) * (1 + 2 ** -11), expected: (bits: number) => bits + 1 },
      ];
      for (const { at, expected } of cases) {
        // BF16's smallest subnormals have no room in f32 for the points off the middle; there `at` is not what it says.
        const tested = lower.filter((bits) => Math.fround(at(bits)) === at(bits));
        expect(tested.length).toBeGreaterThan(0.95 * lower.length);
        expect(narrow(Float32Array.from(tested, at))).toEqual(Uint16Array.from(tested, expected));
        const negative = Float32Array.from(tested, (bits) => -at(bits));
        expect(narrow(negative)).toEqual(Uint16Array.from(tested, (bits) => expected(bits) | 0x8000));
      }
    });

    test("overflow gives infinity, tiny gives zero, NaN stays NaN", () => {
      const largest = wide[infinity - 1]!;
      const half = (largest - wide[infinity - 2]!) / 2;
      const below = new Float32Array(
        new Uint32Array(Float32Array.of(largest + half).buffer).map((word) => word - 1).buffer,
      );
      expect(narrow(Float32Array.of(below[0]!, largest + half, Infinity))).toEqual(
        Uint16Array.of(infinity - 1, infinity, infinity),
      );
      const quarter = Math.fround(wide[1]! / 4);
      expect(narrow(Float32Array.of(quarter, -quarter, -0, 2 ** -149))).toEqual(Uint16Array.of(0, 0x8000, 0x8000, 0));
      // A payload in the bits that are cut off only.
      const nan = new Float32Array(Uint32Array.of(0x7f800001, 0xff800001).buffer);
      expect([...widen(narrow(nan))]).toEqual([NaN, NaN]);
    });
  });
});
