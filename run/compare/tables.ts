/** The end of a comparison: a table of the agents, and one sentence about what the figures do and do not show. */
import {
  askedOf,
  formatRate,
  formatReward,
  isGraded,
  missingNote,
  successChange,
  type Table,
  type TableCell,
} from "../display/table.ts";
import { formatNumber, formatPercent, formatSigned } from "../figures/format.ts";
import { rateDifference } from "../figures/statistics.ts";
import type { Outcome } from "./outcome.ts";

const EXCESS =
  "; excess: the same minus the entropy of the answers themselves, which is 0 for an agent that knows this world";

/** A table by agent, and one by family of tasks. */
export function outcomeTables(outcome: Outcome): Table[] {
  const { warm, arms } = outcome;
  const [first] = arms;
  const worldLoss = (value: number | undefined): string => (value === undefined ? "–" : formatNumber(value));
  // If no environment knows the entropy of its answers, this column is left out.
  const hasExcess = [warm, ...arms.map(({ after }) => after)].some((of) => of.worldLossExcess !== undefined);
  const hasReward = [warm, ...arms.map(({ after }) => after)].some(isGraded);
  const reward = (of: typeof warm): string[] => (hasReward ? [formatReward(of)] : []);
  const losses = (of: typeof warm): string[] =>
    [of.worldLoss, of.worldLossOnPolicy, ...(hasExcess ? [of.worldLossExcess] : [])].map(worldLoss);
  const against = (label: string, after: (typeof arms)[number]["after"]): TableCell =>
    label === first!.label ? { text: "" } : successChange(first!.after, after);
  const main: Table = {
    title: `Held-out tasks, ${askedOf(warm)} of them, none of which training ever asked`,
    head: [
      "",
      "success [95 %]",
      `against ${first!.label}`,
      ...(hasReward ? ["reward ± 95 %"] : []),
      "training",
      "wm loss",
      "its own",
      ...(hasExcess ? ["excess"] : []),
    ],
    rows: [
      ["warm start", formatRate(warm) + missingNote(warm), against("", warm), ...reward(warm), "", ...losses(warm)],
      ...arms.map(({ label, after, trainingSuccess }) => [
        label,
        formatRate(after) + missingNote(after),
        against(label, after),
        ...reward(after),
        trainingSuccess === null ? "–" : formatPercent(trainingSuccess),
        ...losses(after),
      ]),
    ],
    note:
      "Success has Wilson's interval. Differences are in points, with Newcombe's interval, and coloured if it " +
      "excludes 0. training: success in the last tenth of the training episodes. wm loss: nats per token of what " +
      "the world answers, in fixed episodes of the expert and of random play; its own: in the agent's own " +
      `episodes${hasExcess ? EXCESS : ""}; –: there is none.`,
  };
  const families = Object.keys(warm.families ?? {});
  if (families.length < 2) return [main];
  const score = (of: (typeof arms)[number]["after"], family: string): string =>
    formatRate(
      Object.entries(of.families ?? {}).find(([name]) => name === family)?.[1] ?? { successes: 0, episodes: 0 },
    );
  return [
    main,
    {
      title: "By family of tasks",
      head: ["", ...families],
      rows: [
        ["warm start", ...families.map((family) => score(warm, family))],
        ...arms.map(({ label, after }) => [label, ...families.map((family) => score(after, family))]),
      ],
    },
  ];
}

/** The sentence about the first two agents. */
export function verdictOf({ arms, warm, episodesPerStep }: Outcome): string {
  const [a, b] = arms as [Outcome["arms"][number], Outcome["arms"][number]];
  const rate = ({ after }: typeof a): { successes: number; trials: number } => {
    return { successes: after.successes, trials: after.episodes };
  };
  const { value, low, high } = rateDifference(rate(a), rate(b));
  const percent = (of: typeof a): string => formatPercent(of.after.successes / of.after.episodes);
  const points = (x: number): string => formatSigned(Math.round(100 * x), (v) => v.toFixed(0).replace("-", "−"));
  const what =
    low > 0
      ? `${b.label} is ahead, and by more than the chance of ${b.after.episodes} tasks explains`
      : high < 0
        ? `${a.label} is ahead, and by more than the chance of ${b.after.episodes} tasks explains`
        : `that is within the chance of ${b.after.episodes} tasks, so this run shows no difference`;
  const played = [...new Set([a.steps, b.steps])].map((steps) => (steps * episodesPerStep).toLocaleString("en"));
  const start = formatPercent(warm.successes / warm.episodes);
  return (
    `From ${start}, ${played.join(" and ")} episodes took ${a.label} to ${percent(a)} ` +
    `and ${b.label} to ${percent(b)}: ${points(value)} points [${points(low)}, ${points(high)}]; ${what}. This is ` +
    "one seed; npm run ablate repeats the comparison over seeds, with any controls."
  );
}
