/**
 * The questions that show which facts of a castle an agent knows, each in a task of one step. It is loaded later, as
 * rules.ts is: it imports no value of ../game.ts.
 */
import { type FactQuestion, preferred, question, type WorldFact } from "../facts/questions.ts";
import type { SettledOptions } from "../options.ts";
import type { CASTLE, CastleFamily, Step } from "./episode.ts";
import { type Castle, castleOf } from "./facts.ts";
import { commandOf, draftOf, isHeldOutPair, subjectOf, textOf } from "./rules.ts";

/** The verbs of the steps of each family. */
const VERBS_OF: Readonly<Record<CastleFamily["name"], readonly Step["verb"][]>> = {
  go: ["go"],
  send: ["send"],
  open: ["open"],
  seal: ["seal"],
  take: ["take"],
  clean: ["clean"],
  cross: ["go"],
  visit: ["go", "open"],
  fetch: ["go", "take"],
  bring: ["go", "take"],
};

/** Questions about all facts that tasks of these families need. */
export function questionsAbout(
  { castle: seed, size }: SettledOptions<typeof CASTLE>,
  families: readonly CastleFamily[],
): readonly FactQuestion[] {
  if (seed < 0) return [];
  const castle = castleOf(seed, size);
  const verbs = new Set(families.flatMap(({ name }) => VERBS_OF[name]));
  const asked = [...verbs].flatMap((verb) =>
    stepsOf(verb, castle).map((step) => ({
      ...question(textOf(draftOf(step, castle)), commandOf(step, castle), factsIn(step, castle)),
      isHeldOut: isHeldOutPair(subjectOf(step), verb),
    })),
  );
  return preferred(asked);
}

function stepsOf(verb: Step["verb"], { names, passages }: Castle): readonly Step[] {
  if (verb === "go" || verb === "send")
    return [...passages].flatMap(([from, exits]) => [...exits.keys()].map((to) => ({ verb, from, to })));
  if (verb === "open" || verb === "seal") return names.chests.map((chest) => ({ verb, chest }));
  return names.things.map((thing) => ({ verb, thing }));
}

function factsIn(step: Step, { passages, keys, chests }: Castle): readonly WorldFact[] {
  const keyOf = (chest: string): WorldFact => {
    const right = keys.get(chest)!;
    return { kind: "which key opens a chest", known: chest, right, says: `${chest} opens with ${right}` };
  };
  if ("to" in step) {
    const { from, to } = step;
    const right = passages.get(from)!.get(to)!;
    return [
      { kind: "which word leads where", known: `${from} ${to}`, right, says: `from ${from} to ${to} by ${right}` },
    ];
  }
  if ("chest" in step) return [keyOf(step.chest)];
  const chest = chests.get(step.thing)!;
  return [
    { kind: "where things are", known: step.thing, right: chest, says: `${step.thing} is in ${chest}` },
    keyOf(chest),
  ];
}
