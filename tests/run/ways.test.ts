/** Probabilities as the pages tell them beside answers. */
import { expect, test } from "vitest";
import { chanceIn } from "../../run/compare/ways.ts";

test.each([
  [0, "100 %"], // was certain
  [0.1, "90.5 %"],
  [Math.LN2, "one chance in 2"],
  [Math.log(220), "one chance in 220"],
  [Math.log(12_345), "one chance in 12,345"],
  [14, "less than one chance in a million"],
  [1e4, "less than one chance in a million"], // whose probability no float64 holds
  [Infinity, "less than one chance in a million"],
])("%d nats: %s", (nats, said) => expect(chanceIn(nats)).toBe(said));
