/** The effect of "Break it" on a program's output, as the lines of a diff. */
import { comparableLine } from "./compare.ts";

/** "…" stands for lines that are as before. */
export interface Change {
  readonly sign: " " | "-" | "+" | "…";
  readonly text: string;
}

/** Number of unchanged lines shown on each side of a changed one. */
const AROUND = 2;

/** The shortest diff of two texts by lines (longest common subsequence), without most of the unchanged lines. */
export function changesOf(before: string, after: string): Change[] {
  const [a, b] = [before, after].map((text) => text.trimEnd().split("\n")) as [string[], string[]];
  const isSame = (i: number, j: number): boolean => comparableLine(a[i]!) === comparableLine(b[j]!);
  // common[i][j]: how many lines a from i and b from j have in common, in order.
  const common = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i]![j] = isSame(i, j) ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
  const all: Change[] = [];
  for (let [i, j] = [0, 0]; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && isSame(i, j)) {
      all.push({ sign: " ", text: b[j]! });
      [i, j] = [i + 1, j + 1];
    } else if (j >= b.length || (i < a.length && common[i + 1]![j]! >= common[i]![j + 1]!))
      all.push({ sign: "-", text: a[i++]! });
    else all.push({ sign: "+", text: b[j++]! });
  }
  const isNear = all.map((_, k) =>
    all.slice(Math.max(0, k - AROUND), k + AROUND + 1).some(({ sign }) => sign === "-" || sign === "+"),
  );
  return all.flatMap((change, k): Change[] => {
    if (isNear[k]) return [change];
    if (k > 0 && !isNear[k - 1]) return []; // the first of a run of unchanged lines stands for all
    const end = isNear.indexOf(true, k);
    const count = (end < 0 ? all.length : end) - k;
    return [{ sign: "…", text: `${count} ${count === 1 ? "line" : "lines"} as before` }];
  });
}

/** The class of a line, for its colour; "" for none. */
export const COLOUR: Readonly<Record<Change["sign"], string>> = {
  " ": "",
  "-": "hljs-deletion",
  "+": "hljs-addition",
  "…": "hljs-comment",
};
