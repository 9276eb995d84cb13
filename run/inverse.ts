/**
 * A warm start in which only few demonstrations keep their actions (`--set sft.labelled=N`). An inverse dynamics model
 * learns from these and labels the others (data/inverse.ts), and the warm start imitates all. Two controls: the same
 * labels, shuffled (`sft.labels=shuffled`), and the few demonstrations only (`sft.labels=none`).
 */
import { Rng } from "../engine/random.ts";
import { type Device, treeLeaves } from "../engine/index.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { actionsOf, inverseEpisode, labelAccuracy, labellingWorld, relabelled, seenOf } from "../data/inverse.ts";
import { rollout } from "../rl/play/rollout.ts";
import type { Experiment } from "./experiment.ts";
import type { Watch } from "./observer.ts";

/** The run that needs labels. */
export interface LabelRun extends Watch {
  readonly experiment: Experiment;
  readonly template: Template;
  readonly device: Device;
}

/** The demonstrations that the warm start imitates, and the share of their labels that is right. */
export interface Labelled {
  readonly demonstrations: readonly Trajectory[];
  readonly metrics: Readonly<Record<string, number>>;
}

/**
 * The demonstrations, in which labels replace all actions but those of the first `sft.labelled` demonstrations. The
 * model that makes the labels is trained like the warm start and then freed; the same seed gives the same labels.
 * @returns null if the run was stopped meanwhile
 */
export async function label(run: LabelRun, all: readonly Trajectory[]): Promise<Labelled | null> {
  const { experiment, template, observer, signal } = run;
  const { sft, model: sizes, seed } = experiment.preset;
  const few = all.slice(0, sft.labelled);
  if (sft.labels === "none") return { demonstrations: few, metrics: {} };
  // The model's input and the action that it has to write must fit into its positions together.
  const fits = (episode: Trajectory): boolean =>
    inverseEpisode(episode, template).stream.ids.length <= sizes.maxPositions;
  const others = all.slice(few.length).filter(fits);
  const made = await labelsFor(run, few.filter(fits), others);
  if (made === null || signal.aborted) return null;
  const whole = made.flatMap((labels, i) =>
    labels.length === actionsOf(others[i]!, template).length ? [{ labels, episode: others[i]! }] : [],
  );
  const labels = whole.map((one) => one.labels);
  const given = sft.labels === "shuffled" ? dealtOut(labels, new Rng(seed).split("shuffled labels")) : labels;
  const truths = whole.map(({ episode }) => actionsOf(episode, template));
  const accuracy = labelAccuracy(truths, given);
  const share = `${(100 * accuracy).toFixed(1)} % of the labels of ${whole.length} episodes`;
  observer.note(`inverse dynamics: ${share} are the actions that were taken`);
  return {
    demonstrations: [...few, ...whole.map(({ episode }, i) => relabelled(episode, given[i]!, template))],
    metrics: { "labels/accuracy": accuracy, "labels/episodes": whole.length },
  };
}

/** Trains the inverse model on the first demonstrations; then it labels the others, greedily. */
async function labelsFor(
  { experiment, template, device, observer, eventLoop, signal }: LabelRun,
  few: readonly Trajectory[],
  others: readonly Trajectory[],
): Promise<string[][] | null> {
  if (others.length === 0 || few.length === 0) return others.map(() => []);
  const { steps } = experiment.preset.sft;
  const model = experiment.newModel(template.tokenizer, device);
  const optimizer = experiment.sftOptimizer(model);
  try {
    observer.phase("inverse dynamics: learning which actions explain what is seen", steps);
    const demonstrations = few.map((episode) => inverseEpisode(episode, template));
    for await (const { step, metrics } of experiment.sft({
      model,
      template,
      optimizer,
      demonstrations,
      startStep: 0,
    })) {
      observer.update(step + 1, metrics);
      await eventLoop.turn();
      if (signal.aborted) return null;
    }
    const spec = labellingWorld(others.map((episode) => seenOf(episode, template)));
    const rng = new Rng(0);
    const requests = others.map((_, seed) => ({ spec, options: {}, seed, group: seed, rng: rng.split(seed) }));
    const maxTurns = Math.max(...others.map((episode) => actionsOf(episode, template).length));
    const options = { ...experiment.rolloutOptions(), temperature: 0, maxTurns, signal };
    const played = await rollout(model, template, requests, options);
    return played.map((episode) => actionsOf(episode, template));
  } finally {
    optimizer.dispose();
    for (const x of treeLeaves(model.params)) x.dispose();
  }
}

/** The labels in shuffled order. */
function dealtOut(labels: readonly (readonly string[])[], rng: Rng): string[][] {
  const all = rng.shuffle(labels.flat());
  let at = 0;
  return labels.map((ofEpisode) => ofEpisode.map(() => all[at++]!));
}
