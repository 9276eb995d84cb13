/** Text of a model in a terminal: no control character gets through. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { visible } from "../../run/visible.ts";

test("no control character of a model's text is left, however it was drawn; other text is as it was", () => {
  expect(visible("a\u001b[31mb\u007f\u009b2J\u202ed")).toBe("a␛[31mb␡�2J�d");
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      expect(visible(text).replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
      const plain = text.replace(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029\u2065]/gu, "");
      expect(visible(plain)).toBe(plain);
    }),
  );
});
