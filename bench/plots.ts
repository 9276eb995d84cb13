/** Plots as SVG text: bars, and lines on logarithmic axes, without a library or script, readable on any background. */

export interface Bars {
  readonly title: string;
  readonly unit: string;
  readonly groups: readonly {
    readonly name: string;
    readonly bars: readonly { readonly name: string; readonly value: number }[];
  }[];
}

export interface Lines {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly lines: readonly { readonly name: string; readonly points: readonly (readonly [number, number])[] }[];
}

const COLORS = ["#2456a6", "#6f9fe0", "#c8553d", "#e6a15c", "#5b8c5a", "#9bb99a", "#7a5c99", "#999999", "#444444"];
const FONT = 'font-family="system-ui, sans-serif" font-size="12"';

const escape = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const label = (x: number, y: number, text: string, more = ""): string =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" fill="#222" ${more}>${escape(text)}</text>`;

function picture(width: number, height: number, title: string, parts: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" ` +
      `aria-label="${escape(title)}" ${FONT}>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    label(16, 24, title, 'font-weight="600" font-size="14"'),
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}

const short = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3);

/** Horizontal bars in groups. Each group has its own scale, so that small cases are readable beside large ones. */
export function barPlot({ title, unit, groups }: Bars): string {
  const [width, left, bar] = [760, 240, 18];
  const names = [...new Set(groups.flatMap(({ bars }) => bars.map(({ name }) => name)))];
  const parts: string[] = [];
  let y = 44;
  for (const { name, bars } of groups) {
    parts.push(label(16, y + 12, name, 'font-weight="600"'));
    y += 20;
    const most = Math.max(...bars.map(({ value }) => value));
    for (const entry of bars) {
      const length = Math.max(1, ((width - left - 130) * entry.value) / most);
      parts.push(label(left - 8, y + 13, entry.name, 'text-anchor="end"'));
      parts.push(
        `<rect x="${left}" y="${y + 2}" width="${length.toFixed(1)}" height="${bar - 4}" ` +
          `fill="${COLORS[names.indexOf(entry.name) % COLORS.length]}"/>`,
      );
      parts.push(label(left + length + 6, y + 13, `${short(entry.value)} ${unit}`));
      y += bar;
    }
    y += 10;
  }
  return picture(width, y + 6, title, parts);
}

/** Powers of ten that cover the values. */
function decades(values: readonly number[]): number[] {
  const [from, to] = [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
  return Array.from({ length: Math.max(to - from, 1) + 1 }, (_, i) => from + i);
}

/** A plot with logarithmic axes: a power law is a straight line, and its exponent is the slope. */
export function linePlot({ title, x, y, lines }: Lines): string {
  const [width, height, left, right, top, bottom] = [760, 380, 70, 180, 44, 50];
  const points = lines.flatMap((line) => line.points);
  const [xs, ys] = [decades(points.map((p) => p[0])), decades(points.map((p) => p[1]))];
  const place = (value: number, ticks: readonly number[], from: number, to: number): number =>
    from + ((to - from) * (Math.log10(value) - ticks[0]!)) / (ticks.at(-1)! - ticks[0]!);
  const atX = (value: number): number => place(value, xs, left, width - right);
  const atY = (value: number): number => place(value, ys, height - bottom, top);
  const grid = (x1: number, y1: number, x2: number, y2: number): string =>
    `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" stroke="#ddd"/>`;
  const tick = (power: number): string => Number(`1e${power}`).toLocaleString("en-US", { maximumFractionDigits: 6 });
  const parts = [
    ...xs.flatMap((p) => [
      grid(atX(10 ** p), top, atX(10 ** p), height - bottom),
      label(atX(10 ** p), height - bottom + 18, tick(p), 'text-anchor="middle"'),
    ]),
    ...ys.flatMap((p) => [
      grid(left, atY(10 ** p), width - right, atY(10 ** p)),
      label(left - 8, atY(10 ** p) + 4, tick(p), 'text-anchor="end"'),
    ]),
    label((left + width - right) / 2, height - 10, x, 'text-anchor="middle"'),
    label(16, top - 6, y),
    ...lines.flatMap((line, i) => {
      const color = COLORS[i % COLORS.length]!;
      const path = line.points.map(([x, y]) => `${atX(x).toFixed(1)},${atY(y).toFixed(1)}`).join(" ");
      return [
        `<polyline points="${path}" fill="none" stroke="${color}" stroke-width="2"/>`,
        ...line.points.map(
          ([x, y]) => `<circle cx="${atX(x).toFixed(1)}" cy="${atY(y).toFixed(1)}" r="3" fill="${color}"/>`,
        ),
        `<rect x="${width - right + 14}" y="${top + 22 * i}" width="12" height="12" fill="${color}"/>`,
        label(width - right + 32, top + 11 + 22 * i, line.name),
      ];
    }),
  ];
  return picture(width, height, title, parts);
}
