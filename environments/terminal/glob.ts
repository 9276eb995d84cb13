/**
 * Shell patterns: `*` (any characters) and `?` (one), `\` before a character makes it plain. Two pointers and one
 * remembered star: time at most pattern × text, whatever the pattern (a translation to a regular expression has no such
 * bound). Not here: `[...]`, `{a,b}`, `**`.
 */
import type { Word } from "./parser.ts";
import { sortedChildren, type FileSystem } from "./filesystem.ts";

/** Whether the whole of `text` matches the pattern. */
export function globMatches(pattern: string, text: string): boolean {
  let p = 0;
  let t = 0;
  let star = -1; // place after the last star, to come back to
  let starText = 0;
  while (t < text.length) {
    const escaped = pattern[p] === "\\" && p + 1 < pattern.length;
    if (!escaped && pattern[p] === "*") {
      star = ++p;
      starText = t;
    } else if (
      p < pattern.length &&
      (escaped ? pattern[p + 1] === text[t] : pattern[p] === "?" || pattern[p] === text[t])
    ) {
      p += escaped ? 2 : 1;
      t++;
    } else if (star >= 0) {
      p = star;
      t = ++starText;
    } else return false;
  }
  while (pattern[p] === "*") p++;
  return p === pattern.length;
}

/** The most that a match may cost, in the units of a command line's budget. */
export function globWork(pattern: string, text: string): number {
  return 1 + (pattern.length * text.length) / 8;
}

/** The pattern without its escapes: the text that it matches if it has no star. */
function unescape(pattern: string): string {
  return pattern.replace(/\\(.)/gs, "$1");
}

/**
 * The paths that a word stands for, sorted; the word itself if it is no pattern or nothing matches. A name that starts
 * with a dot is matched only by a pattern that does.
 * @param spend is told the work of every comparison; throws when there was too much
 */
export function expandWord(word: Word, fs: FileSystem, spend: (work: number) => void): string[] {
  if (!word.isGlob) return [word.text];
  const absolute = word.pattern.startsWith("/");
  let found: string[] = [absolute ? "/" : ""];
  for (const part of word.pattern.split("/")) {
    if (part === "") continue;
    const isGlob = /[*?]/.test(part.replace(/\\./gs, ""));
    const next: string[] = [];
    for (const base of found) {
      const prefix = base === "" || base.endsWith("/") ? base : `${base}/`;
      const node = fs.peek(base === "" ? "." : base);
      if (node?.kind !== "directory") continue;
      if (!isGlob) {
        if (fs.peek(prefix + unescape(part))) next.push(prefix + unescape(part));
        continue;
      }
      for (const [name] of sortedChildren(node)) {
        spend(globWork(part, name));
        if ((part.startsWith(".") || !name.startsWith(".")) && globMatches(part, name)) next.push(prefix + name);
      }
    }
    found = next;
  }
  if (word.pattern.endsWith("/")) found = found.filter((path) => fs.isDirectory(path)).map((path) => `${path}/`);
  return found.length > 0 ? found : [word.text];
}
