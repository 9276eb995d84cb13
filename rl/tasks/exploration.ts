/**
 * How actions are drawn: a temperature that changes with the steps, and ε-tool exploration, in which some actions are not the
 * model's but those of a tool chooser.
 */
import { inCode, number, oneOf, options, type OptionsOf, REQUIRED, schedule } from "../../engine/optionTable.ts";
import type { Rng } from "../../engine/index.ts";
import type { Schedule } from "../../nn/index.ts";
import type { Environment } from "../../environments/index.ts";
import type { EpisodeRequest } from "../play/episode.ts";
import { checkRange } from "../methods/tokenStatistics.ts";
import { type Trajectory, turnCount } from "../episode/stream.ts";

/** Greedy play, at temperature 0, has no groups to compare. */
export const TEMPERATURE = options("temperatureSchedule", {
  from: number(REQUIRED, "temperature at step 0", { above: 0 }),
  to: number(REQUIRED, "temperature at the last step, and afterwards", { above: 0 }),
  steps: number(REQUIRED, "steps between the two", { integer: true, min: 1 }),
  shape: oneOf(["linear", "cosine", "exponential"], "linear", "`exponential` multiplies by one factor at every step"),
});
export type TemperatureOptions = OptionsOf<typeof TEMPERATURE>;

/**
 * The temperature at a step, for `trainRl`'s `temperature`. Each token records the temperature that it was drawn at, and is
 * scored at the same one, so ratios stay 1 on-policy whatever the schedule does.
 */
export function temperatureSchedule(given: TemperatureOptions): Schedule {
  const { from, to, steps, shape } = TEMPERATURE.read(given);
  return (step) => {
    const progress = Math.min(1, step / steps);
    if (shape === "exponential") return from * (to / from) ** progress;
    return from + (to - from) * (shape === "linear" ? progress : 0.5 * (1 - Math.cos(Math.PI * progress)));
  };
}

/** Chooses an action in the model's place. It may look at the live environment, as an expert does. */
export type ToolChooser = (rng: Rng, task: string, env: Environment, turn: number) => string;

export const EXPLORATION = options("Exploration", {
  epsilon: schedule(REQUIRED, "ε, the probability that an action is the chooser's", { min: 0, max: 1 }),
  choose: inCode<ToolChooser>(
    "who chooses; by default the environment's random baseline, with the names of the task",
    "a function that returns an action",
    (value) => typeof value === "function",
  ),
});
export type ExplorationOptions = OptionsOf<typeof EXPLORATION>;

/**
 * ε-tool exploration: with probability ε a whole action is drawn from a tool chooser.
 *
 * The chooser's tokens have the role `prompt`: they are not in the policy mask. A coin of its own, independent of the model, says
 * who acts; so, seen from the model, the chooser is a part of a world that sometimes acts by itself, the model's own tokens are
 * exactly on-policy in that world, and their ratios stay right. (The other way, recording the mixture (1 − ε)π + εq, needs the
 * probability q of every text, which a scripted chooser cannot tell, and weights that are 0/ε where π would never go.) What is
 * optimised is the return *with* the noise, as in every ε-soft on-policy method; let ε fall to 0 with a schedule.
 *
 * The world model learns from the answers to the chooser's actions as from all others (ECHO: from the model's first action on).
 */
export class Exploration {
  readonly #epsilon: Schedule;
  readonly #choose: ToolChooser | undefined;

  constructor(given: ExplorationOptions) {
    const { epsilon, choose } = EXPLORATION.read(given);
    this.#epsilon = typeof epsilon === "function" ? epsilon : (): number => epsilon;
    this.#choose = choose;
  }

  /** The same request with exploration. A turn's coin is a function of the episode's stream and the turn alone. */
  apply(request: EpisodeRequest, step: number): EpisodeRequest {
    const epsilon = this.#epsilon(step);
    checkRange(`Exploration at step ${step}`, "epsilon", epsilon, 0, 1);
    return explored(request, epsilon, this.#choose);
  }
}

/** The request with actions of `choose`, or of the random baseline, in a share `epsilon` of its turns. */
export function explored({ given, ...request }: EpisodeRequest, epsilon: number, choose?: ToolChooser): EpisodeRequest {
  const chooser: ToolChooser = choose ?? ((rng, task) => request.spec.random(rng, task, request.options));
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

/** Share of the actions that the environment got which were not the model's. */
export function forcedShare(trajectories: readonly Trajectory[]): number {
  const actions = trajectories.reduce((n, t) => n + t.stepRewards.length, 0);
  const forced = trajectories.reduce((n, t) => n + Math.max(0, t.stepRewards.length - turnCount(t)), 0);
  return actions === 0 ? 0 : forced / actions;
}
