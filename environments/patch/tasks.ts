/**
 * Tasks of `patch`: the families of repositories. A right repository is drawn, with words that describe each file; then
 * a token of a file (of two files at level 4) is replaced by another token of its kind. A hash of the right programs
 * decides whether a task is held out.
 */
import type { Rng } from "../../engine/index.ts";
import { drawList, drawNumber, type ProgramTest, testsOf } from "../program/cases.ts";
import { drawCalculation, drawReduction, drawSelection, sayParts } from "../program/draw.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import { judge } from "../program/judge.ts";
import { type Edit, sayEdit } from "./edits.ts";
import type { PatchFamily, PatchTask } from "./episode.ts";
import { build, type Files } from "./repository.ts";

/** The file that is tested; it may call the others. */
export const ENTRY = "f";
const VISIBLE = 2;
const TASK_CHARACTERS = 100;
const EDIT_CHARACTERS = 24;

/** A file and the words for what it does. */
interface Draft {
  readonly code: string;
  readonly words: string;
}

type Part = ReturnType<typeof drawSelection>;
const row = (rng: Rng, parts: readonly Part[], called = ""): Draft => ({
  code: `x${called === "" ? "" : `.${called}`}${parts.map(({ code }) => code).join("")}`,
  words: [...(called === "" ? [] : [called]), sayParts(rng, parts)].join(", "),
});

/** How the repositories of a family are drawn. */
const DRAFTS: Readonly<Record<PatchFamily["name"], (rng: Rng) => Readonly<Record<string, Draft>>>> = {
  number: (rng) => ({ f: row(rng, [drawCalculation(rng, 99, ["*"]), drawCalculation(rng, 99, ["+", "-"])]) }),
  list: (rng) => ({ f: row(rng, [drawSelection(rng), drawReduction(rng)]) }),
  callee: (rng) => ({
    f: row(rng, [drawCalculation(rng, 99, ["+", "-", "*"])], "g"),
    g: row(rng, [drawSelection(rng), drawReduction(rng)]),
  }),
  files(rng) {
    const then = drawCalculation(rng, 99, ["+", "-"]);
    return {
      f: { code: `s=x.g.h\ns*s${then.code}`, words: `s is g, h; s times s, ${sayParts(rng, [then])}` },
      g: row(rng, [drawSelection(rng)]),
      h: row(rng, [drawReduction(rng)]),
    };
  },
  two: (rng) => ({
    f: row(rng, [drawCalculation(rng, 99, ["+", "-", "*"])], "g"),
    g: row(rng, [drawSelection(rng), drawReduction(rng)]),
  }),
};

/** Tokens that may be mistaken for one another. */
const KINDS: readonly (readonly string[])[] = [
  ["sum", "max", "min", "len", "head", "last"],
  ["even", "odd", "sort", "rev"],
  ["take", "drop", "above", "below"],
];

const tokensOf = (text: string): string[] => text.match(/[a-z]+|\d+|[^]/g)!;

/** The text with a token replaced by another of its kind, and the shortest edit of whole tokens that undoes it. */
function breakText(rng: Rng, file: string, text: string): { readonly broken: string; readonly edit: Edit } | undefined {
  const tokens = tokensOf(text);
  const at = rng.int(tokens.length);
  const token = tokens[at]!;
  const kind = KINDS.find((names) => names.includes(token));
  const other = kind
    ? rng.choice(kind)
    : /^\d+$/.test(token)
      ? String(2 + rng.int(Number(token) < 10 ? 8 : 98))
      : token;
  if (other === token) return undefined;
  const broken = tokens.with(at, other);
  // The searched text must occur once: tokens before it are added until it does.
  for (let from = at; from >= 0; from--) {
    const search = broken.slice(from, at + 1).join("");
    if (search.includes("\n")) return undefined;
    if (broken.join("").split(search).length === 2) {
      const edit = { file, search, replace: tokens.slice(from, at + 1).join("") };
      return { broken: broken.join(""), edit };
    }
  }
  return undefined;
}

export function makeTask(
  rng: Rng,
  { name, input, wrong }: PatchFamily,
  { split, hidden }: { readonly split: Split; readonly hidden: number },
): PatchTask {
  return drawUntil("patch", () => {
    const drafts = DRAFTS[name](rng);
    const names = Object.keys(drafts);
    const right: Files = Object.fromEntries(names.map((name) => [name, drafts[name]!.code]));
    if (isHeldOut(Object.values(right).join(" ")) !== (split === "heldout")) return undefined;
    const text = `Mend ${names.map((name) => `${name}: ${drafts[name]!.words}`).join("; ")}`;
    const edits: Edit[] = [];
    const broken: Record<string, string> = { ...right };
    for (const name of wrong === names.length ? names : rng.shuffle(names).slice(0, wrong)) {
      const made = breakText(rng, name, right[name]!);
      if (!made || sayEdit(made.edit).length > EDIT_CHARACTERS) return undefined;
      broken[name] = made.broken;
      edits.push(made.edit);
    }
    const tests = testsFor(rng, input, right, hidden);
    if (!tests || text.length > TASK_CHARACTERS) return undefined;
    const bad = build(broken);
    const visible = tests.slice(0, VISIBLE);
    // The mistake shows in a visible test.
    if ("error" in bad || judge(bad.codes.get(ENTRY)!, visible, bad.codes).outcome === "passed") return undefined;
    return { text, broken, right, edits, visible, hidden: tests.slice(VISIBLE) };
  });
}

/** Tests of the right repository: visible lists are short, hidden ones long. */
function testsFor(
  rng: Rng,
  input: PatchFamily["input"],
  right: Files,
  hidden: number,
): readonly ProgramTest[] | undefined {
  const built = build(right);
  if ("error" in built) return undefined;
  return testsOf(
    built.codes.get(ENTRY)!,
    VISIBLE + hidden,
    (i) => (input === "number" ? drawNumber(rng) : drawList(rng, i < VISIBLE ? 3 : 5 + rng.int(4))),
    built.codes,
  );
}
