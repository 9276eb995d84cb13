/**
 * The common part of environments of unknown facts (`home`, `castle`), beside their options and hints: the pairs of a
 * fact and a kind of question that are kept for held-out tasks, and worlds that follow from a seed. Such a world stays
 * the same for a whole run, no task states its facts, and no demonstration shows them, so that only its answers tell
 * them.
 *
 * Not here: the facts of a world, and the questions about them.
 */
import type { Rng } from "../../engine/index.ts";
import type { FamilyInfo } from "../../rl/environment.ts";
import type { Ending } from "../game.ts";

/** The reward of an ending: its score if its family pays, and else 0. */
export const rewardOf = (
  { score }: Ending,
  { rewarded }: { readonly rewarded: readonly string[] | undefined },
  { family }: { family: FamilyInfo },
): number => (rewarded === undefined || rewarded.includes(family.name) ? score : 0);

/**
 * The half of the kinds of questions about a subject that training never asks about it. It is another half for each
 * subject, so each fact is needed both for what training asks and for what it does not ask.
 *
 * @param rng a stream of the subject's own @param kinds an even number
 */
export const heldOutKinds = (rng: Rng, kinds: readonly string[]): readonly string[] =>
  rng.shuffle(kinds).slice(0, kinds.length / 2);

/**
 * Deals one of `among` to each of `what`. The counts of any two of `among` differ by at most 1, so no guess is better
 * than another.
 */
export function dealt(rng: Rng, what: readonly string[], among: readonly string[]): ReadonlyMap<string, string> {
  const order = rng.shuffle(among);
  return new Map(rng.shuffle(what).map((one, k) => [one, order[k % order.length]!]));
}

/** Worlds that are kept in memory: training plays in one, and demonstrations come from thousands. */
const KEPT = 8;

/** `make` with a short memory of the worlds that it has made. */
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
