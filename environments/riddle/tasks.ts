/** Riddles drawn by the generator of programs, to be solved or proposed: for demonstrations and as a control. */
import type { Rng } from "../../engine/index.ts";
import { FAMILIES as CODE_FAMILIES } from "../code/episode.ts";
import { DRAFTS } from "../code/tasks.ts";
import { drawList, drawNumber } from "../program/cases.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import { riddleOf } from "./proposal.ts";
import {
  INPUTS,
  proposalText,
  proposingTask,
  type Riddle,
  type RiddleFamily,
  type RiddleKind,
  type RiddleTask,
  solvingTask,
} from "./riddle.ts";

/** Earlier riddles that a proposer sees. */
const REFERENCES = 2;

/** A riddle whose program is drawn as those of `code` are. */
export function drawRiddle(rng: Rng, kind: RiddleKind, split: Split = "train"): Riddle {
  return drawUntil("riddle", () => {
    const { name, input } = rng.choice(CODE_FAMILIES);
    const { code } = DRAFTS[name](rng);
    if (isHeldOut(code) !== (split === "heldout")) return undefined;
    return withInputs(rng, kind, code, input);
  });
}

function withInputs(rng: Rng, kind: RiddleKind, program: string, input: "number" | "list"): Riddle | undefined {
  const count = kind === "induction" ? INPUTS : 1;
  const inputs = Array.from({ length: count }, () => (input === "number" ? drawNumber(rng) : drawList(rng, 3)));
  const reading = riddleOf(kind, program, inputs);
  return reading.form === "valid" ? reading.riddle : undefined;
}

export function makeTask(rng: Rng, { role, kind }: RiddleFamily, { split }: { readonly split: Split }): RiddleTask {
  const riddle = drawRiddle(rng, kind, split);
  if (role === "solve") return solvingTask(riddle);
  const plan = [proposalText(riddle)];
  if (kind === "induction") return proposingTask(kind, [riddle], plan);
  return proposingTask(
    kind,
    Array.from({ length: REFERENCES }, () => drawRiddle(rng, kind, split)),
    plan,
  );
}
