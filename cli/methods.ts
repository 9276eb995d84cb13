/**
 * The method of a run: from names on the command line to settings that `config.json` keeps, and from those to the objective. What does
 * not fit together is a mistake of the user, one line, before anything is written.
 */
import { WorldgradError } from "../engine/errors.ts";
import { type AdvantageEstimator, ADVANTAGES } from "../rl/advantages.ts";
import { type Aggregation, aggregationByName } from "../rl/aggregation.ts";
import { AdaptiveKl, POLICY_LOSSES } from "../rl/losses.ts";
import { PREFERENCE } from "../rl/losses/preference.ts";
import { SUPERVISED } from "../rl/losses/supervised.ts";
import { METHODS, objectiveOf, splitNames } from "../rl/methods.ts";
import { entryByName } from "../rl/names.ts";
import { checkObjective, type Objective } from "../rl/objective.ts";
import { type MethodFlags, UsageError } from "./options.ts";

export const DEFAULT_METHOD = "grpo+echo";

/** A method by names and numbers: all of it that `config.json` needs to make it again. */
export interface MethodSettings {
  /** A preset and its add-ons, as in `dapo+echo+actfocus`. */
  readonly method: string;
  /** Parts that take the place of the preset's. */
  readonly advantage?: string;
  readonly loss?: string;
  readonly aggregation: Aggregation;
  /** Of PPO's clip, where the job's own settings of GRPO hold. */
  readonly epsilon?: number;
  readonly epsilonHigh?: number;
  /** Weight of ECHO, where it is part of the method. */
  readonly lambda?: number;
  /** A penalty (k3, in the loss) on moving away from the warm start; with a target its coefficient follows the KL. */
  readonly kl?: { readonly beta: number; readonly target?: number };
}

/**
 * GRPO as the main job has always run it: with DAPO's clip-higher and the mean over tokens. It holds for `grpo` and for add-ons alone,
 * so that runs with and without an add-on differ in nothing else; every other preset is exactly what `--list` says.
 */
const OWN_GRPO = { aggregation: "token-mean", epsilon: 0.2, epsilonHigh: 0.28 } as const;
const LAMBDA = 0.05;
/** Episodes over which a KL that is 20 % too high raises β by a fifth: some dozens of steps of the main job. */
const KL_HORIZON = 10_000;

/** @throws UsageError with one line if a name is unknown or the flags contradict each other */
export function methodSettings(flags: MethodFlags): MethodSettings {
  const { method = DEFAULT_METHOD, advantage, loss, aggregation, lambda, kl = 0, klTarget } = flags;
  return usage(() => {
    for (const name of [method, ...method.split("+"), loss ?? ""]) refuseOtherData(name);
    if (advantage !== undefined) entryByName("advantage", ADVANTAGES, advantage);
    if (loss !== undefined) entryByName("policy loss", POLICY_LOSSES, loss);
    const parts = splitNames(method);
    const base = baseOf(parts);
    if (lambda !== undefined && !parts.includes("echo")) {
      throw new UsageError(`--lambda is the weight of echo, which is no part of --method ${method}; add +echo`);
    }
    if (klTarget !== undefined && !(kl > 0 && klTarget > 0)) {
      throw new UsageError("--kl-target steers the weight of --kl: both must be > 0");
    }
    const isOwn = base === "grpo";
    const isClipped = isOwn && (loss ?? "ppo") === "ppo";
    const preset = isOwn ? OWN_GRPO.aggregation : METHODS[base]!.aggregation;
    return {
      method,
      ...(advantage === undefined ? {} : { advantage }),
      ...(loss === undefined ? {} : { loss }),
      aggregation: aggregation === undefined ? preset : aggregationByName(aggregation),
      ...(isClipped ? { epsilon: OWN_GRPO.epsilon, epsilonHigh: OWN_GRPO.epsilonHigh } : {}),
      ...(parts.includes("echo") ? { lambda: lambda ?? LAMBDA } : {}),
      ...(kl > 0 ? { kl: { beta: kl, ...(klTarget === undefined ? {} : { target: klTarget }) } } : {}),
    };
  });
}

/**
 * The objective of these settings.
 * @param maxLength L_max of Dr. GRPO's aggregation: tokens at most that the agent writes in an episode
 * @throws UsageError with one line if the parts do not fit together
 */
export function objectiveFor(settings: MethodSettings, maxLength: number): Objective {
  const { method, advantage, loss, aggregation, epsilon, epsilonHigh, lambda, kl } = settings;
  return usage(() => {
    const objective = objectiveOf({
      method,
      ...(advantage === undefined ? {} : { advantage }),
      ...(loss === undefined ? {} : { loss }),
      aggregation,
      options: {
        ...(epsilon === undefined ? {} : { ppo: { epsilon, ...(epsilonHigh === undefined ? {} : { epsilonHigh }) } }),
        ...(lambda === undefined ? {} : { echo: { lambda } }),
      },
      ...(aggregation === "seq-mean-token-sum-norm" ? { maxLength } : {}),
    });
    const base = baseOf(splitNames(method));
    if (METHODS[base]!.critic && objective.critic === undefined) throw criticless(base, objective.advantage);
    if (kl === undefined) return objective;
    const beta = kl.target === undefined ? kl.beta : new AdaptiveKl({ beta: kl.beta, target: kl.target, horizon: KL_HORIZON }); // prettier-ignore
    const penalized: Objective = { ...objective, kl: { beta, estimator: "k3" } };
    checkObjective(penalized);
    return penalized;
  });
}

/** The preset among the parts; add-ons alone stand on GRPO. */
const baseOf = (parts: readonly string[]): string => parts.find((name) => Object.hasOwn(METHODS, name)) ?? "grpo";

/** PPO with a group's baseline is another method, and has a name. */
function criticless(base: string, { name }: AdvantageEstimator): UsageError {
  const fitting = Object.keys(ADVANTAGES).filter((a) => ADVANTAGES[a]!.make().needs?.includes("values"));
  return new UsageError(
    `--method ${base} has a critic, which --advantage ${name} does not read: choose one of ${fitting.join(", ")}, or --method grpo`,
  );
}

/** The main job learns from rewards; losses over pairs and demonstrations have loops of their own. */
function refuseOtherData(name: string): void {
  if (Object.hasOwn(PREFERENCE, name)) {
    throw new UsageError(`${name} learns from pairs, and the main job from rewards: use trainPreference in code`);
  }
  if (Object.hasOwn(SUPERVISED, name)) {
    throw new UsageError(`${name} learns from demonstrations, and RL from rewards: use trainSft in code`);
  }
}

/** Runs `make`; what the library finds wrong with the names becomes a message about the flags. */
function usage<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof WorldgradError)) throw error;
    const message = error.message.replace(/^policy loss:/, "loss:");
    throw new UsageError(message.replace(/^(method|advantage|loss|aggregation):/, "--$1:"));
  }
}

/** Part of a folder's name: letters, digits and single dashes. */
export function methodSlug({ method, advantage, loss }: Pick<MethodSettings, "method" | "advantage" | "loss">): string {
  const names = [method, advantage, loss].filter((name) => name !== undefined).join("+");
  return names.replace(/[^A-Za-z0-9_]+/g, "-").replace(/-$/, "");
}
