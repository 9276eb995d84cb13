/**
 * What worlds of unknown facts (`home`, `castle`) have in common beside their hints: their options, which pairs of a fact and a kind
 * of question are kept for held-out tasks, and that a world follows from a seed. Such a world stays the same for a whole run, no task
 * states its facts, and no demonstration shows them, so that only its answers tell them.
 *
 * Not here: what a world's facts are, and what is asked about them.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import type { Rng } from "../../engine/index.ts";
import type { FamilyInfo } from "../environment.ts";
import type { GameOptions } from "../game.ts";
import { HINTS, type Hints } from "./hints.ts";

export interface FactOptions extends GameOptions {
  /** What an answer says of a fact that the agent had wrong (hints.ts). Default `suggestion`. */
  readonly hints?: Hints;
  /**
   * `random`: what answers state is drawn anew each time, in the same words: a control, in which they can be predicted no better than
   * by chance. What is right stays as it is. Default `true`.
   */
  readonly facts?: "true" | "random";
  /** Families that pay; the others are played, and answered, and earn nothing. Default: all. */
  readonly rewarded?: readonly string[];
}
export const FACT_OPTIONS = ["hints", "facts", "rewarded"] as const;

/** @param seed of the world, or −1: each episode has one of its own @throws WorldgradError on values that make no sense */
export function checkFactOptions(
  name: string,
  { hints = "suggestion", facts = "true", rewarded = [] }: FactOptions,
  seed: number,
  families: readonly FamilyInfo[],
): void {
  check(
    Number.isSafeInteger(seed) && seed >= -1,
    () => `${name}: ${name} must be an integer ≥ −1, got ${showValue(seed)}`,
  );
  check(HINTS.includes(hints), () => `${name}: hints must be one of ${HINTS.join(", ")}, got ${showValue(hints)}`);
  check(
    facts === "true" || facts === "random",
    () => `${name}: facts must be "true" or "random", got ${showValue(facts)}`,
  );
  const names = families.map((family) => family.name);
  const isKnown = Array.isArray(rewarded) && rewarded.every((one: string) => names.includes(one));
  check(isKnown, () => `${name}: rewarded must be a list of ${names.join(", ")}, got ${showValue(rewarded)}`);
}

/** The reward of an ending. */
export const rewardOf = (score: number, { rewarded }: FactOptions, { name }: FamilyInfo): number =>
  rewarded === undefined || rewarded.includes(name) ? score : 0;

/**
 * Of the kinds of questions about a subject, the half that is never asked about it in training, others for each subject: so each fact
 * is needed both for what training asks and for what it does not.
 *
 * @param rng a stream of the subject's own @param kinds an even number
 */
export const heldOutKinds = (rng: Rng, kinds: readonly string[]): readonly string[] =>
  rng.shuffle(kinds).slice(0, kinds.length / 2);

/** What goes with each of `what`: each of `among` as often as any other, or once more, so that no guess is better than another. */
export function dealt(rng: Rng, what: readonly string[], among: readonly string[]): ReadonlyMap<string, string> {
  const order = rng.shuffle(among);
  return new Map(rng.shuffle(what).map((one, k) => [one, order[k % order.length]!]));
}

/** Worlds that were asked for last: training plays in one, and demonstrations come from thousands. */
const KEPT = 8;

/** `make`, which gives the same world for the same seed and size, with a short memory. */
export function remembered<World>(make: (seed: number, size: number) => World): (seed: number, size: number) => World {
  const known = new Map<string, World>();
  return (seed, size) => {
    const key = `${seed}/${size}`;
    const world = known.get(key) ?? make(seed, size);
    if (!known.has(key) && known.size >= KEPT) known.clear();
    known.set(key, world);
    return world;
  };
}
