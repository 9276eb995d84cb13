/**
 * A reward of several components: R = Σ weight·component. The sum of the shaping components is capped, so that no
 * amount of good form outweighs the outcome. Common weights are 1 for the outcome, 0.2 for format and 0.1 for the use
 * of tools.
 *
 * The components are added within an episode. To normalise each component over a group before adding (GDPO), use the
 * advantage `gdpo`, which reads the parts.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";

/** One component of a composite reward. @template T what is scored: a trajectory, a text, or an object with both */
export interface RewardComponent<T> {
  readonly name: string;
  /** At least 0; a penalty has a negative score. */
  readonly weight: number;
  /** `outcome` is the goal itself; `shaping` guides towards it and is capped. */
  readonly kind: "outcome" | "shaping";
  /** The score of an episode; NaN if it cannot be scored. */
  readonly score: (episode: T) => number;
}

/** Options of `composite`: how much the shaping components can add to, or take off, the outcome. */
export interface CompositeOptions {
  /**
   * The largest absolute value of the weighted sum of all shaping. Default 0.3. It must be less than the weights of the
   * outcomes.
   */
  readonly cap?: number;
}

/** The reward of an episode as `composite` puts it together, with its components. */
export interface CompositeReward {
  /** NaN if a component could not be scored. */
  readonly reward: number;
  /** The part of `reward` that comes from components of the kind `outcome`. */
  readonly outcome: number;
  /** Unweighted scores by name, for metrics. */
  readonly parts: Readonly<Record<string, number>>;
  /** Whether the cap reduced the shaping. */
  readonly capped: boolean;
}

/**
 * A function that scores an episode with these components.
 *
 * @throws if two components have one name, no component is an outcome, or the cap lets shaping outweigh the outcome
 *
 * @example
 * const score = composite<Turn[]>([
 *   { name: "solved", weight: 1, kind: "outcome", score: (turns) => Number(turns.at(-1)?.action === "answer 4") },
 *   { name: "tools", weight: 0.1, kind: "shaping", score: (turns) => toolEfficiency(turns, { tools: ["search"] }) },
 * ]);
 * score(turns).reward;
 */
export function composite<T>(
  components: readonly RewardComponent<T>[],
  options: CompositeOptions = {},
): (episode: T) => CompositeReward {
  checkKeys("composite", options, ["cap"]);
  const { cap = 0.3 } = options;
  const names = components.map(({ name }) => name);
  const outcomeWeight = components.reduce((sum, { kind, weight }) => sum + (kind === "outcome" ? weight : 0), 0);
  check(new Set(names).size === names.length, () => `composite: a name is there twice among ${names.join(", ")}`);
  for (const { name, weight } of components)
    check(weight >= 0 && weight < Infinity, () => `composite: the weight of ${name} must be in [0, ∞), got ${weight}`);
  check(
    outcomeWeight > 0,
    () => `composite: none of ${names.join(", ") || "no components"} is an outcome with a weight`,
  );
  check(
    cap >= 0 && cap < outcomeWeight,
    () => `composite: cap must be in [0, ${outcomeWeight}), the weight of the outcomes, got ${cap}`,
  );
  return (episode) => {
    const scores = components.map(({ score }) => score(episode));
    const sumOf = (wanted: "outcome" | "shaping"): number =>
      components.reduce((sum, { kind, weight }, i) => sum + (kind === wanted ? weight * scores[i]! : 0), 0);
    const [outcome, shaping] = [sumOf("outcome"), sumOf("shaping")];
    const limited = Math.max(-cap, Math.min(cap, shaping)); // NaN stays NaN
    const parts = Object.fromEntries(names.map((name, i) => [name, scores[i]!]));
    return { reward: outcome + limited, outcome, parts, capped: Math.abs(shaping) > cap };
  };
}
