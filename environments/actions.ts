/** Parsers of what an agent says. */

/** An action as its first word, in lower case, and what follows it, with single spaces. */
export function readCommand(action: string): readonly [verb: string, rest: string] {
  const [verb = "", ...rest] = action.trim().split(/\s+/);
  return [verb.toLowerCase(), rest.join(" ")];
}

/** The number that an action names, or undefined if it is none: digits only, so not "1e3" or "". */
export const parseCount = (text: string): number | undefined => (/^\d{1,6}$/.test(text) ? Number(text) : undefined);
