/**
 * The programs that are asked for: families of them, the words that say what a program does, and its tests. A program
 * decides its split by a hash of its text; each of its parts is common in training.
 */
import type { Rng } from "../../engine/index.ts";
import type { FamilyInfo } from "../environment.ts";
import type { GameTask } from "../game.ts";
import {
  drawCalculation,
  drawList,
  drawNumber,
  drawReduction,
  drawSelection,
  type ProgramTest,
  sayParts,
  testsOf,
} from "../program/draw.ts";
import { compile, show } from "../program/machine.ts";
import { parseProgram, type Program } from "../program/syntax.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";

/** Longest program, so that it fits into an action of 24 characters, and longest task. */
const PROGRAM_CHARACTERS = 20;
const TASK_CHARACTERS = 100;

export interface CodeTask extends GameTask {
  /** The reference program, as text and read. */
  readonly solution: string;
  readonly reference: Program;
  /** The tests that the task shows. */
  readonly visible: readonly ProgramTest[];
  readonly hidden: readonly ProgramTest[];
}

/** A program, and the words for it; without words only its tests say what it does. */
interface Draft {
  readonly code: string;
  readonly words?: string;
}

export interface CodeFamily extends FamilyInfo {
  readonly input: "number" | "list";
  readonly draft: (rng: Rng) => Draft;
}

function row(rng: Rng, parts: readonly ReturnType<typeof drawSelection>[]): Draft {
  return { code: `x${parts.map(({ code }) => code).join("")}`, words: `x, ${sayParts(rng, parts)}` };
}

/** All families, easiest first. */
export const FAMILIES: readonly CodeFamily[] = [
  {
    name: "number",
    level: 1,
    description: "one calculation",
    input: "number",
    draft: (rng) => row(rng, [drawCalculation(rng, 99, ["+", "-", "*"])]),
  },
  {
    name: "list",
    level: 1,
    description: "two operations of a list",
    input: "list",
    draft: (rng) => row(rng, [drawSelection(rng), drawReduction(rng)]),
  },
  {
    name: "steps",
    level: 2,
    description: "two calculations",
    input: "number",
    draft: (rng) => row(rng, [drawCalculation(rng, 99, ["*"]), drawCalculation(rng, 99, ["+", "-"])]),
  },
  {
    name: "chain",
    level: 2,
    description: "three operations of a list",
    input: "list",
    draft(rng) {
      const first = drawSelection(rng);
      const kindOf = ({ code }: typeof first): string => /[a-z]+/.exec(code)![0];
      const other = drawUntil("code", () => {
        const drawn = drawSelection(rng);
        return kindOf(drawn) === kindOf(first) ? undefined : drawn;
      });
      return row(rng, [first, other, drawReduction(rng)]);
    },
  },
  {
    name: "name",
    level: 3,
    description: "a value that is used twice",
    input: "list",
    draft(rng) {
      const [part, then] = [drawReduction(rng), drawCalculation(rng, 99, ["+", "-"])];
      const words = `s is x, ${sayParts(rng, [part])}; s times s, ${sayParts(rng, [then])}`;
      return { code: `s=x${part.code};s*s${then.code}`, words };
    },
  },
  {
    name: "examples",
    level: 4,
    description: "two calculations, of which only tests tell",
    input: "number",
    draft: (rng) => ({ code: `x${drawCalculation(rng, 9, ["*"]).code}${drawCalculation(rng, 20, ["+", "-"]).code}` }),
  },
];

export function makeTask(
  rng: Rng,
  { draft, input }: CodeFamily,
  { split, hidden }: { readonly split: Split; readonly hidden: number },
): CodeTask {
  return drawUntil("code", () => {
    const { code, words } = draft(rng);
    if (code.length > PROGRAM_CHARACTERS || isHeldOut(code) !== (split === "heldout")) return undefined;
    const reading = parseProgram(code);
    if ("error" in reading) return undefined;
    const reference = reading.program;
    // Visible lists are short, hidden ones long.
    const count = words === undefined ? 3 : 2;
    const tests = testsOf(compile(reference), count + hidden, (i) =>
      input === "number" ? drawNumber(rng) : drawList(rng, i < count ? 3 : 5 + rng.int(4)),
    );
    const visible = tests?.slice(0, count);
    if (!tests || !visible || new Set(visible.map(({ output }) => show(output))).size < count) return undefined;
    const shown = visible.map((test) => `p(${show(test.input)})=${show(test.output)}`).join(" ");
    const text = `Write p(x): ${words === undefined ? "" : `${words}. `}${shown}`;
    if (text.length > TASK_CHARACTERS) return undefined;
    return { text, solution: code, reference, visible, hidden: tests.slice(count) };
  });
}
