/**
 * What happens in a run, in sentences: when an agent knows its first fact, when it knows many, and when one is clearly
 * ahead on tasks that nobody trained on. Each is said once, when it happens.
 */
import { formatAs } from "../run/figures/format.ts";
import { isKnown } from "../run/knownFacts.ts";
import { rateDifference } from "../run/figures/statistics.ts";
import type { MetricsRecord } from "../run/records.ts";
import type { KnownAfter } from "./agentProxy.ts";

/** What is read of an agent. */
export interface Followed {
  readonly label: string;
  readonly knowledge: readonly KnownAfter[];
  readonly metrics: readonly MetricsRecord[];
  /** Steps before RL, which are not counted. */
  readonly warmSteps: number;
}

export interface Milestone {
  /** RL steps. */
  readonly step: number;
  readonly text: string;
}

/** The shares of all facts that are worth a sentence. */
const SHARES = [0.1, 0.25, 0.5, 0.75] as const;
/** The difference in held-out success that is worth a sentence, and the success. */
const AHEAD = 0.1;

/** The milestones of a run until now, in the order of their steps; what happened at one step is one of them. */
export function milestones(agents: readonly Followed[]): readonly Milestone[] {
  const found = [...agents.flatMap((agent) => learnt(agent, agents)), ...ahead(agents)];
  const steps = [...new Set(found.map(({ step }) => step))].toSorted((a, b) => a - b);
  const textAt = (at: number): string => found.flatMap(({ step, text }) => (step === at ? [text] : [])).join("; ");
  return steps.map((step) => ({ step, text: textAt(step) }));
}

function learnt({ label, knowledge }: Followed, agents: readonly Followed[]): readonly Milestone[] {
  const counts = knowledge.map(({ step, facts }) => ({ step, facts, count: facts.filter(isKnown).length }));
  const first = counts.find(({ count }) => count > 0);
  const fact = first?.facts.filter(isKnown).toSorted((a, b) => b.p - a.p)[0];
  const others = (step: number): string =>
    agents
      .filter((other) => other.label !== label)
      .map((other) => `, ${other.label} ${countAt(other, step)}`)
      .join("");
  const shares = SHARES.flatMap((share) => {
    const reached = counts.find(({ count, facts }) => count >= share * facts.length);
    if (reached === undefined || reached.step === 0) return [];
    const { step, count, facts } = reached;
    return [{ step, text: `${label} knows ${count} of ${facts.length} facts${others(step)}` }];
  });
  // Several shares may be reached at once.
  const once = shares.filter(({ step }, i) => shares[i + 1]?.step !== step);
  if (first === undefined || fact === undefined || first.step === 0 || once[0]?.step === first.step) return once;
  return [{ step: first.step, text: `${label} knows its first fact: ${fact.says}` }, ...once];
}

/** What an agent knew when it was last asked. */
function countAt({ knowledge }: Followed, step: number): number {
  const last = knowledge.findLast((own) => own.step <= step);
  return last === undefined ? 0 : last.facts.filter(isKnown).length;
}

/** Held-out success of each agent by RL step. */
const curvesOf = (agents: readonly Followed[]): readonly ReadonlyMap<number, number>[] =>
  agents.map(({ metrics, warmSteps }) => {
    const lines = metrics.filter(({ phase, success }) => phase === "eval" && typeof success === "number");
    return new Map(lines.map((line) => [line.step - warmSteps, Number(line["success"])]));
  });

/** The steps at which all were tried, in order. */
const sharedSteps = (curves: readonly ReadonlyMap<number, number>[]): number[] =>
  [...(curves[0]?.keys() ?? [])].filter((step) => curves.every((curve) => curve.has(step))).toSorted((a, b) => a - b);

/** The last step after which all agents have been tested; undefined: none. */
export const lastTest = (agents: readonly Followed[]): number | undefined => sharedSteps(curvesOf(agents)).at(-1);

const percent = (x: number): string => formatAs("percent", x);

/** How it stands, by the last test that all have taken. @param every RL steps between two tests @param steps in all */
export function standing(agents: readonly Followed[], every: number, steps: number): string {
  const curves = curvesOf(agents);
  const step = lastTest(agents);
  if (step === undefined) return "";
  const order = agents.map((agent, i) => ({ agent, label: agent.label, success: curves[i]!.get(step)! }));
  const [best, ...rest] = order.toSorted((a, b) => b.success - a.success);
  const countOf = ({ success, agent }: (typeof order)[number]): { successes: number; trials: number } => {
    const line = agent.metrics.find((own) => own.phase === "eval" && own.step === agent.warmSteps + step);
    const trials = Number(line?.["episodes"]);
    return { successes: Math.round(success * trials), trials };
  };
  // Ahead is who is so by more than the chance of the tasks explains.
  const isAhead = rest.every((other) => rateDifference(countOf(other), countOf(best!)).low > 0);
  const shares = (all: typeof order): string =>
    all.map(({ label, success }) => `${label} ${percent(success)}`).join(", ");
  const said = isAhead
    ? `${best!.label} is ahead: it solves ${percent(best!.success)} of new tasks, ${shares(rest)}`
    : `No clear lead${step >= steps ? "" : " yet"}: on new tasks ${shares(order)}`;
  const next = step >= steps ? "" : `; next after ${Math.min(steps, step + every)}`;
  return `${said} (tested after ${step} of ${steps} steps${next})`;
}

/** The first time that one agent solves clearly more than each other. */
function ahead(agents: readonly Followed[]): readonly Milestone[] {
  const curves = curvesOf(agents);
  for (const step of sharedSteps(curves)) {
    const order = agents.map(({ label }, i) => ({ label, success: curves[i]!.get(step)! }));
    const [best, ...rest] = order.toSorted((a, b) => b.success - a.success);
    if (rest.length === 0 || best!.success - rest[0]!.success < AHEAD) continue;
    const others = rest.map(({ label, success }) => `${label} ${percent(success)}`).join(", ");
    return [{ step, text: `${best!.label} solves ${percent(best!.success)} of new tasks, ${others}` }];
  }
  return [];
}
