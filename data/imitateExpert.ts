/**
 * Imitation beside reinforcement learning: the environment's expert plays some of the tasks that the policy has just
 * played, and −log p of its actions is added to the policy loss. CodeRL trains so on reference programs (Le et al.
 * 2022, arXiv 2207.01780: L = L_ce + L_rl, with equal weights, the default here), InstructGPT on texts of its
 * pre-training (PTX; Ouyang et al. 2022, arXiv 2203.02155, eq. 2), DAPG on demonstrations, with a weight that decays
 * (Rajeswaran et al. 2017, arXiv 1709.10087).
 *
 * The control (`tasks: "shuffled"`) gives each of the expert's episodes the task of another one: as many tokens in the
 * expert's words, and no relation between task and actions. If it helps as much, the expert's solutions did not.
 */
import { inCode, number, oneOf, options, type OptionsOf, REQUIRED } from "../engine/optionTable.ts";
import type { Rng } from "../engine/index.ts";
import { longestText } from "../nn/index.ts";
import type { Metrics } from "../rl/episode/metrics.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { otherTask, withTask } from "./hindsight.ts";
import type { EpisodePlugin } from "../rl/tasks/plugin.ts";
import { EXPERT, pluginEntry } from "./entry.ts";

type Demonstrate = (template: Template, seed: number) => Promise<Trajectory>;

export const IMITATE_EXPERT = options("imitateExpert", {
  perStep: number(8, "largest number of a step's tasks that the expert plays, too, to be imitated", {
    integer: true,
    min: 1,
  }),
  weight: number(1, "weight of imitating it, a mean over its tokens, beside the policy loss", { above: 0 }),
  tasks: oneOf(
    ["own", "shuffled"],
    "own",
    "the task of each of its episodes: the one that it solves, or as a control another one's (`shuffled`)",
  ),
  demonstrate: inCode<Demonstrate>(
    "plays the expert on the task of a seed: `demonstrate`, with the environment and its options",
    "a function of the template and the seed",
    (value) => typeof value === "function",
    REQUIRED,
  ),
});
/**
 * An expert that is imitated beside RL (CodeRL, arXiv 2207.01780), for `imitateExpert`: the number of tasks of a step,
 * the weight (docs/methods.md, `imitateExpert.…`), and the function that makes its episodes.
 */
export type ImitateExpertOptions = OptionsOf<typeof IMITATE_EXPERT>;

/** Imitates the environment's expert on tasks of the step. */
export function imitateExpert(given: ImitateExpertOptions): EpisodePlugin {
  const settled = IMITATE_EXPERT.read(given);
  return {
    name: "imitateExpert",
    async extend({ own, template, model, rng }) {
      const [draw, longest] = [rng.split("imitate expert"), longestText(model.config)];
      const { trajectories, metrics } = await expertEpisodes(template, own, settled, draw, longest);
      return { imitated: { episodes: trajectories, weight: settled.weight }, metrics };
    },
  };
}

const { demonstrate: _, ...AS_TEXT } = IMITATE_EXPERT.fields;
export const imitateExpertEntry = pluginEntry({
  name: "imitateExpert",
  flag: {
    name: "imitate-expert",
    kind: "count",
    option: "perStep",
    about: "also imitates the expert on N of the step's tasks",
  },
  options: AS_TEXT,
  needs: EXPERT,
  make: (settings, { demonstrate }) => imitateExpert({ ...settings, demonstrate }),
});

/**
 * The expert's episodes of tasks that the policy has played in this step.
 * @param rng draws the tasks, if there are more than `perStep`
 * @param longest the tokens that the model can read: longer episodes are left out
 */
export async function expertEpisodes(
  template: Template,
  played: readonly Trajectory[],
  given: ImitateExpertOptions,
  rng: Rng,
  longest = Infinity,
): Promise<{ readonly trajectories: readonly Trajectory[]; readonly metrics: Metrics }> {
  const { perStep, tasks, demonstrate } = IMITATE_EXPERT.read(given);
  const seeds = [...new Set(played.filter(({ masked }) => !masked).map(({ seed }) => seed))];
  const shown: Trajectory[] = [];
  for (const seed of rng.shuffle(seeds).slice(0, perStep)) shown.push(await demonstrate(template, seed));
  const trajectories = shown
    .flatMap((episode, i) => {
      if (tasks === "own") return [episode];
      const task = otherTask(shown, i);
      return task === undefined ? [] : [withTask(episode, template, { task, turns: episode.stepRewards.length })];
    })
    .filter(({ stream }) => stream.ids.length <= longest);
  return { trajectories, metrics: { "imitate_expert/episodes": trajectories.length } };
}
