/** Parts of the figures: axes, lines with their names at their ends, points, cells. */
import { svg, type Svg } from "../svg.ts";

export interface Axis {
  readonly label: string;
  /** Values at its two ends. */
  readonly from: number;
  readonly to: number;
  readonly ticks: readonly number[];
  readonly isLogarithmic?: boolean;
  readonly show?: (value: number) => string;
}

/** A line of a chart. Its number chooses its colour. */
export interface PlotLine {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  readonly isDashed?: boolean;
  readonly hasMarks?: boolean;
}

/** All figures are this wide; the page shows them smaller where it has less room. */
export const WIDTH = 560;
const [LEFT, TOP, BOTTOM] = [52, 28, 44];
/** Pixels between the texts of two names. */
const LINE = 17;
/** Pixels of a letter of small text, about. */
const LETTER = 7.5;

export const text = (x: number, y: number, words: string, classes = "", anchor = "start"): Svg =>
  svg("text", { x, y, class: classes, "text-anchor": anchor }, words);

/** The whole figure. @param title what those hear who cannot see it */
export const figure = (height: number, title: string, ...parts: readonly Svg[]): Svg =>
  svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": title }, ...parts);

/** The place of a value between two ends. */
export function scale(
  { from, to, isLogarithmic = false }: Axis,
  start: number,
  end: number,
): (value: number) => number {
  const at = isLogarithmic ? Math.log : (value: number): number => value;
  return (value) => start + ((end - start) * (at(value) - at(from))) / (at(to) - at(from));
}

export interface Frame {
  readonly x: (value: number) => number;
  readonly y: (value: number) => number;
  readonly right: number;
  readonly bottom: number;
  readonly parts: readonly Svg[];
}

/** Axes with their ticks. @param margin pixels to the right of them */
export function frame(x: Axis, y: Axis, height: number, margin = 14): Frame {
  const [right, bottom] = [WIDTH - margin, height - BOTTOM];
  const [atX, atY] = [scale(x, LEFT, right), scale(y, bottom, TOP)];
  const [sayX, sayY] = [x.show ?? String, y.show ?? String];
  const parts = [
    ...y.ticks.flatMap((tick) => [
      svg("line", { class: "grid", x1: LEFT, x2: right, y1: atY(tick), y2: atY(tick) }),
      text(LEFT - 7, atY(tick) + 4, sayY(tick), "small", "end"),
    ]),
    ...x.ticks.map((tick) => text(atX(tick), bottom + 17, sayX(tick), "small", "middle")),
    text((LEFT + right) / 2, height - 6, x.label, "small", "middle"),
    text(0, 10, y.label, "small"),
  ];
  return { x: atX, y: atY, right, bottom, parts };
}

/** Lines with their names at their right ends, moved apart where they would cover each other. */
export function lineChart(title: string, x: Axis, y: Axis, lines: readonly PlotLine[], height = 300): Svg {
  const longest = Math.max(...lines.map(({ name }) => name.length));
  const { parts, ...at } = frame(x, y, height, 20 + LETTER * longest);
  const ends = lines.map(({ points }, i) => ({ i, y: at.y(points.at(-1)![1]) }));
  const apart = spread(
    ends.map((end) => end.y),
    at.bottom,
  );
  return figure(
    height,
    title,
    ...parts,
    ...lines.flatMap(({ name, points, isDashed = false, hasMarks = false }, i) => [
      path(
        points.map(([px, py]) => [at.x(px), at.y(py)]),
        `line s${i}${isDashed ? " dashed" : ""}`,
      ),
      ...(hasMarks
        ? points.map(([px, py]) => svg("circle", { cx: at.x(px), cy: at.y(py), r: 3, class: `f${i}` }))
        : []),
      text(at.right + 8, apart[i]! + 4, name, `small f${i}`),
    ]),
  );
}

export const path = (points: readonly (readonly [x: number, y: number])[], classes: string): Svg =>
  svg("polyline", { points: points.map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" "), class: classes });

/** Heights near these, none closer to another than a line of text, and none below `bottom`. */
function spread(heights: readonly number[], bottom: number): number[] {
  const order = heights.map((y, i) => ({ y, i })).toSorted((a, b) => a.y - b.y);
  const placed: number[] = [];
  for (const { y } of order) placed.push(Math.max(y, (placed.at(-1) ?? -Infinity) + LINE));
  for (let k = placed.length - 1; k >= 0; k--)
    placed[k] = Math.min(placed[k]!, bottom - LINE * (placed.length - 1 - k));
  const result: number[] = [];
  order.forEach(({ i }, k) => (result[i] = placed[k]!));
  return result;
}

/** Bars of several colours with their values, and what the colours mean above them. */
interface Bars {
  readonly name: string;
  readonly bars: readonly number[];
}

/** What colours mean, in a row. */
function legendAt(y: number, names: readonly string[]): Svg[] {
  let x = LEFT;
  return names.flatMap((name, k) => {
    const parts = [
      svg("rect", { x, y: y - 10, width: 11, height: 11, class: `f${k}` }),
      text(x + 16, y, name, "small"),
    ];
    x += 34 + LETTER * name.length;
    return parts;
  });
}

/** Upright bars, groups of them side by side. */
export function barChart(
  title: string,
  y: Axis,
  groups: readonly Bars[],
  legend: readonly string[],
  height = 280,
): Svg {
  const { parts, ...at } = frame({ label: "", from: 0, to: groups.length, ticks: [] }, y, height);
  const show = y.show ?? String;
  return figure(
    height,
    title,
    ...parts,
    ...groups.flatMap(({ name, bars }, g) => {
      const width = (at.x(g + 1) - at.x(g)) / (bars.length + 0.6);
      return [
        ...bars.flatMap((value, k) => {
          const left = at.x(g) + width * (k + 0.3);
          const box = { x: left + 1, y: at.y(value), width: width - 2, height: at.bottom - at.y(value) };
          return [
            svg("rect", { ...box, class: `f${k}` }),
            text(left + width / 2, at.y(value) - 4, show(value), "small", "middle"),
          ];
        }),
        text((at.x(g) + at.x(g + 1)) / 2, at.bottom + 17, name, "small", "middle"),
      ];
    }),
    ...legendAt(height - 5, legend),
  );
}

/** Lying bars, each row with its name before it. */
export function lyingBars(title: string, most: number, rows: readonly Bars[], legend: readonly string[] = []): Svg {
  const left = 14 + 1.1 * LETTER * Math.max(...rows.map(({ name }) => name.length));
  const count = rows[0]!.bars.length;
  const [thick, gap] = [count > 1 ? 12 : 19, count > 1 ? 10 : 7];
  const height = rows.length * (count * thick + gap) + (legend.length > 0 ? 24 : 0);
  const length = (value: number): number => ((WIDTH - left - 50) * value) / most;
  return figure(
    height,
    title,
    ...rows.flatMap(({ name, bars }, r) => {
      const top = r * (count * thick + gap);
      return [
        text(left - 8, top + (count * thick) / 2 + 5, name, "small", "end"),
        ...bars.flatMap((value, k) => [
          svg("rect", {
            x: left,
            y: top + thick * k,
            width: Math.max(1, length(value)),
            height: thick - 1,
            class: `f${k}`,
          }),
          text(left + length(value) + 6, top + thick * (k + 0.5) + 4, String(Number(value.toPrecision(3))), "small"),
        ]),
      ];
    }),
    ...legendAt(height - 4, legend),
  );
}

/** Squares of which each is as dark as its share, with a text in it; undefined has no square. */
export function heatMap(
  title: string,
  rows: readonly string[],
  columns: readonly string[],
  cells: readonly (readonly ({ readonly share: number; readonly says: string } | undefined)[])[],
  {
    left,
    top,
    size,
    tall,
  }: { readonly left: number; readonly top: number; readonly size: number; readonly tall: number },
): Svg {
  return figure(
    top + tall * rows.length + 8,
    title,
    ...columns.map((name, k) => text(left + size * (k + 0.5), top - 8, name, "small", "middle")),
    ...rows.flatMap((name, r) => [
      text(left - 8, top + tall * (r + 0.5) + 4, name, "small", "end"),
      ...cells[r]!.flatMap((cell, k) =>
        cell === undefined
          ? []
          : [
              svg("rect", {
                x: left + size * k + 1,
                y: top + tall * r + 1,
                width: size - 2,
                height: tall - 2,
                class: "heat",
                "fill-opacity": String(Math.round(100 * (0.04 + 0.7 * cell.share)) / 100),
              }),
              text(left + size * (k + 0.5), top + tall * (r + 0.5) + 4, cell.says, "small", "middle"),
            ],
      ),
    ]),
  );
}

/** All numbers of a text. */
export const numbersIn = (words: string): number[] =>
  [...words.replaceAll("−", "-").matchAll(/-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NaN|-?Infinity/g)].map(([found]) =>
    Number(found),
  );

/** The lines of an output that a pattern fits. */
export const linesLike = (printed: string, pattern: RegExp): RegExpExecArray[] =>
  printed.split("\n").flatMap((line) => {
    const found = pattern.exec(line);
    return found === null ? [] : [found];
  });

/** Even steps from 0 to at least `most`: at most six. */
export function ticksTo(most: number): number[] {
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [0.2, 0.5, 1, 2].map((part) => part * power).find((size) => most / size <= 5)!;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, k) => Number((k * step).toPrecision(12)));
}
