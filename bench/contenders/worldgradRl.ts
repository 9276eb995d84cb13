/**
 * An RL step in the terminal with the model and the settings of `npm start`: episodes are played, then the model learns
 * from them once. A short warm start comes first, because an untrained model plays other episodes, of one endless
 * action each.
 */
import { presetFor } from "../../run/presets.ts";
import { Experiment, MAX_BATCH_TOKENS } from "../../run/experiment.ts";
import { parseStart } from "../../run/node/commandLine.ts";
import { type Device, Rng } from "../../engine/index.ts";
import type { Model } from "../../nn/index.ts";
import { ENVIRONMENTS } from "../../environments/index.ts";
import {
  advantagesOf,
  type EpisodeRequest,
  optimizerStep,
  rollout,
  score,
  type TokenRow,
  type Trajectory,
  weigh,
} from "../../rl/index.ts";
import { Template } from "../../rl/episode/template.ts";
import type { TaskOf } from "../cases/task.ts";
import { median } from "../statistics.ts";
import type { Prepared } from "./engine.ts";

/**
 * Steps before the measurement. They are about 15 % slower, because the JavaScript engine has not yet compiled their
 * code.
 */
const UNMEASURED = 12;

export async function rlTask(on: Device, { warmup }: TaskOf<"rl">): Promise<Prepared> {
  const full = presetFor(parseStart([]) as Exclude<ReturnType<typeof parseStart>, string>);
  // Fewer texts and demonstrations than in a real run save time and do not change the cost of a step.
  const preset = {
    ...full,
    tokenizer: { ...full.tokenizer, corpusEpisodes: 300 },
    sft: { ...full.sft, demonstrations: 400, steps: warmup },
  };
  const experiment = await Experiment.of(preset);
  const tokenizer = await experiment.trainTokenizer();
  const template = new Template(tokenizer);
  const model = experiment.newModel(tokenizer, on);
  const demonstrations = await experiment.demonstrations(template);
  const sftOptimizer = experiment.sftOptimizer(model);
  for await (const step of experiment.sft({ model, template, optimizer: sftOptimizer, demonstrations })) void step;

  const optimizer = experiment.rlOptimizer(model);
  const objective = experiment.objective();
  const { groups, groupSize } = preset.rl;
  // Learning rate 0 keeps the policy: one that learns plays shorter episodes in every step, and rounds could not be
  // compared.
  const lr = 0;
  const packing = { padId: template.padId, maxTokens: MAX_BATCH_TOKENS };
  const parts = { rollout: [] as number[], learning: [] as number[], flops: [] as number[] };
  let count = 0;
  let last: readonly TokenRow[] = [];

  const step = async (): Promise<number[]> => {
    const requests = episodes(new Rng(0).split(count), preset.env, groups, groupSize);
    const begin = performance.now();
    const played = await rollout(model, template, requests, experiment.rolloutOptions());
    const between = performance.now();
    const advantages = advantagesOf(objective, played, count);
    last = weigh(objective, played, advantages, count++);
    const { gradNorm, terms } = await optimizerStep(model, optimizer, last, objective, { ...packing, lr });
    parts.rollout.push(between - begin);
    parts.learning.push(performance.now() - between);
    parts.flops.push(stepFlops(model, played));
    return [gradNorm, terms["policy"]!, played.reduce((total, { stream }) => total + stream.ids.length, 0)];
  };
  for (let i = 0; i < UNMEASURED; i++) await step();
  for (const list of Object.values(parts)) list.length = 0;
  return {
    check: step,
    run: async () => void (await step()),
    figures: async () => {
      const scoring: number[] = [];
      for (let i = 0; i < 3; i++) {
        const begin = performance.now();
        await score(model, last, packing);
        scoring.push(performance.now() - begin);
      }
      return {
        "rollout ms": median(parts.rollout),
        "learning ms": median(parts.learning),
        "scoring ms (not part of an on-policy step)": median(scoring),
        GFLOP: median(parts.flops) / 1e9,
      };
    },
    dispose: () => undefined,
  };
}

function episodes(rng: Rng, env: string, groups: number, groupSize: number): EpisodeRequest[] {
  return Array.from({ length: groups * groupSize }, (_, e) => {
    const group = Math.floor(e / groupSize);
    const seed = rng
      .split("task")
      .split(group)
      .int(2 ** 31);
    return { spec: ENVIRONMENTS[env]!, options: { split: "train" }, seed, group, rng: rng.split("episode").split(e) };
  });
}

/**
 * FLOPs that the mathematics of a step needs. Playing takes the forward pass of every token of every episode, learning
 * three times as much (forward and backward). The output matrix is used for the sampled tokens when playing, and for
 * all tokens but those of the task when learning. A prompt that several episodes share counts for each of them; padding
 * does not count.
 */
function stepFlops({ config }: Model, played: readonly Trajectory[]): number {
  const { hiddenSize: C, intermediateSize: F, layers, vocabSize: V } = config;
  let total = 0;
  for (const { stream } of played) {
    const T = stream.ids.length;
    const body = layers * T * (2 * (4 * C * C + 3 * C * F) + 4 * C * ((T + 1) / 2));
    const sampled = stream.roles.filter((role) => role === "action").length;
    const scored = stream.roles.filter((role) => role === "action" || role === "observation").length;
    total += 4 * body + 2 * C * V * (sampled + 3 * scored);
  }
  return total;
}
