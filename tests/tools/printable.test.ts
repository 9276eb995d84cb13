/** Text of a model in a terminal: no control character gets through. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { printable } from "../../tools/display/printable.ts";

test("escape sequences and marks of direction are shown, line ends and tabs stay", () => {
  expect(printable("a\u001b[31mb\r\n\tc\u007f\u009b2J\u202ed")).toBe("a␛[31mb␍\n\tc␡<U+009B>2J<U+202E>d");
});

test("no control character is left; other text is as it was", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      expect(printable(text).replace(/[\n\t]/g, "")).not.toMatch(/\p{Cc}/u);
      const plain = text.replace(/[\p{Cc}\p{Cf}]/gu, "");
      expect(printable(plain)).toBe(plain);
    }),
  );
});
