/** The end of a comparison: a table of the agents, and one sentence about what the figures do and do not show. */
import {
  askedOf,
  type Column,
  formatFacts,
  formatRate,
  formatReward,
  isGraded,
  missingNote,
  successChange,
  type Table,
  tableOf,
} from "../display/table.ts";
import { formatNumber, formatPercent, formatSigned } from "../figures/format.ts";
import { rateDifference } from "../figures/statistics.ts";
import type { Evaluation } from "../records.ts";
import type { ArmOutcome, Outcome } from "./outcome.ts";

const EXCESS =
  "; excess: the same minus the entropy of the answers themselves, which is 0 for an agent that knows this world";

const FACTS = "facts known: those whose name gets more than half of the probability where a command needs it. ";

/** A table by agent, and one by family of tasks. */
export function outcomeTables({ warm, arms }: Outcome): Table[] {
  type Row = Pick<ArmOutcome, "label" | "after"> & Partial<ArmOutcome>;
  const rows: readonly Row[] = [{ label: "warm start", after: warm }, ...arms];
  const [first] = arms as [ArmOutcome];
  const loss = (name: "worldLoss" | "worldLossOnPolicy" | "worldLossExcess"): Column<Row>[1] => {
    return ({ after }) => (after[name] === undefined ? "–" : formatNumber(after[name]));
  };
  // If no environment knows the entropy of its answers, this column is left out.
  const hasExcess = rows.some(({ after }) => after.worldLossExcess !== undefined);
  const hasFacts = rows.some(({ after }) => after.facts !== undefined);
  const hasReward = rows.some(({ after }) => isGraded(after));
  const training = ({ trainingSuccess: of }: Row): string =>
    of === undefined ? "" : of === null ? "–" : formatPercent(of);
  const columns: readonly Column<Row>[] = [
    ["", ({ label }) => label],
    ["success [95 %]", ({ after }) => formatRate(after) + missingNote(after)],
    [`against ${first.label}`, (row) => (row === first ? "" : successChange(first.after, row.after))],
    ...(hasReward ? [["reward ± 95 %", ({ after }) => formatReward(after)] satisfies Column<Row>] : []),
    ...(hasFacts ? [["facts known", ({ after }) => formatFacts(after)] satisfies Column<Row>] : []),
    ["training", training],
    ["surprise", loss("worldLoss")],
    ["in its own", loss("worldLossOnPolicy")],
    ...(hasExcess ? [["excess", loss("worldLossExcess")] satisfies Column<Row>] : []),
  ];
  const main = tableOf(
    `Held-out tasks, ${askedOf(warm)} of them`,
    rows,
    columns,
    "Success has Wilson's interval. Differences are in points, with Newcombe's interval, and coloured if it " +
      `excludes 0. ${hasFacts ? FACTS : ""}training: success in the last tenth of the training episodes. ` +
      "surprise: the world-model loss, nats per token of what the world answers, in fixed episodes of the expert and " +
      "of random play; " +
      `in its own: in the agent's own episodes${hasExcess ? EXCESS : ""}; –: there is none.`,
  );
  const families = Object.keys(warm.families ?? {});
  if (families.length < 2) return [main];
  const ofFamily = (name: string): Column<Row> => [
    name,
    ({ after: { families = {} } }) => formatRate(new Map(Object.entries(families)).get(name) ?? NONE),
  ];
  return [main, tableOf("By family of tasks", rows, [["", ({ label }) => label], ...families.map(ofFamily)])];
}

const NONE = { successes: 0, episodes: 0 };

/** The sentence about the first two agents. */
export function verdictOf({ arms, warm, warmSampling, episodesPerStep }: Outcome): string {
  const [a, b] = arms as [ArmOutcome, ArmOutcome];
  const rate = ({ successes, episodes }: Evaluation): { successes: number; trials: number } => {
    return { successes, trials: episodes };
  };
  const { value, low, high } = rateDifference(rate(a.after), rate(b.after));
  const percent = ({ successes, episodes }: Evaluation): string => formatPercent(successes / episodes);
  const points = (x: number): string => formatSigned(Math.round(100 * x), (v) => v.toFixed(0).replace("-", "−"));
  const chance = `the chance of ${b.after.episodes} tasks`;
  const what =
    low > 0 || high < 0
      ? `${(low > 0 ? b : a).label} is ahead, and by more than ${chance} explains`
      : `that is within ${chance}, so this run shows no difference`;
  const isAlike = [a, b].every(({ sampling }) => sampling === warmSampling);
  const drawn = isAlike
    ? ""
    : `Part of it may be how they draw: ${a.label} plays at ${a.sampling}, ${b.label} at ${b.sampling}, and the warm ` +
      `start played at ${warmSampling}. `;
  const played = [...new Set([a.steps, b.steps])].map((steps) => (steps * episodesPerStep).toLocaleString("en"));
  return (
    `From ${percent(warm)}, ${played.join(" and ")} episodes took ${a.label} to ${percent(a.after)} ` +
    `and ${b.label} to ${percent(b.after)}: ${points(value)} points [${points(low)}, ${points(high)}]; ${what}. ` +
    drawn +
    "This is one seed; npm run ablate repeats the comparison over seeds, with any controls."
  );
}
