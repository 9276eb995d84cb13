/** Given actions that go to a worker elsewhere: the kinds of the plug-ins here, and no others. */
import { expect, test } from "vitest";
import { knownActions } from "../../data/given.ts";

test("actions of a plug-in's own kind are refused by name; those of the library, and none, go", () => {
  const known = [
    { kind: "explore", epsilon: 0 },
    { kind: "expertPrefix", length: 0 },
  ] as const;
  expect(knownActions(known)).toEqual(known);
  expect(knownActions([])).toEqual([]);
  expect(() => knownActions([...known, { kind: "mine", length: 1 }])).toThrow(
    'given actions of the kind "mine": a worker elsewhere knows explore and expertPrefix',
  );
});
