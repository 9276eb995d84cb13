/** Draws inputs of programs, and makes tests from them. */
import type { Rng } from "../../engine/index.ts";
import { between } from "./draw.ts";
import { type Code, run, sameValue, type Value } from "./machine.ts";

/** An input, and the program's output for it. */
export interface ProgramTest {
  readonly input: Value;
  readonly output: Value;
}

export const drawNumber = (rng: Rng): number => between(rng, 2, 20);

/** A list of `length` different numbers below 10. */
export const drawList = (rng: Rng, length: number): readonly number[] =>
  rng.shuffle(Array.from({ length: 9 }, (_, i) => i + 1)).slice(0, length);

/**
 * Tests of a program, whose inputs `draw` makes; undefined if the program fails on one, or if all outputs are equal (so
 * that a constant would pass).
 */
export function testsOf(
  code: Code,
  count: number,
  draw: (i: number) => Value,
  functions?: ReadonlyMap<string, Code>,
): readonly ProgramTest[] | undefined {
  const tests: ProgramTest[] = [];
  for (let i = 0; i < count; i++) {
    const input = draw(i);
    const outcome = run(code, input, functions);
    if ("error" in outcome) return undefined;
    tests.push({ input, output: outcome.value });
  }
  return tests.every(({ output }) => sameValue(output, tests[0]!.output)) ? undefined : tests;
}
