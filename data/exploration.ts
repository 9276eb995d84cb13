/**
 * The drawing of actions: a temperature that changes with the steps, and ε-tool exploration, in which a tool chooser
 * writes some of the actions.
 */
import { inCode, number, oneOf, options, type OptionsOf, REQUIRED, schedule } from "../engine/optionTable.ts";
import type { Rng } from "../engine/index.ts";
import type { Schedule } from "../nn/index.ts";
import type { Environment, EnvironmentSpec } from "../rl/environment.ts";
import type { EpisodeRequest } from "../rl/play/episode.ts";
import { checkRange } from "../rl/objective/tokenStatistics.ts";
import { type Trajectory, turnCount } from "../rl/episode/stream.ts";
import type { EpisodePlugin } from "../rl/tasks/plugin.ts";
import { expertOf } from "./demonstrations.ts";
import { pluginEntry } from "./entry.ts";

/**
 * The options of a temperature schedule. A temperature is above 0, because the episodes of a group would all be the
 * same in greedy play.
 */
export const TEMPERATURE = options("temperatureSchedule", {
  from: number(REQUIRED, "temperature at step 0", { above: 0 }),
  to: number(REQUIRED, "temperature at step `steps` and later", { above: 0 }),
  steps: number(REQUIRED, "number of steps between the two temperatures", { integer: true, min: 1 }),
  shape: oneOf(
    ["linear", "cosine", "exponential"],
    "linear",
    "how the temperature changes; `exponential` multiplies it by the same factor at every step",
  ),
});
/**
 * Options of `temperatureSchedule`: the temperatures `from` and `to` and the `steps` between them have to be given;
 * `shape` is `linear` by default.
 */
export type TemperatureOptions = OptionsOf<typeof TEMPERATURE>;

/**
 * The temperature as a function of the step, for `trainRl`'s `temperature`. Each token records the temperature that it
 * was drawn at and is scored at the same one, so that ratios are 1 on-policy whatever the schedule is.
 */
export function temperatureSchedule(given: TemperatureOptions): Schedule {
  const { from, to, steps, shape } = TEMPERATURE.read(given);
  return (step) => {
    const progress = Math.min(1, step / steps);
    if (shape === "exponential") return from * (to / from) ** progress;
    return from + (to - from) * (shape === "linear" ? progress : 0.5 * (1 - Math.cos(Math.PI * progress)));
  };
}

/** A function that chooses an action in place of the model. It may read the live environment, as an expert does. */
export type ToolChooser = (rng: Rng, task: string, env: Environment, turn: number) => string;

export const EXPLORATION = options("exploration", {
  epsilon: schedule(REQUIRED, "ε, the probability that the chooser writes an action", { min: 0, max: 1 }),
  choose: inCode<ToolChooser>(
    "the function that chooses actions; by default the environment's random baseline, which uses names from the task",
    "a function that returns an action",
    (value) => typeof value === "function",
  ),
});
/**
 * Options of `exploration`: ε in [0, 1], a number or a function of the step, has to be given; `choose` is by default
 * the environment's random baseline.
 */
export type ExplorationOptions = OptionsOf<typeof EXPLORATION>;

/**
 * ε-tool exploration: with probability ε a tool chooser writes the whole action of a turn.
 *
 * The chooser's tokens have the role `prompt`, so they are not in the policy mask. A random number that does not depend
 * on the model decides whether the chooser acts. For the model the chooser is therefore a part of the environment,
 * which sometimes acts by itself; the model's own tokens are exactly on-policy in that environment, and their ratios
 * are correct. (The alternative is to record the mixture (1 − ε)π + εq. It needs the probability q of every text, which
 * a scripted chooser does not have, and weights 0/ε where π is 0.) The method optimises the return *with* the noise, as
 * every ε-soft on-policy method does; let ε fall to 0 with a schedule.
 *
 * World models learn from the answers to the chooser's actions as from all others (ECHO: after the model's first
 * action).
 */
export function exploration(given: ExplorationOptions): EpisodePlugin {
  const { epsilon, choose } = EXPLORATION.read(given);
  const at: Schedule = typeof epsilon === "function" ? epsilon : (): number => epsilon;
  return {
    name: "exploration",
    // Whether the chooser acts in a turn depends only on the episode's random stream and the turn.
    request(request, step) {
      const now = at(step);
      checkRange(`exploration at step ${step}`, "epsilon", now, 0, 1);
      return explored(request, now, choose);
    },
    metrics: (unaided) => ({ "exploration/forced_share": forcedShare(unaided) }),
  };
}

export const explorationEntry = pluginEntry({
  name: "exploration",
  flag: {
    name: "explore",
    kind: "schedule",
    option: "epsilon",
    about: "share of actions that a random player chooses, or a schedule",
  },
  options: {
    epsilon: EXPLORATION.fields.epsilon,
    choose: oneOf(["random", "expert"], "random", "who chooses the exploring actions"),
  },
  make: ({ epsilon, choose }, { env }) =>
    exploration({ epsilon, choose: choose === "expert" ? chooserOf(env) : undefined }),
});

function chooserOf(env: EnvironmentSpec): ToolChooser {
  const expert = expertOf(env);
  return (_rng, _task, live) => expert(live);
}

/** The request with actions of `choose`, or of the random baseline, with probability `epsilon` in each turn. */
export function explored({ given, ...request }: EpisodeRequest, epsilon: number, choose?: ToolChooser): EpisodeRequest {
  const chooser: ToolChooser = choose ?? ((rng, task, env) => request.spec.random(rng, task, request.options, env));
  const canBeSent = choose === undefined && (request.forced === undefined || given !== undefined);
  return {
    ...request,
    ...(canBeSent ? { given: [...(given ?? []), { kind: "explore", epsilon }] } : {}),
    forced: (turn, task, env) => {
      const first = request.forced?.(turn, task, env);
      if (first !== undefined) return first;
      const rng = request.rng.split("explore").split(turn);
      return rng.uniform() < epsilon ? chooser(rng, task, env, turn) : undefined;
    },
  };
}

/** The share of the actions in these episodes that the model did not write. */
export function forcedShare(trajectories: readonly Trajectory[]): number {
  const actions = trajectories.reduce((n, t) => n + t.stepRewards.length, 0);
  const forced = trajectories.reduce((n, t) => n + Math.max(0, t.stepRewards.length - turnCount(t)), 0);
  return actions === 0 ? 0 : forced / actions;
}
