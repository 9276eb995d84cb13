/**
 * Patch similarity, SWE-RL's reward (Wei et al. 2025): the similarity of two patches as texts, per file, and the mean
 * over all files that either patch touches. It needs no tests, but it rewards patches that look right, whether or not
 * they are.
 *
 * Similarity is 2·M/(|a| + |b|), where M is the number of characters in matching blocks after Ratcliff and Obershelp
 * (1988): the longest common substring, and recursively those to the left and to the right of it. Ties are broken as in
 * Python's difflib (without its junk heuristics): of equally long blocks the first in `a` is taken, then the first in
 * `b`. Similarity is not symmetric.
 */

/**
 * The largest total length that is compared by characters, and the largest total number of lines that is compared by
 * lines: the time is at least quadratic.
 */
const MAX_LENGTH = 8_000;
/**
 * The most pairs of symbols that one comparison looks at. Texts that share only short blocks need cubic time (2,000
 * letters of blanks against themselves backwards: 11 s); what has been found by then counts, the rest does not.
 */
const MAX_PAIRS = 60_000_000;

/**
 * The similarity of two texts, in [0, 1]: 1 for equal texts, including empty ones. It compares UTF-16 code units, or
 * lines if the texts are long; texts with too many lines get 0 unless they are equal.
 */
export function similarity(a: string, b: string): number {
  if (a === b) return 1;
  if (a.length + b.length <= MAX_LENGTH) return ratio(a.split(""), b.split(""));
  const [linesA, linesB] = [a.split("\n"), b.split("\n")];
  return linesA.length + linesB.length <= MAX_LENGTH ? ratio(linesA, linesB) : 0;
}

/** The similarity of two lists of symbols, which are not both empty. */
function ratio(a: readonly string[], b: readonly string[]): number {
  const numbers = new Map([...new Set([...a, ...b])].map((symbol, i) => [symbol, i]));
  const numbered = (list: readonly string[]): Int32Array => Int32Array.from(list, (symbol) => numbers.get(symbol)!);
  const [x, y] = [numbered(a), numbered(b)];
  let matching = 0;
  let left = MAX_PAIRS;
  const open: Part[] = [{ aFrom: 0, aTo: x.length, bFrom: 0, bTo: y.length }];
  for (let part = open.pop(); part; part = open.pop()) {
    const { aFrom, aTo, bFrom, bTo } = part;
    left -= (aTo - aFrom) * (bTo - bFrom);
    if (left < 0) break;
    const { i, j, length } = longestMatch(x, y, part);
    if (length === 0) continue;
    matching += length;
    open.push({ aFrom, aTo: i, bFrom, bTo: j }, { aFrom: i + length, aTo, bFrom: j + length, bTo });
  }
  return (2 * matching) / (a.length + b.length);
}

interface Part {
  readonly aFrom: number;
  readonly aTo: number;
  readonly bFrom: number;
  readonly bTo: number;
}

/** The longest run of symbols that both parts contain; its length is 0 if they share none. */
function longestMatch(
  a: Int32Array,
  b: Int32Array,
  { aFrom, aTo, bFrom, bTo }: Part,
): { i: number; j: number; length: number } {
  let best = { i: aFrom, j: bFrom, length: 0 };
  // before[k + 1]: length of the match that ends at (i − 1, bFrom + k).
  let before = new Int32Array(bTo - bFrom + 1);
  let now = new Int32Array(bTo - bFrom + 1);
  for (let i = aFrom; i < aTo; i++) {
    for (let j = bFrom; j < bTo; j++) {
      const length = a[i] === b[j] ? before[j - bFrom]! + 1 : 0;
      now[j - bFrom + 1] = length;
      if (length > best.length) best = { i: i - length + 1, j: j - length + 1, length };
    }
    [before, now] = [now, before];
  }
  return best;
}

/**
 * The parts of a unified diff by the path of the new file, or of the old file if it was deleted. Text before the first
 * file is dropped.
 */
export function splitPatch(patch: string): Record<string, string> {
  const files = new Map<string, string[]>();
  let lines: string[] | undefined;
  let old = "";
  const all = patch.split("\n");
  for (const [at, line] of all.entries()) {
    const opens = line.startsWith("--- ") && all[at + 1]?.startsWith("+++ ") === true;
    if (opens) {
      old = pathOf(line);
      lines = undefined;
    } else if (lines === undefined && old !== "") {
      const path = pathOf(line) === "/dev/null" ? old : pathOf(line);
      lines = files.get(path) ?? [];
      files.set(path, lines);
    } else if (!/^(diff|index|new file|deleted file|similarity|rename) /.test(line)) lines?.push(line);
  }
  return Object.fromEntries([...files].map(([path, body]) => [path, withoutEndOfLines(body.join("\n"))]));
}

/** A text without the line ends at its end. /\n+$/ would look at a run of line ends again from each of them. */
function withoutEndOfLines(text: string): string {
  let end = text.length;
  while (text[end - 1] === "\n") end--;
  return text.slice(0, end);
}

/** The path in a line `--- a/PATH` or `+++ b/PATH`, which a tab and a date may follow. */
function pathOf(line: string): string {
  const path = line.slice(4).split("\t")[0]!;
  return path.trim().replace(/^[ab]\//, "");
}

/**
 * The mean similarity over the files of both patches. A file that only one of them touches counts 0. −1 if the
 * prediction is not a patch.
 * @param predicted a unified diff
 * @param wanted a unified diff
 * @returns −1 or a number in [0, 1]; NaN if `wanted` is not a patch
 */
export function patchSimilarity(predicted: string, wanted: string): number {
  const right = splitPatch(wanted);
  const given = splitPatch(predicted);
  if (Object.keys(right).length === 0) return NaN;
  if (Object.keys(given).length === 0) return -1;
  const paths = [...new Set([...Object.keys(right), ...Object.keys(given)])];
  const of = (files: Record<string, string>, path: string): string => (Object.hasOwn(files, path) ? files[path]! : "");
  const scores = paths.map((path) => {
    const [a, b] = [of(given, path), of(right, path)];
    return a === "" ? 0 : similarity(a, b); // two empty texts are equal, and may be of a file that one does not touch
  });
  return scores.reduce((sum, score) => sum + score, 0) / paths.length;
}
