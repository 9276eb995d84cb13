/** Which lines the live page's curves have. */
import { expect, test } from "vitest";
import { sharedTerms } from "../../site/curves.ts";

test("gradient shares have a line for each term that was measured, those of further terms last", () => {
  const line = { step: 1, phase: "rl", reward: 1 } as const;
  const first = { ...line, "grad_share/return_prediction": 0.1, "grad_share/my_term": 0.2, "grad_share/kl": 0.3 };
  expect(sharedTerms([line])).toEqual([]);
  expect(sharedTerms([first, line, { ...line, "grad_share/policy": 0.4 }])).toEqual([
    "policy",
    "kl",
    "my_term",
    "return_prediction",
  ]);
});
