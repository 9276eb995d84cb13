/**
 * The curves of held-out success as a picture for a document: `success.svg`, with one panel for each environment. It
 * shows the mean over seeds with its 95 % bootstrap band against RL steps, as the page does. It has no script and is
 * readable on any background.
 */
import { formatPercent } from "../../run/figures/format.ts";
import type { Interval } from "../../run/figures/statistics.ts";
import { escapeHtml } from "../../run/page/frame.ts";
import type { ArmResult, EnvironmentResult, Results } from "./results.ts";

/** The colours of the page (run/page/theme.css, --line-1 to --line-8), and one more. */
const COLORS = ["#077474", "#5420a0", "#d2600c", "#0b62c4", "#b0287f", "#2c8a3c", "#866a00", "#5c6670", "#1b1f24"];

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [760, 340, 60, 230, 40, 44];

const text = (x: number, y: number, words: string, more = ""): string =>
  `<text x="${x}" y="${y}" fill="#222" ${more}>${escapeHtml(words)}</text>`;

export function pictureOf({ environments }: Results): string {
  const panels = environments.flatMap((environment, i) => panel(environment, i * HEIGHT));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${environments.length * HEIGHT}" role="img"` +
      ` aria-label="held-out success over RL steps" font-family="system-ui, sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    ...panels,
    "</svg>",
    "",
  ].join("\n");
}

function panel({ env, arms }: EnvironmentResult, top: number): string[] {
  const lastStep = Math.max(...arms.map(({ steps }) => steps), 1);
  const most = Math.max(
    ...arms.flatMap(({ curve }) => curve.success.map((s) => (s === null ? 0 : Math.max(s.value, s.high || 0)))),
  );
  // A quarter of the top of the axis is a whole number of percent.
  const ceiling = Math.max(0.2, Math.ceil(most * 5) / 5);
  const round = (value: number): number => Math.round(10 * value) / 10;
  const x = (step: number): number => round(LEFT + ((WIDTH - LEFT - RIGHT) * step) / lastStep);
  const y = (success: number): number => round(top + HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * success) / ceiling);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => ({ part, step: Math.round(part * lastStep) }));
  const line = ({ arm, curve, success }: ArmResult, i: number): string[] => {
    const [color, legend] = [COLORS[i % COLORS.length]!, top + TOP + 24 * i];
    const along = (of: (at: Interval) => number): string[] =>
      curve.steps.flatMap((step, k) => {
        const value = curve.success[k] ? of(curve.success[k]) : NaN;
        return Number.isFinite(value) ? [`${x(step)},${y(value)}`] : [];
      });
    // A single seed has no band.
    const edge = [...along(({ high }) => high), ...along(({ low }) => low).toReversed()];
    return [
      `<polygon points="${edge.join(" ")}" fill="${color}" opacity="0.13"/>`,
      `<polyline points="${along(({ value }) => value).join(" ")}" fill="none" stroke="${color}" stroke-width="2"/>`,
      `<rect x="${WIDTH - RIGHT + 14}" y="${legend}" width="12" height="12" fill="${color}"/>`,
      text(WIDTH - RIGHT + 32, legend + 11, `${arm} ${formatPercent(success.value)}`),
    ];
  };
  return [
    text(16, top + 24, `${env}: success on held-out tasks`, 'font-weight="600" font-size="14"'),
    ...ticks.flatMap(({ part, step }) => [
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(part * ceiling)}" y2="${y(part * ceiling)}" stroke="#ddd"/>`,
      text(LEFT - 8, y(part * ceiling) + 4, `${Math.round(100 * part * ceiling)} %`, 'text-anchor="end"'),
      text(x(step), top + HEIGHT - BOTTOM + 18, String(step), 'text-anchor="middle"'),
    ]),
    text((LEFT + WIDTH - RIGHT) / 2, top + HEIGHT - 8, "RL steps", 'text-anchor="middle"'),
    ...arms.flatMap(line),
  ];
}
