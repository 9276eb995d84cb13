/** `npm run evaluate`: the tasks that a finished run's agent solves, with a confidence interval. */
import { type Device, treeLeaves } from "../../engine/index.ts";
import { familiesOf } from "../../rl/episode/groups.ts";
import { rolloutMetrics } from "../../rl/episode/metrics.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import { evaluationOf } from "../../rl/evaluate.ts";
import { Experiment } from "../experiment.ts";
import { wilson } from "../figures/statistics.ts";
import { passAtPowers, playedRecord, type Split } from "../heldOut.ts";
import { modelFromCheckpoint } from "../modelFiles.ts";
import { type Preset, samplingOf } from "../preset.ts";
import { presetFor, presetOf } from "../presets.ts";
import type { Score } from "../records.ts";
import { parseSettings } from "../settings.ts";
import { type StartOptions, startOptions } from "../startOptions.ts";
import { templateFor } from "../template.ts";
import { UsageError } from "../usage.ts";
import { checkEnvironment, checkFingerprint } from "../worlds.ts";
import { loadEnvironmentOf } from "./environmentFile.ts";
import { openGiven } from "./flags.ts";
import { earlierRun, type FromRun } from "./fromRun.ts";
import { sourceLoader } from "./runSource.ts";
import { withUserFiles } from "./userFiles.ts";

/** The flags that choose what is evaluated, as texts. */
export interface EvaluateFlags {
  readonly run: string;
  readonly checkpoint?: string | undefined;
  readonly env?: string | undefined;
  readonly set?: readonly string[] | undefined;
  readonly seed?: string | undefined;
}

/** An evaluation whose settings have been checked: those of the run, with what the flags change. */
export interface Prepared {
  readonly path: string;
  readonly preset: Preset;
  readonly earlier: FromRun;
}

/** The parts of `--set` that say how episodes are played; the others say how an agent is trained. */
const PLAYED = ["env", "train", "rollout", "evaluation", "history"];

/**
 * Reads the run and the settings of the evaluation. They are made as those of a run that begins with this one, so that
 * another world has its own limits.
 * @throws UsageError in one line
 */
export async function prepareEvaluation({ run, checkpoint, env, set, seed }: EvaluateFlags): Promise<Prepared> {
  const folder = openGiven("run", run);
  const before = presetOf(folder);
  const { values, tasks } = parseSettings(set ?? []);
  const idle = [...Object.keys(tasks), ...Object.keys(values)].find((name) => !PLAYED.includes(name.split(".")[0]!));
  if (idle !== undefined)
    throw new UsageError(`--set ${idle}: an evaluation trains nothing; expected an option of ${PLAYED.join(", ")}`);
  const said = { from: folder.path, checkpoint, set, env, seed: seed ?? String(before.seed) };
  // The method trains nothing here, and none of its parts shall refuse another world.
  const options: StartOptions = startOptions({ ...said, method: "grpo_token" });
  if (env === undefined) {
    await loadEnvironmentOf(before);
    await checkFingerprint(before);
  }
  const world = env === undefined ? before : await withUserFiles(options);
  const earlier = await earlierRun("run", folder, checkpoint);
  const { env: name, environmentFile } = world;
  const preset = presetFor({ ...options, env: name, environmentFile }, undefined, earlier);
  await checkEnvironment(preset);
  return { path: folder.path, preset, earlier };
}

/** A number of successes as a share of the episodes, with its 95 % interval by Wilson. */
interface Rate {
  readonly success: number;
  readonly interval: readonly [low: number, high: number];
}

/** The result; it is what `--json` prints. */
export interface RunScore extends Omit<Score, "facts">, Rate {
  readonly run: string;
  /** The step of the checkpoint. */
  readonly checkpoint: number;
  readonly env: string;
  readonly split: Split;
  readonly seed: number;
  readonly temperature: number;
  /** The same and what leaves tokens out, in words. */
  readonly sampling: string;
  /** The mean number of tokens that the agent writes in an episode. */
  readonly meanLength: number;
  /** By family of tasks, with the returns within it. */
  readonly families: Readonly<Record<string, Score & Rate>>;
}

const rateOf = ({ successes, episodes }: Score): Rate => {
  const { value, low, high } = wilson(successes, episodes);
  return { success: value, interval: [low, high] };
};

/** @param names the families of these episodes, as `evaluationOf` calls them */
function scoresByFamily(names: readonly string[], episodes: readonly Trajectory[]): RunScore["families"] {
  const own = familiesOf(episodes);
  // The name of what has no family is the one that no episode has.
  const rest = names.find((name) => !own.includes(name));
  return Object.fromEntries(
    names.map((name) => {
      const { families: _, ...score } = playedRecord(
        evaluationOf(episodes.filter((_, i) => (own[i] ?? rest) === name)),
      );
      return [name, { ...score, ...rateOf(score) }];
    }),
  );
}

/** @param episodes default: as many as before and after RL */
export async function evaluateRun(
  { path, preset, earlier }: Prepared,
  device: Device,
  {
    episodes = preset.evaluation.finalEpisodes,
    split = "heldout",
    temperature = preset.rollout.temperature,
  }: { readonly episodes?: number | undefined; readonly split?: Split; readonly temperature?: number | undefined },
): Promise<RunScore> {
  const { checkpoint, preset: before } = earlier;
  const { model, tokenizer } = await modelFromCheckpoint(checkpoint, device, sourceLoader(before));
  try {
    const { tries = 1 } = preset.evaluation;
    // A run of random play has nothing else to show.
    const player = before.rl.method === "random" ? "random" : "model";
    const experiment = await Experiment.of(preset);
    const options = { tries, player, split, temperature } as const;
    const played = (await experiment.play(model, templateFor(preset, tokenizer), episodes, options))!;
    const { families, ...score } = playedRecord(played.first);
    return {
      run: path,
      checkpoint: checkpoint.step,
      env: preset.env,
      split,
      seed: preset.seed,
      temperature,
      sampling: samplingOf(preset.rollout, temperature),
      ...score,
      ...rateOf(score),
      meanLength: rolloutMetrics(played.first.trajectories)["completions/mean_length"]!,
      ...(tries === 1 ? {} : { passAt: passAtPowers(played.all, episodes, tries) }),
      families: scoresByFamily(Object.keys(families!), played.first.trajectories),
    };
  } finally {
    for (const x of treeLeaves(model.params)) x.dispose();
  }
}
