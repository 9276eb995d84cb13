/**
 * The repositories that are to be mended: families of them. A repository is drawn right, with words that say what each
 * file does, and then a token of a file (of two files at level 4) is replaced by another of its kind. The right
 * programs decide the split.
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
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import { judge } from "../program/judge.ts";
import { build, type Edit, type Files } from "./repository.ts";

/** The file that is tested; it may call the others. */
export const ENTRY = "f";
const VISIBLE = 2;
const TASK_CHARACTERS = 100;
const EDIT_CHARACTERS = 24;

export interface PatchTask extends GameTask {
  readonly broken: Files;
  readonly right: Files;
  /** The expert's edits, one for each file that is wrong. */
  readonly edits: readonly Edit[];
  readonly visible: readonly ProgramTest[];
  readonly hidden: readonly ProgramTest[];
}

/** A file and the words for what it does. */
interface Draft {
  readonly code: string;
  readonly words: string;
}

export interface PatchFamily extends FamilyInfo {
  readonly input: "number" | "list";
  /** How many files are wrong. */
  readonly wrong: number;
  readonly draft: (rng: Rng) => Readonly<Record<string, Draft>>;
}

type Part = ReturnType<typeof drawSelection>;
const row = (rng: Rng, parts: readonly Part[], called = ""): Draft => ({
  code: `x${called === "" ? "" : `.${called}`}${parts.map(({ code }) => code).join("")}`,
  words: [...(called === "" ? [] : [called]), sayParts(rng, parts)].join(", "),
});

/** All families, easiest first. */
export const FAMILIES: readonly PatchFamily[] = [
  {
    name: "number",
    level: 1,
    description: "a file with two calculations",
    input: "number",
    wrong: 1,
    draft: (rng) => ({ f: row(rng, [drawCalculation(rng, 99, ["*"]), drawCalculation(rng, 99, ["+", "-"])]) }),
  },
  {
    name: "list",
    level: 1,
    description: "a file with two operations of a list",
    input: "list",
    wrong: 1,
    draft: (rng) => ({ f: row(rng, [drawSelection(rng), drawReduction(rng)]) }),
  },
  {
    name: "callee",
    level: 2,
    description: "a file that calls another, one of them wrong",
    input: "list",
    wrong: 1,
    draft: (rng) => ({
      f: row(rng, [drawCalculation(rng, 99, ["+", "-", "*"])], "g"),
      g: row(rng, [drawSelection(rng), drawReduction(rng)]),
    }),
  },
  {
    name: "files",
    level: 3,
    description: "three files, one of them with two lines, one wrong",
    input: "list",
    wrong: 1,
    draft(rng) {
      const then = drawCalculation(rng, 99, ["+", "-"]);
      return {
        f: { code: `s=x.g.h\ns*s${then.code}`, words: `s is g, h; s times s, ${sayParts(rng, [then])}` },
        g: row(rng, [drawSelection(rng)]),
        h: row(rng, [drawReduction(rng)]),
      };
    },
  },
  {
    name: "two",
    level: 4,
    description: "a file that calls another, both wrong",
    input: "list",
    wrong: 2,
    draft: (rng) => ({
      f: row(rng, [drawCalculation(rng, 99, ["+", "-", "*"])], "g"),
      g: row(rng, [drawSelection(rng), drawReduction(rng)]),
    }),
  },
];

/** Tokens that may be mistaken for one another. */
const KINDS: readonly (readonly string[])[] = [
  ["sum", "max", "min", "len", "head", "last"],
  ["even", "odd", "sort", "rev"],
  ["take", "drop", "above", "below"],
];

const tokensOf = (text: string): string[] => text.match(/[a-z]+|\d+|[^]/g)!;

/** The text with a token replaced by another of its kind, and the shortest edit of whole tokens that takes it back. */
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
  // What is searched has to be there once: tokens before it are added until it is.
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

/** An edit as an action. */
export const sayEdit = ({ file, search, replace }: Edit): string => `edit ${file} ${search}->${replace}`;

export function makeTask(
  rng: Rng,
  { draft, input, wrong }: PatchFamily,
  { split, hidden }: { readonly split: Split; readonly hidden: number },
): PatchTask {
  return drawUntil("patch", () => {
    const drafts = draft(rng);
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
