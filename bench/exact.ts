/**
 * Figures of site/exact.html as tables, for docs/log.md: for each state of the policy and each method the angle between
 * its mean step and the true gradient, and its signal / noise, also with an older policy; the gradient of the world
 * model; and the expected reward that ascent along the true gradient reaches from other initial weights.
 *
 *     npx tsx bench/exact.ts [--groups 2,8,32] [--seeds 10]
 *
 * It takes a minute or two and measures no time, so other programs may run beside it.
 */
import { parseArgs } from "node:util";
import { device } from "../engine/index.ts";
import { formatNumber } from "../run/figures/format.ts";
import { angleOf } from "../site/exact/figures.ts";
import { Laboratory, type Question } from "../site/exact/laboratory.ts";
import { PAGE_METHODS } from "../site/exact/methods.ts";
import { EPISODES } from "../site/exact/policy.ts";
import { probabilitiesOf } from "../site/exact/space.ts";
import { stateAfter, type StateName, STATES } from "../site/exact/states.ts";
import { formatAngle, formatFigure } from "../site/exact/words.ts";

/** Steps after which an ascent has come to rest. */
const STEPS_TO_REST = 80;

const { values } = parseArgs({
  options: { groups: { type: "string", default: "2,8,32" }, seeds: { type: "string", default: "10" } },
});
const groups = values.groups.split(",").map(Number);
const on = await device("reference");
const laboratory = new Laboratory(on);

for (const state of Object.keys(STATES) as StateName[]) {
  const facts = laboratory.factsOf(state);
  console.log(`\n${state}: expected reward ${formatFigure(facts.expectedReward)}, looks ${formatFigure(facts.looks)}`);
  const { worldCosine, worldNorm, gradientNorm, worldWholeCosine } = facts;
  console.log(
    `world model: cosine with the reward's gradient ${formatNumber(worldCosine)}, ` +
      `${formatNumber(worldNorm / gradientNorm)} times as long; ` +
      `with its own whole derivative ${formatNumber(worldWholeCosine)}`,
  );
  for (const player of state === "start" ? (["self"] as const) : (["self", "older"] as const)) table(state, player);
}

/** χ² of the policy against the older one: the mean of (p/q)² over episodes of the older one, minus 1. */
function distance(state: StateName): string {
  const { space, older } = laboratory.state(state);
  const played = probabilitiesOf(older!);
  return formatFigure(space.probabilities.reduce((sum, p, e) => sum + p ** 2 / played[e]!, -1));
}

/** Prints a line for each method: angle, length, and signal / noise. */
function table(state: StateName, player: Question["player"]): void {
  const played = player === "self" ? "the policy itself" : `the policy one step ago (χ² ${distance(state)})`;
  console.log(`\nepisodes of ${played}: angle, length; signal / noise`);
  console.log(["method".padEnd(30), ...groups.map((group) => `G = ${group}`.padEnd(30))].join(""));
  for (const { name, label } of PAGE_METHODS) {
    const cells = groups.map((group) => {
      const figures = laboratory.figures({ state, player, method: name, group, lambda: 0 }, "equal");
      const error = figures.biasError > 0 ? ` ± ${formatAngle((figures.biasError * 180) / Math.PI)}` : "";
      const mean = `${formatAngle(angleOf(figures))}${error}, ${formatFigure(figures.length)}`;
      return `${mean}; ${formatFigure(figures.signalToNoise)}`.padEnd(30);
    });
    console.log([label.padEnd(30), ...cells].join(""));
  }
}

console.log(`\nexpected reward after ${STEPS_TO_REST} steps along the true gradient, by seed of the initial weights:`);
for (let seed = 0; seed < Number(values.seeds); seed++) {
  const { space } = stateAfter(STEPS_TO_REST, on, seed);
  const reward = EPISODES.reduce((sum, episode, e) => sum + space.probabilities[e]! * episode.reward, 0);
  console.log(`  ${seed}: ${formatFigure(reward)}`);
}
