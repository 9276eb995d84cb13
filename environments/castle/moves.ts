/**
 * What the actions of a castle do. A word of passage always leads somewhere: who meant another room finds himself
 * elsewhere, and the answer says where. A key that is wrong does not turn, and nothing has changed. Nothing throws,
 * whatever the action.
 */
import type { Rng } from "../../engine/index.ts";
import { type Drawn, type Fact, hintAbout, keysOf, quoted, type Wording } from "../facts/hints.ts";
import { readCommand } from "../actions.ts";
import type { Ending, Move } from "../game.ts";
import { rewardOf } from "../facts/world.ts";
import { roomBehind, wayBetween } from "./facts.ts";
import type { CastleEpisode, CastleState, CastleTask, Step } from "./episode.ts";
import { commandOf, subjectOf } from "./tasks.ts";

type FactKind = "word" | "key" | "chest";

/** How answers put facts; those about words are about the room that was left. */
const WORDS: Readonly<Record<FactKind, Wording>> = {
  word: { statement: "is reached by", reverse: "leads to", ofTried: "leads to" },
  key: { statement: "opens with", reverse: "opens", ofTried: "opens" },
  chest: { statement: "is in", reverse: "has", ofTried: "has" },
};

/** The most characters of an agent's word that an answer repeats: as many as a name has. */
const LONGEST = 6;

/** What an action did, and, if it had one of them wrong, the facts that it needs. */
interface Answer {
  readonly said: string;
  readonly changed?: Partial<CastleState>;
  readonly failed?: boolean;
  readonly facts?: readonly Fact<FactKind>[];
  /** Entropy of what is said in nats; default 0. */
  readonly entropy?: number;
}

export const startOf = ({ start }: CastleTask): CastleState => ({
  at: start,
  page: start,
  entered: [],
  deeds: [],
});

/** Plays one action. */
export function play({ task, state, options, turns }: CastleEpisode, action: string): Move<CastleState> {
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

/** What follows each verb. The words in capitals stand for names. */
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
 * A key is turned in a chest: what follows if all is right, or what is wrong first.
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
 * Somebody goes from `from`, meaning to get to `meant`, by a word. Where facts are random, so is where a word leads
 * that does not lead where it was meant to: else such answers could be predicted, and would tell what leads where.
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

/** Where facts are random: what statements are drawn from. Where the word has led is true, for it was drawn, too. */
function drawnIn({ castle }: CastleTask, facts: readonly Fact<FactKind>[]): Drawn<FactKind> {
  const { words, keys, chests, things } = castle.names;
  return {
    word: { rights: words, ofTried: facts[0]?.goesWithTried ?? [] },
    key: { rights: keys, ofTried: chests },
    chest: { rights: chests, ofTried: things },
  };
}

/** How things have to stand in the end. */
function goalOf({ start, steps }: CastleTask): Pick<CastleState, "at" | "page" | "deeds"> {
  const entered = steps.flatMap((step) => (step.verb === "go" ? [step.to] : []));
  const sent = steps.flatMap((step) => (step.verb === "send" ? [step.to] : []));
  const deeds = steps.flatMap((step) => ("to" in step ? [] : [deedOf(step)]));
  return { at: entered.at(-1) ?? start, page: sent.at(-1) ?? start, deeds };
}
const deedOf = (step: Exclude<Step, { verb: "go" | "send" }>): string => `${step.verb} ${subjectOf(step)}`;

const isDone = (step: Step, { page, entered, deeds }: CastleState): boolean =>
  "to" in step ? (step.verb === "go" ? entered.includes(step.to) : page === step.to) : deeds.includes(deedOf(step));

export const stepsDone = ({ steps }: CastleTask, state: CastleState): number =>
  steps.filter((step) => isDone(step, state)).length;

/** A task is solved if all is done that was asked for and nothing else has changed; detours do no harm. */
function endingOf(task: CastleTask, state: CastleState): Ending {
  const goal = goalOf(task);
  const isElseAsItWas = state.deeds.length === goal.deeds.length && state.at === goal.at && state.page === goal.page;
  return { kind: "done", score: stepsDone(task, state) === task.steps.length && isElseAsItWas ? 1 : 0 };
}

/**
 * The expert's next action: the first step that has not been done, by a shortest way from wherever it is; `done` if all
 * is spoilt.
 */
export function nextAction({ task, state }: CastleEpisode): string {
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
