/**
 * What is asked in a castle, in which steps it is done, and which pairs of a subject and a verb are kept for held-out
 * tasks.
 */
import { Rng } from "../../engine/index.ts";
import type { FamilyInfo } from "../environment.ts";
import { factFields, heldOutKinds, WORLD_SEED } from "../facts/options.ts";
import type { GameTask } from "../game.ts";
import type { OptionsWith, SettledOptions } from "../options.ts";
import { drawUntil } from "../selection.ts";
import { type Castle, type CastleNames, castleOf } from "./facts.ts";

/**
 * One thing to be done: go through a passage or send the page, open or seal a chest, take or clean a thing that lies in
 * one.
 */
export type Step =
  | { readonly verb: "go" | "send"; readonly from: string; readonly to: string }
  | { readonly verb: "open" | "seal"; readonly chest: string }
  | { readonly verb: "take" | "clean"; readonly thing: string };

/** Verbs of one row have the same kind of subject: one is for training and one is held out, others for each subject. */
const VERBS: readonly (readonly Step["verb"][])[] = [
  ["go", "send"],
  ["open", "seal"],
  ["take", "clean"],
];

export interface CastleTask extends GameTask {
  readonly family: CastleFamily;
  readonly castle: Castle;
  /** The room in which the agent and the page are at first. */
  readonly start: string;
  readonly steps: readonly Step[];
  /** Where facts are random: what draws the statements of answers, and where wrong words lead. */
  readonly liar: Rng | undefined;
}

/** What a family draws; `asked` follows `You are in ROOM. ` in the task's text. */
interface Draft {
  readonly start: string;
  readonly steps: readonly Step[];
  readonly asked: string;
}

/** A kind of question. */
export interface CastleFamily extends FamilyInfo {
  readonly draw: (rng: Rng, castle: Castle) => Draft;
}

/** A room to which a passage leads from here. */
const exitOf = ({ passages }: Castle, room: string, rng: Rng, except?: string): string =>
  rng.choice([...passages.get(room)!.keys()].filter((other) => other !== except));
/** A room from which a passage leads here. There is one, because a round of passages joins all rooms (facts.ts). */
const entryOf = ({ passages, names }: Castle, room: string, rng: Rng): string =>
  rng.choice(names.rooms.filter((other) => passages.get(other)!.has(room)));
/** The room in which a thing lies. */
const roomOf = ({ rooms, chests }: Castle, thing: string): string => rooms.get(chests.get(thing)!)!;
const go = (from: string, to: string): Step => ({ verb: "go", from, to });

const aboutPassage = (verb: "go" | "send", asked: string): CastleFamily["draw"] => {
  return (rng, castle) => {
    const from = rng.choice(castle.names.rooms);
    const to = exitOf(castle, from, rng);
    return { start: from, steps: [{ verb, from, to }], asked: `${asked} ${to}` };
  };
};
const aboutChest = (verb: "open" | "seal", asked: string): CastleFamily["draw"] => {
  return (rng, { names, rooms }) => {
    const chest = rng.choice(names.chests);
    return { start: rooms.get(chest)!, steps: [{ verb, chest }], asked: `${asked} ${chest}` };
  };
};
const aboutThing = (verb: "take" | "clean", asked: string): CastleFamily["draw"] => {
  return (rng, castle) => {
    const thing = rng.choice(castle.names.things);
    return { start: roomOf(castle, thing), steps: [{ verb, thing }], asked: `${asked} ${thing}` };
  };
};

/** All families, easiest first. The level is how many facts of the castle a task needs. */
export const FAMILIES: readonly CastleFamily[] = [
  { name: "go", level: 1, description: "go to a room: the word for it in this one", draw: aboutPassage("go", "Go to") },
  {
    name: "send",
    level: 1,
    description: "send the page to a room: the word for it in this one",
    draw: aboutPassage("send", "Send the page to"),
  },
  { name: "open", level: 1, description: "open a chest in this room: its key", draw: aboutChest("open", "Open") },
  { name: "seal", level: 1, description: "seal a chest in this room: its key", draw: aboutChest("seal", "Seal") },
  {
    name: "take",
    level: 2,
    description: "take a thing in this room: its chest, and the key of that",
    draw: aboutThing("take", "Take"),
  },
  {
    name: "clean",
    level: 2,
    description: "clean a thing in this room: its chest, and the key of that",
    draw: aboutThing("clean", "Clean"),
  },
  {
    name: "cross",
    level: 2,
    description: "go to a room and on to another: a word in each of two rooms",
    draw(rng, castle) {
      const start = rng.choice(castle.names.rooms);
      const middle = exitOf(castle, start, rng);
      const end = exitOf(castle, middle, rng, start);
      return { start, steps: [go(start, middle), go(middle, end)], asked: `Go to ${middle}, then to ${end}` };
    },
  },
  {
    name: "visit",
    level: 2,
    description: "open a chest in another room: the word for that, and the key",
    draw(rng, castle) {
      const chest = rng.choice(castle.names.chests);
      const room = castle.rooms.get(chest)!;
      const start = entryOf(castle, room, rng);
      return { start, steps: [go(start, room), { verb: "open", chest }], asked: `Go to ${room} and open ${chest}` };
    },
  },
  {
    name: "fetch",
    level: 3,
    description: "take a thing in another room: the word for that, the chest, and its key",
    draw(rng, castle) {
      const thing = rng.choice(castle.names.things);
      const room = roomOf(castle, thing);
      const start = entryOf(castle, room, rng);
      return { start, steps: [go(start, room), { verb: "take", thing }], asked: `Go to ${room} and take ${thing}` };
    },
  },
  {
    name: "bring",
    level: 4,
    description: "take a thing from one room to another: a word in each of two rooms, the chest, and its key",
    draw(rng, castle) {
      const thing = rng.choice(castle.names.things);
      const room = roomOf(castle, thing);
      const start = entryOf(castle, room, rng);
      const end = exitOf(castle, room, rng, start);
      const steps: Step[] = [go(start, room), { verb: "take", thing }, go(room, end)];
      return { start, steps, asked: `Bring ${thing} from ${room} to ${end}` };
    },
  },
];

export const CASTLE = { castle: WORLD_SEED, ...factFields(FAMILIES) };
/**
 * Options of `castle`, beside `EnvironmentOptions`: the seed of the `castle` (default 0; −1: each episode has a castle
 * of its own), its `size` (1), the `hints` of its answers (`suggestion`), whether the `facts` that they state are
 * `true` or `random` (`true`), and the families that are `rewarded` (all).
 */
export type CastleOptions = OptionsWith<typeof CASTLE>;

/** What a step is about: a passage, a chest or a thing. */
export const subjectOf = (step: Step): string =>
  "to" in step ? `${step.from} ${step.to}` : "chest" in step ? step.chest : step.thing;

/**
 * Is this verb never asked for in training about this subject? One of its two is, so that training needs every fact.
 */
export function isHeldOutPair(subject: string, verb: Step["verb"]): boolean {
  const alike = VERBS.find((verbs) => verbs.includes(verb))!;
  return heldOutKinds(new Rng(0).split("castle/pairs").split(subject), alike).includes(verb);
}

/** The one command that does a step. */
export function commandOf(step: Step, { passages, keys, chests }: Castle): string {
  if ("to" in step) {
    const who = step.verb === "go" ? "go" : "send page";
    return `${who} to ${step.to} by ${passages.get(step.from)!.get(step.to)!}`;
  }
  if ("chest" in step) return `${step.verb} ${step.chest} with ${keys.get(step.chest)!}`;
  const chest = chests.get(step.thing)!;
  return `${step.verb} ${step.thing} in ${chest} with ${keys.get(chest)!}`;
}

/** Makes a task, all of whose pairs are of its split; the same stream and options give the same task. */
export function makeTask(rng: Rng, family: CastleFamily, options: SettledOptions<typeof CASTLE>): CastleTask {
  const { size, castle: seed, split, facts } = options;
  const castle = castleOf(seed < 0 ? rng.int(2 ** 31) : seed, size);
  // In a castle of one episode all may be asked: demonstrations show every name in every kind of question.
  const fits = (step: Step): boolean => seed < 0 || isHeldOutPair(subjectOf(step), step.verb) === (split === "heldout");
  const { start, steps, asked } = drawUntil("castle", () => {
    const draft = family.draw(rng, castle);
    return draft.steps.every(fits) ? draft : undefined;
  });
  const liar = facts === "random" ? rng.split("liar") : undefined;
  return { family, castle, start, steps, liar, text: `You are in ${start}. ${asked}` };
}

/**
 * The commands that a task's text speaks of, with the names that it tells, and everything else guessed; empty for other
 * text.
 */
export function guessesFor(text: string, rng: Rng, { words, chests, keys }: CastleNames): readonly string[] {
  const mover = /\bsend\b/i.test(text) ? "send page" : "go";
  return [...text.matchAll(/\b(to|from|open|seal|take|clean|bring) ([a-z]{6})\b/gi)].map(([, said, name]) => {
    const verb = said!.toLowerCase();
    if (verb === "to" || verb === "from") return `${mover} to ${name} by ${rng.choice(words)}`;
    if (verb === "open" || verb === "seal") return `${verb} ${name} with ${rng.choice(keys)}`;
    return `${verb === "bring" ? "take" : verb} ${name} in ${rng.choice(chests)} with ${rng.choice(keys)}`;
  });
}
