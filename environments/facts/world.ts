/**
 * What worlds of unknown facts (`home`, `castle`) have in common beside their options and hints: which pairs of a fact
 * and a kind of question are kept for held-out tasks, and that a world follows from a seed. Such a world stays the same
 * for a whole run, no task states its facts, and no demonstration shows them, so that only its answers tell them.
 *
 * Not here: what a world's facts are, and what is asked about them.
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
 * Deals one of `among` to each of `what`. No two of `among` are dealt more than one time apart, so no guess is better
 * than another.
 */
export function dealt(rng: Rng, what: readonly string[], among: readonly string[]): ReadonlyMap<string, string> {
  const order = rng.shuffle(among);
  return new Map(rng.shuffle(what).map((one, k) => [one, order[k % order.length]!]));
}

/** How many worlds are kept: training plays in one, and demonstrations come from thousands. */
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
