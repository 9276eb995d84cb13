/** SEARCH/REPLACE edits as actions. */

/** A SEARCH/REPLACE block in one line: `f max->min`. */
export interface Edit {
  readonly file: string;
  readonly search: string;
  readonly replace: string;
}

/** Parses an edit; undefined if the text is none. */
export function readEdit(text: string): Edit | undefined {
  const file = /^\S+ /.exec(text)?.[0].trim();
  if (file === undefined) return undefined;
  const sides = text.slice(file.length + 1).split("->");
  if (sides.length !== 2) return undefined;
  const [search, replace] = [sides[0]!.trim(), sides[1]!.trim()];
  return search === "" || replace === "" ? undefined : { file, search, replace };
}

/** An edit as an action. */
export const sayEdit = ({ file, search, replace }: Edit): string => `edit ${file} ${search}->${replace}`;
