/**
 * Patch similarity, SWE-RL's reward (Wei et al. 2025): per file the similarity of two patches as texts, and the mean over all files
 * that either patch touches. It needs no tests to run, and pays for looking right rather than being right.
 *
 * Similarity is 2·M/(|a| + |b|) with M the characters in matching blocks after Ratcliff and Obershelp (1988): the longest common
 * substring, and so on to the left and to the right of it. As Python's difflib without its junk heuristics: of equally long
 * blocks the first in `a`, then the first in `b`. It is not symmetric.
 */

/** Texts of more characters in sum are compared line by line: time is at least quadratic. Of more lines: only for equality. */
const MAX_LENGTH = 8_000;

/** In [0, 1]; 1 for equal texts, empty ones included. Compares UTF-16 code units, or lines if the texts are long. */
export function similarity(a: string, b: string): number {
  if (a === b) return 1;
  if (a.length + b.length <= MAX_LENGTH) return ratio(a.split(""), b.split(""));
  const [linesA, linesB] = [a.split("\n"), b.split("\n")];
  return linesA.length + linesB.length <= MAX_LENGTH ? ratio(linesA, linesB) : 0;
}

/** Of two lists of symbols, not both empty. */
function ratio(a: readonly string[], b: readonly string[]): number {
  const numbers = new Map([...new Set([...a, ...b])].map((symbol, i) => [symbol, i]));
  const [x, y] = [a, b].map((list) => Int32Array.from(list, (symbol) => numbers.get(symbol)!)) as [Int32Array, Int32Array]; // prettier-ignore
  let matching = 0;
  const open: Part[] = [{ aFrom: 0, aTo: x.length, bFrom: 0, bTo: y.length }];
  for (let part = open.pop(); part; part = open.pop()) {
    const { aFrom, aTo, bFrom, bTo } = part;
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

/** The longest run of symbols that is in both parts; length 0 if they share none. */
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

/** Parts of a unified diff by the path of the new file (of the old one, if it is deleted). Text before the first file is dropped. */
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
    } else if (line.startsWith("+++ ") && lines === undefined && old !== "") {
      const path = pathOf(line) === "/dev/null" ? old : pathOf(line);
      lines = files.get(path) ?? [];
      files.set(path, lines);
    } else if (!/^(diff|index|new file|deleted file|similarity|rename) /.test(line)) lines?.push(line);
  }
  return Object.fromEntries([...files].map(([path, body]) => [path, body.join("\n").replace(/\n+$/, "")]));
}

const pathOf = (line: string): string => line.slice(4).split("\t", 1)[0]!.trim().replace(/^[ab]\//, ""); // prettier-ignore

/**
 * Mean similarity over the files of both patches; a file that only one of them touches counts 0. −1 if the prediction is no patch.
 *
 * @param predicted @param wanted unified diffs
 * @returns −1, or in [0, 1]; NaN if `wanted` is no patch
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
    return a === "" || b === "" ? 0 : similarity(a, b);
  });
  return scores.reduce((sum, score) => sum + score, 0) / paths.length;
}
