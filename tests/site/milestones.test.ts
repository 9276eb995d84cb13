/** Sentences about what happened in a run: once each, when it happened, and none for what the warm start knew. */
import { expect, it } from "vitest";
import type { KnownFact, MetricsRecord } from "../../run/records.ts";
import { type Followed, milestones, standing } from "../../site/milestones.ts";

const facts = (known: number, of = 20): KnownFact[] =>
  Array.from({ length: of }, (_, i) => {
    return { kind: "k", known: `f${i}`, right: "r", says: `f${i} is in r`, p: i < known ? 0.9 - i / 100 : 0.1 };
  });
const success = (steps: Readonly<Record<number, number | null>>): MetricsRecord[] =>
  Object.entries(steps).map(([step, value]) => {
    return { step: 100 + Number(step), phase: "eval", success: value, episodes: 100 };
  });
const agent = (label: string, counts: Readonly<Record<number, number>>, metrics: MetricsRecord[] = []): Followed => ({
  label,
  metrics,
  warmSteps: 100,
  knowledge: Object.entries(counts).map(([step, count]) => ({ step: Number(step), facts: facts(count) })),
});

it("the first fact, then shares of all facts, each with what the other knew then", () => {
  const a = agent("a", { 0: 0, 4: 0, 8: 1, 12: 1 });
  const b = agent("b", { 0: 0, 4: 1, 8: 2, 12: 16 });
  expect(milestones([a, b])).toEqual([
    { step: 4, text: "b knows its first fact: f0 is in r" },
    { step: 8, text: "a knows its first fact: f0 is in r; b knows 2 of 20 facts, a 1" },
    { step: 12, text: "b knows 16 of 20 facts, a 1" },
  ]);
});

it("nothing of agents that know nothing, that were not asked, or that knew all before the first step", () => {
  expect(milestones([])).toEqual([]);
  expect(milestones([agent("a", {}), agent("b", { 0: 0, 4: 0 })])).toEqual([]);
  expect(milestones([agent("a", { 0: 20, 4: 20 })])).toEqual([]);
});

it("who is ahead by ten points, at the first step at which both were tried; a try without a score is none", () => {
  const a = agent("a", {}, success({ 0: 0.01, 20: 0.02, 40: 0.2, 60: 0.3 }));
  const b = agent("b", {}, success({ 0: 0.01, 20: null, 40: 0.31 }));
  expect(milestones([a, b])).toEqual([{ step: 40, text: "b solves 31.0 % of new tasks, a 20.0 %" }]);
  expect(milestones([a, agent("c", {}, success({ 40: 0.21 }))])).toEqual([]);
});

it("how it stands is what the last test that all have taken says, and when the next one is", () => {
  const a = agent("a", {}, success({ 0: 0.01, 20: 0.02, 40: 0.2 }));
  const b = agent("b", {}, success({ 0: 0.01, 20: 0.31 }));
  expect(standing([a, b], 20, 50)).toBe(
    "b is ahead: it solves 31.0 % of new tasks, a 2.0 % (tested after 20 of 50 steps; next after 40)",
  );
  const c = agent("c", {}, success({ 0: 0.01, 20: 0.04, 40: 0.2 }));
  expect(standing([a, c], 20, 50)).toBe(
    "No clear lead yet: on new tasks a 20.0 %, c 20.0 % (tested after 40 of 50 steps; next after 50)",
  );
  expect(standing([a, c], 20, 40)).toBe("No clear lead: on new tasks a 20.0 %, c 20.0 % (tested after 40 of 40 steps)");
  // Eight points of a hundred tasks may be chance.
  const e = agent("e", {}, success({ 40: 0.28 }));
  expect(standing([a, e], 20, 40)).toBe("No clear lead: on new tasks a 20.0 %, e 28.0 % (tested after 40 of 40 steps)");
  expect(standing([agent("d", {}), a], 20, 40)).toBe("");
  expect(standing([], 20, 40)).toBe("");
});

it("a fact of exactly one half is not known", () => {
  const half = facts(0).map((fact) => ({ ...fact, p: 0.5 }));
  const undecided: Followed = { ...agent("a", {}), knowledge: [{ step: 4, facts: half }] };
  expect(milestones([undecided])).toEqual([]);
});
