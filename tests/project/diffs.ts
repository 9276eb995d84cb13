/** The diffs that the pages in docs/ show, and what a file is after one of them. */

/** Part of a diff. */
export interface Hunk {
  readonly path: string;
  /** Context and removed lines, which the file must have, and what takes their place. */
  readonly before: string[];
  readonly after: string[];
}

export function hunksOf(diff: string): Hunk[] {
  const hunks: Hunk[] = [];
  let path = "";
  for (const line of diff.trimEnd().split("\n")) {
    const hunk = hunks.at(-1);
    if (line.startsWith("--- ")) continue;
    if (line.startsWith("+++ ")) path = line.slice("+++ b/".length);
    else if (line.startsWith("@@")) hunks.push({ path, before: [], after: [] });
    else if (hunk === undefined) throw new Error(`a diff must start with --- and +++, got ${line}`);
    else {
      if (!line.startsWith("+")) hunk.before.push(line.slice(1));
      if (!line.startsWith("-")) hunk.after.push(line.slice(1));
    }
  }
  return hunks;
}

/**
 * The file after the diff.
 * @param text of the file before; undefined if the diff makes it
 * @throws unless each hunk fits the text in exactly one place
 */
export function applied(text: string | undefined, hunks: readonly Hunk[]): string {
  if (text === undefined) {
    const [hunk, ...more] = hunks;
    if (hunk === undefined || more.length > 0 || hunk.before.length > 0)
      throw new Error(`${hunk?.path}: a diff that makes a file has one hunk with nothing before it`);
    return `${hunk.after.join("\n")}\n`;
  }
  return hunks.reduce((old, { path, before, after }) => {
    const parts = old.split(`\n${before.join("\n")}\n`);
    if (parts.length !== 2)
      throw new Error(`${path}: expected one place that reads\n${before.join("\n")}\nfound ${parts.length - 1}`);
    return parts.join(`\n${after.join("\n")}\n`);
  }, text);
}

/** Fenced blocks of a page in order, with the language behind the fence. */
export function blocksOf(page: string): { language: string; text: string }[] {
  return [...page.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language, text]) => ({
    language: language!,
    text: text!,
  }));
}
