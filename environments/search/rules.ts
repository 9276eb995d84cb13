/**
 * The tasks of `search`, its answers and its scripted players. It is loaded later: it imports no value of ../game.ts.
 *
 * A question is a noun phrase that nests: "the mayor of the birthplace of lomika". Its answer is computed from the
 * generated facts, never from the expert's path, and does not stand in the question.
 */
import type { Rng } from "../../engine/index.ts";
import { parseCount, readCommand } from "../actions.ts";
import type { GameRules, Move, SIZED } from "../game.ts";
import type { SettledOptions } from "../options.ts";
import { drawUntil, isHeldOut } from "../selection.ts";
import { nameMaker, NAMES } from "../words.ts";
import { Corpus, type Kind, pageText, type Relation, RELATIONS, relationsOf } from "./corpus.ts";
import type { Hop, SEARCH, SearchEpisode, SearchFamily, SearchState, SearchTask } from "./episode.ts";

/** Results that a search shows. */
const RESULTS = 3;

interface Question {
  readonly phrase: string;
  readonly answer: string;
  /** The answer after the relation whose value it is, if it is one. */
  readonly cited?: string;
  readonly hops: readonly Hop[];
}

const byTitle = (title: string): Hop => ({ query: title, title });

function anyOf(corpus: Corpus, kind: Kind, rng: Rng, except = ""): string {
  return rng.choice(corpus.pages.filter((page) => page.kind === kind && page.title !== except)).title;
}

/** Extends a question by `depth` relations, one after the other, with a page to read after each but the last. */
function follow(corpus: Corpus, rng: Rng, question: Question, kind: Kind, depth: number): Question | undefined {
  const relations = relationsOf(kind).filter(({ to }) => depth === 1 || to !== "number");
  const relation = rng.choice(relations);
  const value = corpus.value(question.answer, relation);
  const asked = {
    ...question,
    phrase: `${relation.name} of the ${question.phrase}`,
    answer: value,
    cited: `${relation.name} ${value}`,
  };
  if (depth === 1) return asked;
  const read = { ...asked, hops: [...question.hops, byTitle(value)] };
  return follow(corpus, rng, read, relation.to as Kind, depth - 1);
}

/** "the R of the R of … of X", with `depth` relations and as many pages. */
function chain(corpus: Corpus, rng: Rng, depth: number): Question | undefined {
  const { title, kind } = rng.choice(corpus.pages);
  const question = follow(corpus, rng, { phrase: title, answer: title, hops: [byTitle(title)] }, kind, depth);
  return question && { ...question, phrase: question.phrase.replace(`the ${title}`, title) };
}

/** A question for the only thing of its kind that has a certain fact. Its page has to be found by its text. */
function reverse(corpus: Corpus, rng: Rng): { question: Question; kind: Kind } | undefined {
  const { title, kind } = rng.choice(corpus.pages);
  const relation = rng.choice(relationsOf(kind).filter(({ to }) => to !== "number"));
  const value = corpus.value(title, relation);
  if (corpus.having([relation, value]).length > 1) return undefined;
  const hops = [{ query: `${relation.name} ${value}`, title }];
  return { question: { phrase: `${kind} with ${relation.name} ${value}`, answer: title, hops }, kind };
}

/** "the older of X and Y": their pages have to be compared. */
function older(corpus: Corpus, rng: Rng): Question {
  const year = relationsOf("person").find(({ to }) => to === "number")!;
  const one = anyOf(corpus, "person", rng);
  const other = anyOf(corpus, "person", rng, one);
  const ages = [one, other].sort((a, b) => Number(corpus.value(a, year)) - Number(corpus.value(b, year)));
  const which = rng.int(2);
  const phrase = `${["older", "younger"][which]} of ${one} and ${other}`;
  return { phrase, answer: ages[which]!, hops: [byTitle(one), byTitle(other)] };
}

/** Extends the question for the older one; the other's answer has to differ, or no comparison would be needed. */
function ofTheOlder(corpus: Corpus, rng: Rng, depth: number): Question | undefined {
  const question = older(corpus, rng);
  const loser = question.hops.find(({ title }) => title !== question.answer)!.title;
  const relation = rng.choice(relationsOf("person").filter(({ to }) => to !== "number"));
  const value = corpus.value(question.answer, relation);
  if (corpus.value(loser, relation) === value) return undefined;
  const asked = {
    ...question,
    phrase: `${relation.name} of the ${question.phrase}`,
    answer: value,
    cited: `${relation.name} ${value}`,
  };
  if (depth === 1) return asked;
  const read = { ...asked, hops: [...question.hops, byTitle(value)] };
  return follow(corpus, rng, read, relation.to as Kind, depth - 1);
}

/** One question of each family, or undefined if the corpus has none at the place that was drawn. */
const DRAFTS: Readonly<Record<SearchFamily["name"], (corpus: Corpus, rng: Rng) => Question | undefined>> = {
  fact: (corpus, rng) => chain(corpus, rng, 1),
  bridge: (corpus, rng) => chain(corpus, rng, 2),
  reverse: (corpus, rng) => reverse(corpus, rng)?.question,
  both: (corpus, rng) => {
    const title = anyOf(corpus, "person", rng);
    const relations = rng.shuffle(relationsOf("person").filter(({ to }) => to !== "number")).slice(0, 2);
    const [a, b] = relations.map((relation) => [relation, corpus.value(title, relation)] as [Relation, string]);
    if (a![1] === b![1] || corpus.having(a!, b!).length > 1) return undefined;
    if ([a!, b!].some((fact) => corpus.having(fact).length === 1)) return undefined;
    const hops = [{ query: `${a![1]} ${b![1]}`, title }];
    return { phrase: `person with ${a![0].name} ${a![1]} and ${b![0].name} ${b![1]}`, answer: title, hops };
  },
  older: (corpus, rng) => ofTheOlder(corpus, rng, 1),
  chain: (corpus, rng) => chain(corpus, rng, 3),
  junction: (corpus, rng) => {
    const found = reverse(corpus, rng);
    return found && follow(corpus, rng, found.question, found.kind, 2);
  },
  elder: (corpus, rng) => ofTheOlder(corpus, rng, 2),
};

/**
 * Draws corpora and questions until one is fair: the expert's queries show the pages that they are to find, no page is
 * needed twice, and the answer stands neither in the question nor, before the last page, on the way.
 */
export function makeTask(
  rng: Rng,
  family: SearchFamily,
  {
    split,
    size,
    everyday = false,
    cite = false,
  }: SettledOptions<typeof SIZED> & Partial<SettledOptions<typeof SEARCH>>,
): SearchTask {
  return drawUntil("search", () => {
    const corpus = new Corpus(rng, split, size, everyday);
    const question = DRAFTS[family.name](corpus, rng);
    if (!question || !isFair(question, corpus)) return undefined;
    if (everyday && isHeldOut(question.phrase) !== (split === "heldout")) return undefined;
    const text = rng.choice([`Name the ${question.phrase}`, `Find the ${question.phrase}`]);
    const answer = (cite ? question.cited : undefined) ?? question.answer;
    return { text, corpus, answer, hops: question.hops };
  });
}

function isFair({ phrase, answer, hops }: Question, corpus: Corpus): boolean {
  const titles = hops.map(({ title }) => title);
  const onTheWay = titles.slice(0, -1).includes(answer);
  if (onTheWay || phrase.split(" ").includes(answer) || new Set(titles).size < titles.length) return false;
  return hops.every(({ query, title }) => corpus.search(query).slice(0, RESULTS).includes(title));
}

/** An answer without differences of spelling: spaces, capitals, a full stop. */
export const normalizeAnswer = (text: string): string =>
  text.trim().toLowerCase().replace(/\s+/g, " ").replace(/\.$/, "");

function play({ task, state }: SearchEpisode, action: string): Move<SearchState> {
  const [verb, rest] = readCommand(action);
  if (rest === "" && ["search", "open", "answer"].includes(verb)) return error(`${verb} what?`);
  if (verb === "search") {
    const results = task.corpus.search(rest).slice(0, RESULTS);
    const lines = results.map((title, i) => `${i + 1} ${title} ${task.corpus.page(title).kind}`);
    return { observation: lines.join("\n") || "no results", state: { ...state, query: rest, results } };
  }
  if (verb === "open") {
    const title = state.results[(parseCount(rest) ?? 0) - 1];
    if (title === undefined) return error("no such result");
    const read = new Set([...state.read, title]);
    return { observation: pageText(task.corpus.page(title)), state: { ...state, read } };
  }
  if (verb === "answer") {
    const right = normalizeAnswer(rest) === task.answer;
    return { observation: "", ending: { kind: "answer", score: right ? 1 : 0 } };
  }
  return error("unknown action; use search, open or answer");
}

const error = (observation: string): Move<SearchState> => ({ observation, failed: true });

/** The expert reads the pages of the path in order, each found by its own query, then answers. */
function expert({ task: { hops, answer }, state: { query, results, read } }: SearchEpisode): string {
  const hop = hops.find(({ title }) => !read.has(title));
  if (!hop) return `answer ${answer}`;
  return query === hop.query ? `open ${results.indexOf(hop.title) + 1}` : `search ${hop.query}`;
}

/** A search for a name or a fact, an opened result, or an answer. */
function random(rng: Rng, _: string | undefined, { everyday }: SettledOptions<typeof SEARCH>): string {
  const newName = everyday ? () => rng.choice(NAMES) : nameMaker(rng);
  const actions: readonly (() => string)[] = [
    () => `search ${newName()}`,
    () => `search ${rng.choice(RELATIONS).name} ${newName()}`,
    () => `open ${1 + rng.int(RESULTS)}`,
    () => `open ${1 + rng.int(RESULTS)}`,
    () => `answer ${rng.int(2) === 0 ? newName() : 100 + rng.int(900)}`,
  ];
  return rng.choice(actions)();
}

export const rules: GameRules<typeof SEARCH, SearchFamily, SearchTask, SearchState> = {
  makeTask,
  start: () => ({ query: "", results: [], read: new Set() }),
  play,
  expert,
  random,
};
