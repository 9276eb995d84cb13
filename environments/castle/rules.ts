/**
 * The tasks of `castle` and their steps, the pairs of a subject and a verb that are kept for held-out tasks, the
 * actions, and the scripted players. It is loaded later: it imports no value of ../game.ts.
 *
 * A word of passage always leads somewhere: with the wrong word the agent gets to another room, and the answer says
 * which. A wrong key does not turn, and nothing changes. No action throws.
 */
import { Rng } from "../../engine/random.ts";
import { readCommand } from "../actions.ts";
import { type Drawn, type Fact, hintAbout, keysOf, quoted, type Wording } from "../facts/hints.ts";
import { heldOutKinds, rewardOf } from "../facts/world.ts";
import type { Ending, GameRules, Move } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import { drawUntil } from "../selection.ts";
import type { CASTLE, CastleEpisode, CastleFamily, CastleState, CastleTask, Step } from "./episode.ts";
import { type Castle, type CastleNames, castleOf, namesOf, roomBehind, wayBetween } from "./facts.ts";

/** Verbs of one row have the same kind of subject. Each subject has one of them in training; the other is held out. */
const VERBS: readonly (readonly Step["verb"][])[] = [
  ["go", "send"],
  ["open", "seal"],
  ["take", "clean"],
];

/** A drawn task; `asked` follows `You are in ROOM. ` in the task's text. */
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

/** The words of a task before the name of what each verb is about. */
const ASKED: Readonly<Record<Step["verb"], string>> = {
  go: "Go to",
  send: "Send the page to",
  open: "Open",
  seal: "Seal",
  take: "Take",
  clean: "Clean",
};

/** The task of one step, where it can be done at once. */
export function draftOf(step: Step, castle: Castle): Draft {
  const named = "to" in step ? step.to : subjectOf(step);
  const asked = `${ASKED[step.verb]} ${named}`;
  const start = "to" in step ? step.from : "chest" in step ? castle.rooms.get(step.chest)! : roomOf(castle, step.thing);
  return { start, steps: [step], asked };
}

const aboutPassage = (verb: "go" | "send"): Draw => {
  return (rng, castle) => {
    const from = rng.choice(castle.names.rooms);
    return draftOf({ verb, from, to: exitOf(castle, from, rng) }, castle);
  };
};
const aboutChest = (verb: "open" | "seal"): Draw => {
  return (rng, castle) => draftOf({ verb, chest: rng.choice(castle.names.chests) }, castle);
};
const aboutThing = (verb: "take" | "clean"): Draw => {
  return (rng, castle) => draftOf({ verb, thing: rng.choice(castle.names.things) }, castle);
};

/** The generator of each family's steps. */
const DRAWS: Readonly<Record<CastleFamily["name"], Draw>> = {
  go: aboutPassage("go"),
  send: aboutPassage("send"),
  open: aboutChest("open"),
  seal: aboutChest("seal"),
  take: aboutThing("take"),
  clean: aboutThing("clean"),
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

/** The subject of a step: a passage, a chest or a thing. */
export const subjectOf = (step: Step): string =>
  "to" in step ? `${step.from} ${step.to}` : "chest" in step ? step.chest : step.thing;

/**
 * Whether training never asks for this verb about this subject. It asks for the other one, so that it needs every fact.
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

/** The text of a task. */
export const textOf = ({ start, asked }: Pick<Draft, "start" | "asked">): string => `You are in ${start}. ${asked}`;

/** Makes a task, all of whose pairs are of its split; the same stream and options give the same task. */
export function makeTask(rng: Rng, family: CastleFamily, options: SettledOptions<typeof CASTLE>): CastleTask {
  const { size, castle: seed, split, facts } = options;
  const castle = castleOf(seed < 0 ? rng.int(2 ** 31) : seed, size);
  // In a castle of one episode no pair is held out: demonstrations show every name in every kind of question.
  const fits = (step: Step): boolean => seed < 0 || isHeldOutPair(subjectOf(step), step.verb) === (split === "heldout");
  const { start, steps, asked } = drawUntil("castle", () => {
    const draft = DRAWS[family.name](rng, castle);
    return draft.steps.every(fits) ? draft : undefined;
  });
  const liar = facts === "random" ? rng.split("liar") : undefined;
  return { family, castle, start, steps, liar, text: textOf({ start, asked }) };
}

/**
 * The commands that a task's text asks for, with the names that it gives, and guesses for the rest; empty for other
 * text.
 */
function guessesFor(text: string, rng: Rng, { words, chests, keys }: CastleNames): readonly string[] {
  const mover = /\bsend\b/i.test(text) ? "send page" : "go";
  return [...text.matchAll(/\b(to|from|open|seal|take|clean|bring) ([a-z]{6})\b/gi)].map(([, said, name]) => {
    const verb = said!.toLowerCase();
    if (verb === "to" || verb === "from") return `${mover} to ${name} by ${rng.choice(words)}`;
    if (verb === "open" || verb === "seal") return `${verb} ${name} with ${rng.choice(keys)}`;
    return `${verb === "bring" ? "take" : verb} ${name} in ${rng.choice(chests)} with ${rng.choice(keys)}`;
  });
}

type FactKind = "word" | "key" | "chest";

/** Wordings of facts in answers; facts about words are about the room that was left. */
const WORDS: Readonly<Record<FactKind, Wording>> = {
  word: { statement: "is reached by", reverse: "leads to", ofTried: "leads to" },
  key: { statement: "opens with", reverse: "opens", ofTried: "opens" },
  chest: { statement: "is in", reverse: "has", ofTried: "has" },
};

/** The most characters of an agent's word that an answer repeats: as many as a name has. */
const LONGEST = 6;

/** The result of an action and, if it had a fact wrong, the facts that it needs. */
interface Answer {
  readonly said: string;
  readonly changed?: Partial<CastleState>;
  readonly failed?: boolean;
  readonly facts?: readonly Fact<FactKind>[];
  /** Entropy of what is said in nats; default 0. */
  readonly entropy?: number;
}

const startOf = ({ start }: CastleTask): CastleState => ({
  at: start,
  page: start,
  entered: [],
  deeds: [],
});

/** Plays one action. */
function play({ task, state, options, turns }: CastleEpisode, action: string): Move<CastleState> {
  const { hints } = options;
  const [verb, rest] = readCommand(action);
  if (verb === "done" && rest === "") {
    const ending = endingOf(task, state);
    return { observation: "", entropy: 0, ending, reward: rewardOf(ending, options, task) };
  }
  const liar = task.liar?.split(turns);
  const { said, changed = {}, failed = false, facts = [], entropy = 0 } = answerTo(task, state, verb, rest, liar);
  const stated = hintAbout(hints, facts, WORDS, liar && { liar, drawn: drawnIn(task, facts) });
  return {
    observation: said + stated.hint,
    entropy: entropy + stated.entropy,
    failed,
    state: { ...state, ...changed },
  };
}

/** The form of what follows each verb; words in capitals stand for names. */
const FORMS = {
  go: "to ROOM by WORD",
  send: "page to ROOM by WORD",
  open: "CHEST with KEY",
  seal: "CHEST with KEY",
  take: "THING in CHEST with KEY",
  clean: "THING in CHEST with KEY",
} as const satisfies Record<Step["verb"], string>;
const isVerb = (verb: string): verb is Step["verb"] => Object.hasOwn(FORMS, verb);

/** The names in a text of this form; undefined for any other text. */
function namesIn(text: string, form: string): readonly string[] | undefined {
  const [words, slots] = [text.split(" "), form.split(" ")];
  const fits =
    words.length === slots.length && slots.every((slot, i) => slot === slot.toUpperCase() || slot === words[i]);
  return fits ? words.filter((_, i) => slots[i] === slots[i]!.toUpperCase()) : undefined;
}

function answerTo(task: CastleTask, state: CastleState, verb: string, rest: string, liar: Rng | undefined): Answer {
  if (!isVerb(verb)) return { said: "unknown action; use go, send, open, seal, take, clean or done", failed: true };
  const [name, ...more] = namesIn(rest, FORMS[verb]) ?? [];
  if (name === undefined) return { said: `use ${verb} ${FORMS[verb]}`, failed: true };
  const { at, page, entered, deeds } = state;
  const deed = `${verb} ${name}`;
  const changed = { deeds: deeds.includes(deed) ? deeds : [...deeds, deed] };
  switch (verb) {
    case "go":
      return pass(task, at, name, more[0]!, liar, (room) => ({
        said: `you are in ${room}`,
        changed: { at: room, entered: [...entered, room] },
      }));
    case "send":
      if (page !== at) return { said: "the page is not here", failed: true };
      return pass(task, at, name, more[0]!, liar, (room) => ({
        said: `the page is in ${room}`,
        changed: { page: room },
      }));
    case "open":
    case "seal": {
      const needed = task.castle.keys.has(name) ? [keyOf(name, more[0]!, task)] : [];
      return unlock(task, at, name, more, needed, {
        said: `${name} is ${verb === "open" ? "open" : "sealed"}`,
        changed,
      });
    }
    case "take":
    case "clean": {
      const chest = deeds.includes(`take ${name}`) ? undefined : task.castle.chests.get(name);
      if (chest === undefined) return { said: "no such thing", failed: true };
      const needed = [chestOf(name, chest, more[0]!, task), keyOf(chest, more[1]!, task)];
      const said = verb === "take" ? `you have ${name}` : `${name} is clean`;
      return unlock(task, at, chest, more, needed, { said, changed });
    }
  }
}

const chestOf = (thing: string, right: string, tried: string, { castle }: CastleTask): Fact<FactKind> => {
  const goesWithTried = keysOf(castle.chests, tried);
  return { kind: "chest", known: thing, right, tried: quoted(tried, LONGEST), goesWithTried, word: "in" };
};
const keyOf = (chest: string, tried: string, { castle }: CastleTask): Fact<FactKind> => {
  const goesWithTried = keysOf(castle.keys, tried);
  const right = castle.keys.get(chest)!;
  return { kind: "key", known: chest, right, tried: quoted(tried, LONGEST), goesWithTried, word: "with" };
};

/**
 * The answer to a key turned in a chest: `opened` if all is right, else what is wrong first.
 * @param tried what the command has in the place of each of the facts
 */
function unlock(
  { castle }: CastleTask,
  at: string,
  chest: string,
  tried: readonly string[],
  needed: readonly Fact<FactKind>[],
  opened: Answer,
): Answer {
  const wrong = needed.find(({ right }, k) => right !== tried[k]);
  if (wrong?.kind === "chest") return { said: `no ${wrong.known} in ${wrong.tried}`, failed: true, facts: needed };
  if (castle.rooms.get(chest) !== at) return { said: "no such chest here", failed: true };
  return wrong ? { said: `${wrong.tried} does not turn`, failed: true, facts: needed } : opened;
}

/**
 * A move from `from` to `meant` by a word. If facts are random, a wrong word leads to a random room: else such answers
 * could be predicted, and would tell what leads where.
 */
function pass(
  { castle }: CastleTask,
  from: string,
  meant: string,
  word: string,
  liar: Rng | undefined,
  arrive: (room: string) => Answer,
): Answer {
  const right = castle.passages.get(from)!.get(meant);
  if (word === right) return arrive(meant);
  const behind = roomBehind(castle, from, word);
  const others = castle.names.rooms.filter((room) => room !== from && room !== meant);
  const room = behind && (liar?.choice(others) ?? behind);
  const entropy = room !== undefined && liar ? Math.log(others.length) : 0;
  const answer = room === undefined ? { said: "no such way", failed: true } : { ...arrive(room), entropy };
  if (right === undefined) return answer;
  const goesWithTried = room === undefined ? [] : [room];
  const tried = quoted(word, LONGEST);
  return { ...answer, facts: [{ kind: "word", known: meant, right, tried, goesWithTried, word: "by" }] };
}

/** The names from which statements are drawn, if facts are random. The room reached stays: it was drawn, too. */
function drawnIn({ castle }: CastleTask, facts: readonly Fact<FactKind>[]): Drawn<FactKind> {
  const { words, keys, chests, things } = castle.names;
  return {
    word: { rights: words, ofTried: facts[0]?.goesWithTried ?? [] },
    key: { rights: keys, ofTried: chests },
    chest: { rights: chests, ofTried: things },
  };
}

/** The state that the task asks for. */
function goalOf({ start, steps }: CastleTask): Pick<CastleState, "at" | "page" | "deeds"> {
  const entered = steps.flatMap((step) => (step.verb === "go" ? [step.to] : []));
  const sent = steps.flatMap((step) => (step.verb === "send" ? [step.to] : []));
  const deeds = steps.flatMap((step) => ("to" in step ? [] : [deedOf(step)]));
  return { at: entered.at(-1) ?? start, page: sent.at(-1) ?? start, deeds };
}
const deedOf = (step: Exclude<Step, { verb: "go" | "send" }>): string => `${step.verb} ${subjectOf(step)}`;

const isDone = (step: Step, { page, entered, deeds }: CastleState): boolean =>
  "to" in step ? (step.verb === "go" ? entered.includes(step.to) : page === step.to) : deeds.includes(deedOf(step));

const stepsDone = ({ steps }: CastleTask, state: CastleState): number =>
  steps.filter((step) => isDone(step, state)).length;

/** A task is solved if all is done that was asked for and nothing else has changed; detours do no harm. */
function endingOf(task: CastleTask, state: CastleState): Ending {
  const goal = goalOf(task);
  const isElseAsItWas = state.deeds.length === goal.deeds.length && state.at === goal.at && state.page === goal.page;
  return { kind: "done", score: stepsDone(task, state) === task.steps.length && isElseAsItWas ? 1 : 0 };
}

/**
 * The expert's next action: the first step that has not been done, by a shortest way from wherever it is; `done` if the
 * task is spoilt.
 */
function nextAction({ task, state }: CastleEpisode): string {
  const { castle, steps } = task;
  const { at, page, deeds } = state;
  const goal = goalOf(task);
  if (deeds.some((deed) => !goal.deeds.includes(deed))) return "done";
  const walk = (verb: "go" | "send", to: string): string =>
    commandOf({ verb, from: at, to: wayBetween(castle, at, to)[0]! }, castle);
  const send = (to: string): string => (at === page ? walk("send", to) : walk("go", page));
  const step = steps.find((one) => !isDone(one, state));
  if (step && "to" in step) return step.verb === "go" ? walk("go", step.to) : send(step.to);
  if (step) {
    const room = castle.rooms.get("chest" in step ? step.chest : castle.chests.get(step.thing)!)!;
    return at === room ? commandOf(step, castle) : walk("go", room);
  }
  // The page may have gone astray although nobody was to send it, and the agent may have gone too far.
  if (page !== goal.page) return send(goal.page);
  return at === goal.at ? "done" : walk("go", goal.at);
}

/** A command of a form that the task needs, with its names, and with everything else drawn at random. */
function guess(rng: Rng, text: string, names: CastleNames): string {
  const { rooms, chests, things } = names;
  const guesses = guessesFor(text, rng, names);
  if (guesses.length > 0) return rng.choice(guesses);
  const subjects = { "go to": rooms, "send page to": rooms, open: chests, seal: chests, take: things, clean: things };
  const [verb, some] = rng.choice(Object.entries(subjects));
  return guessesFor(`${verb} ${rng.choice(some)}`, rng, names)[0]!;
}

export const rules: GameRules<typeof CASTLE, CastleFamily, CastleTask, CastleState> = {
  makeTask,
  start: startOf,
  play,
  expert: nextAction,
  random: (rng, text = "", { size }) => (rng.int(8) === 0 ? "done" : guess(rng, text, namesOf(size))),
  // It guesses, goes on if all went well, and else gives up: only what follows the guess is worth imitating.
  novice(episode, rng) {
    const { task, state, turns } = episode;
    if (turns === 0) return { action: guess(rng, task.text, task.castle.names), isGuess: true };
    return { action: stepsDone(task, state) === turns ? nextAction(episode) : "done", isGuess: false };
  },
};
