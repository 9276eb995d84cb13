/**
 * Riddles, and the texts of the tasks that they make. A riddle has a program p, inputs, and the outputs for them; a
 * task asks for one of these parts:
 *
 *     deduction   the output, from program and input
 *     abduction   an input that has this output, from program and output
 *     induction   the program, from half of the inputs with their outputs; it has to pass the other half
 *
 * These are the three kinds of Absolute Zero (Zhao et al. 2025, arXiv 2505.03335). A proposal consists of program and
 * input or, for an induction, of inputs for a given program; the machine computes the outputs.
 */
import type { FamilyInfo } from "../../rl/environment.ts";
import type { GameTask } from "../game.ts";
import { show, type Value } from "../program/machine.ts";

export const RIDDLE_KINDS = ["deduction", "abduction", "induction"] as const;
export type RiddleKind = (typeof RIDDLE_KINDS)[number];

/** A riddle as plain data. Deductions and abductions have one input, inductions have `INPUTS`. */
export interface Riddle {
  readonly kind: RiddleKind;
  /** As `printProgram` writes it. */
  readonly program: string;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
}

/** Inputs of an induction; the first half is shown. */
export const INPUTS = 4;

const solving = { deduction: 1, abduction: 2, induction: 3 } as const;

/** Solving and proposing, three kinds of each. */
export const FAMILIES = [
  { name: "deduction", level: 1, description: "the output of a program", kind: "deduction", role: "solve" },
  { name: "abduction", level: 2, description: "an input with a given output", kind: "abduction", role: "solve" },
  { name: "induction", level: 3, description: "a program of which tests tell", kind: "induction", role: "solve" },
  { name: "propose-deduction", level: 1, description: "a program and an input", kind: "deduction", role: "propose" },
  { name: "propose-abduction", level: 2, description: "a program and an input", kind: "abduction", role: "propose" },
  { name: "propose-induction", level: 3, description: "inputs of a program", kind: "induction", role: "propose" },
] as const satisfies readonly (FamilyInfo & { readonly kind: RiddleKind; readonly role: "solve" | "propose" })[];
export type RiddleFamily = (typeof FAMILIES)[number];

/** The family of a role and a kind. */
export const familyOf = (role: RiddleFamily["role"], kind: RiddleKind): RiddleFamily =>
  FAMILIES.find((family) => family.role === role && family.level === solving[kind])!;

/** A riddle to be solved, or to be proposed. */
export type RiddleTask = GameTask & { readonly plan: readonly string[] } & (
    { readonly role: "solve"; readonly riddle: Riddle } | ProposalOf
  );

interface ProposalOf {
  readonly role: "propose";
  readonly kind: RiddleKind;
  /** Of an induction: the program that inputs are asked for. */
  readonly program?: string;
}

/** The task of solving a riddle. Its plan is the proposer's answer. */
export function solvingTask(riddle: Riddle): RiddleTask {
  const { kind, program, inputs, outputs } = riddle;
  const [input, output] = [show(inputs[0]!), show(outputs[0]!)];
  switch (kind) {
    case "deduction":
      return { role: "solve", riddle, text: `Say p(${input}): p(x)=${program}`, plan: [`say ${output}`] };
    case "abduction":
      return { role: "solve", riddle, text: `Say x: p(x)=${output} p(x)=${program}`, plan: [`say ${input}`] };
    case "induction": {
      const shown = inputs.slice(0, INPUTS / 2).map((one, i) => `p(${show(one)})=${show(outputs[i]!)}`);
      const plan = [`run ${program}`, "submit"];
      return { role: "solve", riddle, text: `Write p(x): ${shown.join(" ")}`, plan };
    }
  }
}

/** The action that proposes a riddle. */
export function proposalText({ kind, program, inputs }: Pick<Riddle, "kind" | "program" | "inputs">): string {
  return kind === "induction"
    ? `propose ${inputs.map(show).join(" ")}`
    : `propose ${program} for ${inputs.map(show).join(" ")}`;
}

/**
 * The task of proposing a riddle of this kind.
 * @param references earlier riddles: the new one must differ from them, and an induction is about the program of the
 * first
 * @param plan the expert's actions
 */
export function proposingTask(
  kind: RiddleKind,
  references: readonly Riddle[],
  plan: readonly string[] = [],
): RiddleTask {
  const { program } = references[0]!;
  if (kind === "induction") return { role: "propose", kind, program, text: `Propose inputs: p(x)=${program}`, plan };
  const known = references.map((riddle) => `${riddle.program} for ${show(riddle.inputs[0]!)}`).join(", ");
  return { role: "propose", kind, text: `Propose ${kind}, not ${known}`, plan };
}
