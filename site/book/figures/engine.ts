/** Figures of the chapters about derivatives and the machine, "Before 0" to 4. */
import { svg, type Svg } from "../svg.ts";
import type { Figure } from "./figure.ts";
import { figure, heatMap, lineChart, linesLike, lyingBars, numbersIn, path, text, WIDTH } from "./plot.ts";

/** A value of a computation, as `draw` of the first chapter prints it. */
interface Drawn {
  readonly name: string;
  readonly data: number;
  readonly slope: number;
  readonly parts: Drawn[];
}

function graphIn(printed: string): Drawn | undefined {
  const open: Drawn[] = [];
  for (const [, before, name, data, slope] of linesLike(
    printed,
    /^((?:[│ ] {2})*(?:[├└]─ )?)(.+?) += +(-?[\d.]+) +slope of L: ([+-]?[\d.]+)$/,
  )) {
    const one: Drawn = { name: name!, data: Number(data), slope: Number(slope), parts: [] };
    const depth = before!.length / 3;
    open.length = Math.min(open.length, depth);
    open.at(-1)?.parts.push(one);
    open[depth] = one;
  }
  return open[0];
}

const signed = (text: string): string => text.replace("-", "−");

/** Values in boxes, from left to right as they are computed; on each way the slope of that one step. */
function graph(printed: string): Svg | undefined {
  const root = graphIn(printed);
  if (root === undefined) return undefined;
  const [width, height, across, down] = [112, 50, 149, 74];
  const depthOf = ({ parts }: Drawn): number => 1 + Math.max(0, ...parts.map(depthOf));
  const right = WIDTH - width - 1;
  let leaves = 0;
  const edges: Svg[] = [];
  const boxes: Svg[] = [];
  const place = (one: Drawn, depth: number): { x: number; y: number } => {
    const parts = one.parts.map((part) => ({ part, ...place(part, depth + 1) }));
    const y = parts.length === 0 ? 8 + down * leaves++ : (parts[0]!.y + parts.at(-1)!.y) / 2;
    const x = right - across * depth;
    for (const { part, x: px, y: py } of parts) {
      edges.push(
        path(
          [
            [px + width, py + height / 2],
            [x, y + height / 2],
          ],
          "line s7",
        ),
        text(
          (px + width + x) / 2,
          (py + y + height) / 2 - 5,
          signed(`·${part.slope / one.slope}`),
          "small strong",
          "middle",
        ),
      );
    }
    boxes.push(
      svg("rect", { x, y, width, height, rx: 6, class: "box" }),
      text(x + width / 2, y + 20, signed(`${one.name} = ${one.data}`), "", "middle"),
      text(x + width / 2, y + 39, signed(`slope of L: ${one.slope}`), "small f0", "middle"),
    );
    return { x, y };
  };
  if (depthOf(root) > 4) return undefined;
  place(root, 0);
  return figure(down * leaves, "The values of L, from a, b and c on, with the slope of L by each", ...edges, ...boxes);
}

const power = (value: number): string => {
  const exponent = Math.round(Math.log10(value));
  return `10${Array.from(String(exponent), (digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)])).join("")}`;
};
const powers = (from: number, to: number, step: number): number[] =>
  Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, k) => 10 ** (from + k * step));

function differences(printed: string): Svg | undefined {
  const rows = linesLike(printed, /^1e-\d+ .*$/).map(([line]) => numbersIn(line));
  if (rows.length < 2 || rows.some((row) => row.length !== 5 || row.some((value) => !(value > 0)))) return undefined;
  const line = (name: string, column: number, isDashed = false) => ({
    name,
    isDashed,
    hasMarks: !isDashed,
    points: rows.map((row) => [row[0]!, Math.min(1, Math.max(1e-16, row[column]!))] as const),
  });
  return lineChart(
    "The error of a difference, by its step h",
    {
      label: "step h, smaller to the right",
      from: 0.1,
      to: 1e-13,
      ticks: powers(-13, -1, 2),
      isLogarithmic: true,
      show: power,
    },
    { label: "error", from: 1e-16, to: 1, ticks: powers(-16, 0, 4), isLogarithmic: true, show: power },
    [line("forward", 1), line("central", 2), line("h²·|f‴|/6", 3, true), line("u·|f|/h", 4, true)],
  );
}

function clippedLoss(printed: string): Svg | undefined {
  const rows = linesLike(printed, /^ *\d+\.\d+( +-?\d+\.\d+){5}$/).map(([line]) => numbersIn(line));
  const of = (A: number) => rows.filter((row) => row[1] === A).map((row) => [row[0]!, row[2]!] as const);
  if (of(1).length < 2 || of(-1).length < 2) return undefined;
  const losses = rows.map((row) => row[2]!);
  return lineChart(
    "The clipped loss by the ratio, for an advantage of 1 and of −1",
    { label: "ratio ρ: p now / p when it was drawn", from: 0.6, to: 1.4, ticks: [0.6, 0.8, 1, 1.2, 1.4] },
    {
      label: "loss",
      from: Math.min(-1.5, ...losses),
      to: Math.max(1.5, ...losses),
      ticks: [-1, 0, 1],
      show: (y) => signed(String(y)),
    },
    [
      { name: "A = 1: made likelier", points: of(1), hasMarks: true },
      { name: "A = −1: less likely", points: of(-1), hasMarks: true },
    ],
  );
}

function ladder(_own: string, printed: string): Svg | undefined {
  const steps = linesLike(printed, /^(\d .*?) +n = (\d+), .*measured ([\d.]+) GFLOP\/s$/);
  if (steps.length === 0) return undefined;
  const peak = Number(/^peak measured ([\d.]+)/m.exec(printed)?.[1] ?? 0);
  const bars = steps.map(([, name, n, speed]) => ({ name: `${name!}, n = ${n!}`, bars: [Number(speed)] }));
  const all = [...bars, ...(peak > 0 ? [{ name: "the peak of this machine", bars: [peak] }] : [])];
  return lyingBars(
    "Multiplications and additions per second, in billions",
    Math.max(...all.map((row) => row.bars[0]!)),
    all,
  );
}

function attention(printed: string): Svg | undefined {
  const columns =
    linesLike(printed, /^ +\D(?: +\D)+$/)[0]?.[0]
      .trim()
      .split(/ +/) ?? [];
  const rows = linesLike(printed, /^(\D)((?: +\d+)+)$/).map(([, letter, found]) => ({
    letter: letter!,
    shares: numbersIn(found!),
  }));
  const isGrid = rows.every(({ shares }) => shares.length <= columns.length && shares.every((p) => p >= 0 && p <= 100));
  if (columns.length < 2 || rows.length === 0 || !isGrid) return undefined;
  const size = Math.min(46, (WIDTH - 80) / columns.length);
  return heatMap(
    "Where a head looks: each row a token, in percent",
    rows.map(({ letter }) => letter),
    columns,
    rows.map(({ shares }) => shares.map((p) => ({ share: p / 100, says: p === 0 ? "" : String(p) }))),
    { left: 40, top: 32, size, tall: 32 },
  );
}

/** Success by equal parts of a run. */
export function shares(
  title: string,
  label: string,
  lines: readonly { readonly name: string; readonly values: readonly number[] }[],
): Svg | undefined {
  const length = lines[0]?.values.length ?? 0;
  if (length < 2 || lines.some(({ values }) => values.length !== length || values.some(Number.isNaN))) return undefined;
  return lineChart(
    title,
    { label, from: 1, to: length, ticks: Array.from({ length }, (_, k) => k + 1) },
    { label: "%", from: 0, to: 100, ticks: [0, 25, 50, 75, 100] },
    lines.map(({ name, values }) => ({ name, points: values.map((y, k) => [k + 1, y] as const), hasMarks: true })),
  );
}

function micro(printed: string): Svg | undefined {
  const lines = linesLike(printed, /^(.+?) +opened at once: +([\d ]+) %/);
  return shares(
    "Safes opened at first try, by tenths of the training",
    "tenths of the training",
    lines.map(([, name, values]) => ({ name: name!, values: numbersIn(values!) })),
  );
}

export const BEFORE: readonly Figure[] = [
  {
    section: "Backwards",
    about: "On each way stands the slope of that step. Along a way the slopes are multiplied: 8 · 1 · −3 = −24.",
    draw: graph,
  },
];
export const MICRO: readonly Figure[] = [
  {
    section: "4 · Learning",
    about: "Safes opened at first try. The same network and tasks; only what is learnt from differs.",
    draw: micro,
  },
];
export const TAPE: readonly Figure[] = [
  {
    section: "Differences, and which step",
    about: "Too large a step misses the curve, too small a one drowns in rounding. Dashed: what theory says of each.",
    draw: differences,
  },
];
export const FORMULA: readonly Figure[] = [
  {
    section: "Is it right?",
    about: "The clipped loss. It is flat where a token has already moved far enough in the wanted direction.",
    draw: clippedLoss,
  },
];
export const LADDER: readonly Figure[] = [
  {
    section: "Where the ladder ends: the roofline",
    about: "The whole ladder, in GFLOP/s. A tile makes it fast; packing keeps it fast where n is large.",
    draw: ladder,
  },
];
export const TRANSFORMER: readonly Figure[] = [
  {
    section: "What a head looks at",
    about: "Each row is a token, each square the share of its attention, in percent. Above the diagonal is the future.",
    draw: attention,
  },
];
