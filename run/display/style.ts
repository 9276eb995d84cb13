/**
 * The colours of the terminal, as functions from text to text, and the decision whether to use them. Without colours
 * every function returns its text unchanged, so that callers need not ask.
 *
 * NO_COLOR (no-color.org) and FORCE_COLOR work as in Node: FORCE_COLOR wins, and its values "0" and "false" turn
 * colours off. Only the 16 basic colours are used, as they follow the person's theme, light or dark.
 */
import type { Role } from "../records.ts";

export type Paint = (text: string) => string;

export interface Style {
  readonly enabled: boolean;
  readonly bold: Paint;
  readonly dim: Paint;
  readonly good: Paint;
  readonly bad: Paint;
  readonly accent: Paint;
  readonly role: Readonly<Record<Role, Paint>>;
}

/** Whether to use colours, from the environment variables. */
export function wantsColour(isTTY: boolean, env: Readonly<Record<string, string | undefined>>): boolean {
  const force = env["FORCE_COLOR"];
  if (force !== undefined) return force !== "0" && force !== "false";
  if (env["NO_COLOR"]) return false;
  return isTTY && env["TERM"] !== "dumb";
}

export function createStyle(enabled: boolean): Style {
  // Each line of a styled text ends its own style, so that lines can be moved and cut.
  const sgr =
    (codes: string): Paint =>
    (text) =>
      !enabled || text === "" ? text : `\u001b[${codes}m${text}\u001b[0m`;
  return {
    enabled,
    bold: sgr("1"),
    dim: sgr("2"),
    good: sgr("32"),
    bad: sgr("31"),
    accent: sgr("36"),
    role: {
      prompt: sgr("2"),
      thought: sgr("33"),
      action: sgr("1;32"),
      observation: sgr("34"),
      scaffold: sgr("90"),
      pad: sgr("90"),
    },
  };
}
