/**
 * Inverse dynamics (VPT, Baker et al. 2022, arXiv 2206.11795): the actions that explain the observations. A model that
 * has seen a few episodes with their actions labels others of which only the observations are known, p(a_t | o_1 …
 * o_T); a policy, which does not see the future, imitates the labels.
 *
 * The model is one like the agent's. It reads the episode backwards, o_T … o_1, and then writes the actions in order;
 * the answer to each follows it. So all observations stand before the first action, and the effect of an action is
 * close to it. Labelling is then an episode in a world whose task is the observations and which takes any action.
 */
import { type EnvironmentSpec, SingleUseEnvironment, type StepResult } from "../rl/environment.ts";
import { emptyStream, type Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";

/** An episode without its actions: the task, and the answer to each action. */
export interface Seen {
  readonly task: string;
  readonly answers: readonly string[];
}

const BETWEEN = "\n~\n";

/** The tokens of an episode's actions and answers, by turn, and the targets among the latter. */
function turnsOf({
  stream,
}: Trajectory): { readonly action: number[]; readonly answer: number[]; readonly targets: boolean[] }[] {
  const turns: { action: number[]; answer: number[]; targets: boolean[] }[] = [];
  stream.ids.forEach((id, t) => {
    const role = stream.roles[t]!;
    if (role !== "action" && role !== "observation") return;
    const turn = (turns[stream.turns[t]!] ??= { action: [], answer: [], targets: [] });
    if (role === "action") return void turn.action.push(id);
    turn.answer.push(id);
    turn.targets.push(stream.targets[t]!);
  });
  return turns;
}

/** The observations of an episode. */
export const seenOf = (episode: Trajectory, template: Template): Seen => ({
  task: episode.task,
  answers: turnsOf(episode).map(({ answer }) => template.tokenizer.decode(answer)),
});

/** The actions of an episode, as texts. */
export const actionsOf = (episode: Trajectory, template: Template): string[] =>
  turnsOf(episode).map(({ action }) => template.actionText(action));

/** The task of labelling: all observations, backwards. */
const taskOf = ({ task, answers }: Seen): string => [task, ...[...answers].reverse()].join(BETWEEN);

/** The episode of labelling with these actions: a demonstration for the inverse model. */
export function inverseEpisode(episode: Trajectory, template: Template): Trajectory {
  const seen = seenOf(episode, template);
  const stream = emptyStream();
  template.appendTask(stream, taskOf(seen));
  const actions = actionsOf(episode, template);
  actions.forEach((action, turn) => {
    template.appendAction(stream, turn, action);
    const next = template.encodeObservation(seen.answers[turn + 1] ?? "", Infinity);
    template.appendObservation(stream, turn, next, "", turn + 1 === actions.length);
  });
  return { ...episode, stream };
}

/**
 * The world of labelling: a seed is the number of an episode, and the answers are its observations, for any actions.
 */
export function labellingWorld(seen: readonly Seen[]): EnvironmentSpec {
  class Labelling extends SingleUseEnvironment {
    readonly name = "labelling";
    #seen: Seen | undefined;
    #turn = 0;
    protected begin(seed: number): string {
      this.#seen = seen[seed]!;
      return taskOf(this.#seen);
    }
    protected act(): StepResult {
      const { answers } = this.#seen!;
      const done = ++this.#turn === answers.length;
      return { observation: answers[this.#turn] ?? "", reward: 0, done, info: {} };
    }
  }
  return {
    name: "labelling",
    description: "say which actions explain what was seen",
    families: [],
    make: () => new Labelling(),
    expert: () => "",
    random: () => "",
  };
}

/**
 * The episode with these actions in the place of its own. Turns in which nothing happened, whose answer repeats the one
 * before, are left out, as in VPT. The last turn stays.
 */
export function relabelled(episode: Trajectory, labels: readonly string[], template: Template): Trajectory {
  const stream = emptyStream();
  template.appendTask(stream, episode.task);
  const turns = turnsOf(episode);
  const texts = turns.map(({ answer }) => template.tokenizer.decode(answer));
  const kept = [...turns.keys()].filter((k) => k + 1 === turns.length || texts[k] === "" || texts[k] !== texts[k - 1]);
  kept.forEach((k, turn) => {
    template.appendAction(stream, turn, labels[k]!);
    const { answer: ids, targets } = turns[k]!;
    template.appendObservation(stream, turn, { ids, targets }, "", turn + 1 === kept.length);
  });
  return { ...episode, stream };
}

/** The share of turns whose label is the taken action, to the letter; NaN without turns. */
export function labelAccuracy(truths: readonly (readonly string[])[], labels: readonly (readonly string[])[]): number {
  let [right, all] = [0, 0];
  truths.forEach((truth, i) =>
    truth.forEach((action, k) => {
      all++;
      if (action === labels[i]![k]) right++;
    }),
  );
  return right / all;
}
