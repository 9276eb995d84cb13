/**
 * Reads and checks proposals of riddles. A proposal is valid if its program compiles, runs on its inputs within the
 * machine's steps, and makes tasks of bounded length. All of this depends on the text only.
 */
import { compile, readValue, run, sameValue, show, type Value } from "../program/machine.ts";
import { parseProgram, printProgram } from "../program/syntax.ts";
import { isHeldOut } from "../selection.ts";
import { INPUTS, type Riddle, type RiddleKind, solvingTask } from "./riddle.ts";

/** Longest program, input and output, so that answers fit into an action, and longest task. */
const PROGRAM_CHARACTERS = 20;
const VALUE_CHARACTERS = 20;
const TASK_CHARACTERS = 100;

/**
 * The kinds of proposals: malformed, valid in form but no riddle (`void`), with a program of held-out tasks, or a
 * riddle.
 */
export type ProposalReading =
  | { readonly form: "malformed" | "void" | "held out"; readonly why: string }
  | { readonly form: "valid"; readonly riddle: Riddle };

/**
 * Parses what stands after the word `propose`: `PROGRAM for INPUT`, and for an induction inputs of `given`.
 * @param given of an induction: its program
 */
export function readProposal(kind: RiddleKind, text: string, given?: string): ProposalReading {
  const malformed = (why: string): ProposalReading => ({ form: "malformed", why });
  const [program = "", written = ""] = kind === "induction" ? [given, text] : aroundFor(text);
  if (written === "") return malformed("expected PROGRAM for INPUT");
  const reading = parseProgram(program);
  if ("error" in reading) return malformed(`error at ${reading.error.at}: ${reading.error.message}`);
  const printed = printProgram(reading.program);
  if (printed.length > PROGRAM_CHARACTERS) return malformed("the program is too long");
  const inputs = valuesIn(written).map(readValue);
  const count = kind === "induction" ? INPUTS : 1;
  if (inputs.length !== count) return malformed(`expected ${count === 1 ? "one input" : `${count} inputs`}`);
  if (!inputs.every((input): input is Value => input !== undefined && show(input).length <= VALUE_CHARACTERS))
    return malformed("an input is a number or a short list");
  if (isHeldOut(printed)) return { form: "held out", why: "this program is held out" };
  return riddleOf(kind, printed, inputs);
}

const FOR = " for ";

/** The parts before and after the last ` for ` of a line; none if the text is no line, or a part is empty. */
function aroundFor(text: string): readonly string[] {
  if (/[\n\r\u2028\u2029]/.test(text)) return [];
  const at = text.lastIndexOf(FOR, text.length - FOR.length - 1);
  return at > 0 ? [text.slice(0, at), text.slice(at + FOR.length)] : [];
}

/** Lists in brackets, and words. After the last `]` no list can end, so only words are looked for. */
function valuesIn(text: string): string[] {
  const end = text.lastIndexOf("]") + 1;
  const before = text.slice(0, end).match(/\[[^\]]*\]|[^\s[\]]+/g) ?? [];
  return [...before, ...(text.slice(end).match(/[^\s[\]]+/g) ?? [])];
}

/** The riddle of a program and inputs, if they make one. @param program a text that `parseProgram` reads */
export function riddleOf(kind: RiddleKind, program: string, inputs: readonly Value[]): ProposalReading {
  const nothing = (why: string): ProposalReading => ({ form: "void", why });
  const reading = parseProgram(program);
  if ("error" in reading) return nothing(reading.error.message);
  const code = compile(reading.program);
  const outputs: Value[] = [];
  for (const input of inputs) {
    const outcome = run(code, input);
    if ("error" in outcome) return nothing(`error: ${outcome.error}`);
    outputs.push(outcome.value);
  }
  if (outputs.some((output) => show(output).length > VALUE_CHARACTERS)) return nothing("an output is too long");
  const isSame = (values: readonly Value[], value: Value, i: number): boolean =>
    values.findIndex((other) => sameValue(other, value)) !== i;
  if (inputs.some((input, i) => isSame(inputs, input, i))) return nothing("an input is there twice");
  if (kind === "induction" && outputs.every((output) => sameValue(output, outputs[0]!)))
    return nothing("all outputs are equal");
  const riddle: Riddle = { kind, program, inputs, outputs };
  if (solvingTask(riddle).text.length > TASK_CHARACTERS) return nothing("the task is too long");
  return { form: "valid", riddle };
}
