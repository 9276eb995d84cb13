/**
 * The facts of a castle: which word opens the passage from one room to another, in which room each chest stands, which
 * key turns in it, and which things lie in it. They follow from one seed and never change. The names are the same in
 * all castles. Every word leads from every room to another one, and the other one is drawn for each room by itself.
 */
import { Rng } from "../../engine/random.ts";
import { dealt, remembered } from "../facts/world.ts";
import { nameMaker } from "../words.ts";

export interface CastleNames {
  readonly rooms: readonly string[];
  /** Words of passage. Each room has one passage for each word, and there are fewer words than other rooms. */
  readonly words: readonly string[];
  readonly chests: readonly string[];
  readonly keys: readonly string[];
  readonly things: readonly string[];
}

/** Numbers of names in castles of each `size`. A room has two chests, so a thing's room does not tell its chest. */
const SIZES: readonly Readonly<Record<keyof CastleNames, number>>[] = [
  { rooms: 6, words: 4, chests: 12, keys: 4, things: 24 },
  { rooms: 10, words: 6, chests: 20, keys: 5, things: 40 },
  { rooms: 16, words: 8, chests: 32, keys: 8, things: 64 },
];

export interface Castle {
  readonly names: CastleNames;
  /** Room → room to which a passage leads from there → the word for it. */
  readonly passages: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** Chest → the room in which it stands. */
  readonly rooms: ReadonlyMap<string, string>;
  /** Chest → the key that turns in it. */
  readonly keys: ReadonlyMap<string, string>;
  /** Thing → the chest in which it lies. */
  readonly chests: ReadonlyMap<string, string>;
}

const namesBySize = remembered((_seed, size): CastleNames => {
  const [few, most] = [SIZES[size - 1]!, SIZES.at(-1)!];
  const next = nameMaker(new Rng(0).split("castle/names"));
  // All are drawn for the largest castle, so that what a name means does not depend on the size.
  const some = (kind: keyof CastleNames): readonly string[] =>
    Array.from({ length: most[kind] }, next).slice(0, few[kind]);
  return {
    rooms: some("rooms"),
    words: some("words"),
    chests: some("chests"),
    keys: some("keys"),
    things: some("things"),
  };
});

/** The names, which are the same in all castles. @param size from 1 to 3 */
export const namesOf = (size: number): CastleNames => namesBySize(0, size);

/** The castle of this seed. @param seed an integer ≥ 0 @param size from 1 to 3 */
export const castleOf: (seed: number, size: number) => Castle = remembered((seed, size) => {
  const names = namesOf(size);
  const rng = new Rng(seed).split("castle/facts");
  const { rooms, words, keys } = names;
  const draws = {
    passages: rng.split("passages"),
    rooms: rng.split("rooms"),
    keys: rng.split("keys"),
    things: rng.split("things"),
  };
  // One passage of each room follows a round through all of them, so that every room can be reached from every other.
  const round = rng.split("round").shuffle(rooms);
  const passagesFrom = (room: string, next: string): ReadonlyMap<string, string> => {
    const others = rooms.filter((other) => other !== room && other !== next);
    const targets = [next, ...draws.passages.shuffle(others)].slice(0, words.length);
    const spoken = draws.passages.shuffle(words);
    return new Map(targets.map((target, k) => [target, spoken[k]!]));
  };
  return {
    names,
    passages: new Map(round.map((room, k) => [room, passagesFrom(room, round[(k + 1) % round.length]!)])),
    rooms: dealt(draws.rooms, names.chests, rooms),
    keys: dealt(draws.keys, names.chests, keys),
    chests: dealt(draws.things, names.things, names.chests),
  };
});

/** The room to which a word leads from a room; undefined if it is no word of passage. */
export const roomBehind = ({ passages }: Castle, room: string, word: string): string | undefined =>
  [...passages.get(room)!].find(([, spoken]) => spoken === word)?.[0];

/** The rooms of a shortest way, without the first. The way from a room to itself is empty. */
export function wayBetween({ passages }: Castle, from: string, to: string): readonly string[] {
  const ways = new Map<string, readonly string[]>([[from, []]]);
  for (const [room, way] of ways) {
    if (room === to) return way;
    for (const next of passages.get(room)!.keys()) if (!ways.has(next)) ways.set(next, [...way, next]);
  }
  return [];
}
