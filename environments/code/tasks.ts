/**
 * Tasks of `code`: the families of programs, the words that describe a program, and its tests. A hash of the program's
 * text decides whether it is held out; each of its parts is common in training.
 */
import type { Rng } from "../../engine/index.ts";
import { drawList, drawNumber, testsOf } from "../program/cases.ts";
import { drawCalculation, drawReduction, drawSelection, sayParts } from "../program/draw.ts";
import { compile, show } from "../program/machine.ts";
import { parseProgram } from "../program/syntax.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import type { CodeFamily, CodeTask } from "./episode.ts";

/** Longest program, so that it fits into an action of 24 characters, and longest task. */
const PROGRAM_CHARACTERS = 20;
const TASK_CHARACTERS = 100;

/** A program, and the words that describe it; without words only its tests do. */
interface Draft {
  readonly code: string;
  readonly words?: string;
}

function row(rng: Rng, parts: readonly ReturnType<typeof drawSelection>[]): Draft {
  return { code: `x${parts.map(({ code }) => code).join("")}`, words: `x, ${sayParts(rng, parts)}` };
}

/** The generator of each family's programs. */
export const DRAFTS: Readonly<Record<CodeFamily["name"], (rng: Rng) => Draft>> = {
  number: (rng) => row(rng, [drawCalculation(rng, 99, ["+", "-", "*"])]),
  list: (rng) => row(rng, [drawSelection(rng), drawReduction(rng)]),
  steps: (rng) => row(rng, [drawCalculation(rng, 99, ["*"]), drawCalculation(rng, 99, ["+", "-"])]),
  chain(rng) {
    const first = drawSelection(rng);
    const kindOf = ({ code }: typeof first): string => /[a-z]+/.exec(code)![0];
    const other = drawUntil("code", () => {
      const drawn = drawSelection(rng);
      return kindOf(drawn) === kindOf(first) ? undefined : drawn;
    });
    return row(rng, [first, other, drawReduction(rng)]);
  },
  name(rng) {
    const [part, then] = [drawReduction(rng), drawCalculation(rng, 99, ["+", "-"])];
    const words = `s is x, ${sayParts(rng, [part])}; s times s, ${sayParts(rng, [then])}`;
    return { code: `s=x${part.code};s*s${then.code}`, words };
  },
  examples: (rng) => ({ code: `x${drawCalculation(rng, 9, ["*"]).code}${drawCalculation(rng, 20, ["+", "-"]).code}` }),
};

export function makeTask(
  rng: Rng,
  { name, input }: CodeFamily,
  { split, hidden }: { readonly split: Split; readonly hidden: number },
): CodeTask {
  return drawUntil("code", () => {
    const { code, words } = DRAFTS[name](rng);
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
