/**
 * Mutants that no test can kill because they compute the same numbers. Each says why. `npm run mutate` tries them all
 * the same and fails if a test does kill one; tests/scripts/mutate.test.ts fails if one of them is no longer in the
 * sources.
 */
import { ADVANTAGES, LOSSES } from "./equivalentMethods.ts";
import { PASSES, PLANS, REWARDS } from "./equivalentSteps.ts";
import type { Mutant } from "./mutants.ts";

export interface Equivalent {
  readonly file: string;
  /**
   * A part of the line in which it begins and the line after; « stands before it where the line alone does not tell.
   */
  readonly context: string;
  /** `before → after`, as the table prints it. */
  readonly edits: readonly string[];
  readonly why: string;
}

export const EQUIVALENT: readonly Equivalent[] = [LOSSES, ADVANTAGES, PLANS, PASSES, REWARDS].flatMap((listed) =>
  Object.entries(listed).flatMap(([file, entries]) =>
    entries.map(([context, edits, why]): Equivalent => ({ file, context, edits, why })),
  ),
);

export const editOf = ({ from, to }: Pick<Mutant, "from" | "to">): string => `${from} → ${to}`;

const isHere = ({ context }: Mutant, part: string): boolean =>
  part.includes("«") ? context.includes(part) : context.replace("«", "").includes(part);

/** The entry that this mutant is one of. */
export const equivalentOf = (mutant: Mutant): Equivalent | undefined =>
  EQUIVALENT.find(
    ({ file, context, edits }) => file === mutant.file && isHere(mutant, context) && edits.includes(editOf(mutant)),
  );
