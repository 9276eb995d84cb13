/** What a test has tried, for the table of attacks in docs/testing.md, which `npm run attacks` makes of it. */
import type { TestContext } from "vitest";

declare module "vitest" {
  interface TaskMeta {
    /** How many of what: `{ calls: 764, runs: 1795 }`. */
    tried?: Readonly<Record<string, number>>;
  }
}

/** @param counts are added to what the test said before */
export function tried({ task }: TestContext, counts: Readonly<Record<string, number>>): void {
  const before = task.meta.tried ?? {};
  const sums = Object.entries(counts).map(([what, n]) => [what, (before[what] ?? 0) + n]);
  task.meta.tried = { ...before, ...Object.fromEntries(sums) };
}
