/**
 * What is asked in a castle, in which steps it is done, and which pairs of a subject and a verb are kept for held-out
 * tasks.
 */
import { Rng } from "../../engine/random.ts";
import { heldOutKinds } from "../facts/world.ts";
import type { SettledOptions } from "../options.ts";
import { drawUntil } from "../selection.ts";
import type { CASTLE, CastleFamily, CastleTask, Step } from "./episode.ts";
import { type Castle, type CastleNames, castleOf } from "./facts.ts";

/** Verbs of one row have the same kind of subject: one is for training and one is held out, others for each subject. */
const VERBS: readonly (readonly Step["verb"][])[] = [
  ["go", "send"],
  ["open", "seal"],
  ["take", "clean"],
];

/** What a family draws; `asked` follows `You are in ROOM. ` in the task's text. */
interface Draft {
  readonly start: string;
  readonly steps: readonly Step[];
  readonly asked: string;
}

type Draw = (rng: Rng, castle: Castle) => Draft;

/** A room to which a passage leads from here. */
const exitOf = ({ passages }: Castle, room: string, rng: Rng, except?: string): string =>
  rng.choice([...passages.get(room)!.keys()].filter((other) => other !== except));
/** A room from which a passage leads here. There is one, because a round of passages joins all rooms (facts.ts). */
const entryOf = ({ passages, names }: Castle, room: string, rng: Rng): string =>
  rng.choice(names.rooms.filter((other) => passages.get(other)!.has(room)));
/** The room in which a thing lies. */
const roomOf = ({ rooms, chests }: Castle, thing: string): string => rooms.get(chests.get(thing)!)!;
const go = (from: string, to: string): Step => ({ verb: "go", from, to });

const aboutPassage = (verb: "go" | "send", asked: string): Draw => {
  return (rng, castle) => {
    const from = rng.choice(castle.names.rooms);
    const to = exitOf(castle, from, rng);
    return { start: from, steps: [{ verb, from, to }], asked: `${asked} ${to}` };
  };
};
const aboutChest = (verb: "open" | "seal", asked: string): Draw => {
  return (rng, { names, rooms }) => {
    const chest = rng.choice(names.chests);
    return { start: rooms.get(chest)!, steps: [{ verb, chest }], asked: `${asked} ${chest}` };
  };
};
const aboutThing = (verb: "take" | "clean", asked: string): Draw => {
  return (rng, castle) => {
    const thing = rng.choice(castle.names.things);
    return { start: roomOf(castle, thing), steps: [{ verb, thing }], asked: `${asked} ${thing}` };
  };
};

/** What each family draws. */
const DRAWS: Readonly<Record<CastleFamily["name"], Draw>> = {
  go: aboutPassage("go", "Go to"),
  send: aboutPassage("send", "Send the page to"),
  open: aboutChest("open", "Open"),
  seal: aboutChest("seal", "Seal"),
  take: aboutThing("take", "Take"),
  clean: aboutThing("clean", "Clean"),
  cross(rng, castle) {
    const start = rng.choice(castle.names.rooms);
    const middle = exitOf(castle, start, rng);
    const end = exitOf(castle, middle, rng, start);
    return { start, steps: [go(start, middle), go(middle, end)], asked: `Go to ${middle}, then to ${end}` };
  },
  visit(rng, castle) {
    const chest = rng.choice(castle.names.chests);
    const room = castle.rooms.get(chest)!;
    const start = entryOf(castle, room, rng);
    return { start, steps: [go(start, room), { verb: "open", chest }], asked: `Go to ${room} and open ${chest}` };
  },
  fetch(rng, castle) {
    const thing = rng.choice(castle.names.things);
    const room = roomOf(castle, thing);
    const start = entryOf(castle, room, rng);
    return { start, steps: [go(start, room), { verb: "take", thing }], asked: `Go to ${room} and take ${thing}` };
  },
  bring(rng, castle) {
    const thing = rng.choice(castle.names.things);
    const room = roomOf(castle, thing);
    const start = entryOf(castle, room, rng);
    const end = exitOf(castle, room, rng, start);
    const steps: Step[] = [go(start, room), { verb: "take", thing }, go(room, end)];
    return { start, steps, asked: `Bring ${thing} from ${room} to ${end}` };
  },
};

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
    const draft = DRAWS[family.name](rng, castle);
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
