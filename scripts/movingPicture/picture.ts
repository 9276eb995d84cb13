/**
 * An SVG that moves by itself: a square for each fact and agent, which fills as the agent comes to believe the fact,
 * and a curve for each agent, drawn as far as it has come. It has no script, so it moves in an `img`, too.
 */
import type { KnownFact } from "../../run/records.ts";
import { isKnown } from "../../run/knownFacts.ts";
import { escapeHtml } from "../../run/page/frame.ts";

/** What was measured of an agent, in the order of steps. */
export interface Followed {
  readonly label: string;
  readonly knowledge: readonly { readonly step: number; readonly facts: readonly KnownFact[] }[];
  readonly success: readonly { readonly step: number; readonly share: number }[];
}

/** Seconds of one round: the run, and a rest at its end. */
const [MOVING, RESTING] = [12, 4];
const [WIDTH, HEIGHT] = [840, 270];
/** Squares of a map: their size, the distance between two, and how many are in a row. */
const [SIZE, STEP, PER_ROW] = [15, 19, 10];
/** The drawing of the curves. */
const CHART = { left: 520, top: 62, width: 290, height: 170 } as const;
const LEGEND = "a square is a fact of an unknown computer: the fuller, the surer the agent";
/** The colours of two agents on light and on dark ground: those of the pages (run/page/theme.css). */
const [LIGHT, DARK] = [["#077474", "#5420a0"] as const, ["#4fd0d0", "#a274ff"] as const];
const coloured = (colours: readonly string[]): string =>
  colours.map((colour, i) => `.of-${i} { fill: ${colour}; } .line-${i} { fill: none; stroke: ${colour}; }`).join(" ");

const STYLE = `
text { font: 14px system-ui, "DejaVu Sans", sans-serif; fill: #1b1f24; }
.small { font-size: 12px; fill: #5c6670; }
.back { fill: #ffffff; }
.edge { fill: none; stroke: #8a939c; }
.grid { stroke: #e4e7eb; }
${coloured(LIGHT)}
@media (prefers-color-scheme: dark) {
  text { fill: #e4e8ee; }
  .small { fill: #98a2ae; }
  .back { fill: #0e1116; }
  .grid { stroke: #323a45; }
  ${coloured(DARK)}
}`;

/** @param steps RL steps of the whole run */
export function pictureOf(agents: readonly Followed[], steps: number): string {
  const most = Math.max(0.1, ...agents.flatMap(({ success }) => success.map(({ share }) => share)));
  const top = Math.ceil(most * 10) / 10;
  const body = [
    `<text x="24" y="20" class="small">${LEGEND}</text>`,
    ...agents.map((agent, i) => mapOf(agent, i, steps)),
    axesOf(top, steps),
    ...agents.map((agent, i) => curveOf(agent, i, top, steps)),
  ];
  const said = agents.map(({ label, success }) => `${label} ends at ${percent(success.at(-1)!.share)}`).join(", ");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img">
<title>Two agents learn to use an unknown computer: ${said} of new tasks</title>
<style>${STYLE}</style>
<rect class="back" width="${WIDTH}" height="${HEIGHT}" rx="10"/>
${body.join("\n")}
</svg>
`;
}

const percent = (share: number): string => `${Math.round(100 * share)} %`;

/**
 * The values of an attribute as it goes through the run and rests at the end.
 * @param leaps whether it stays at each value until the next
 */
function moving(
  attribute: string,
  values: readonly (readonly [step: number, value: string])[],
  steps: number,
  leaps = false,
): string {
  const round = MOVING + RESTING;
  const times = values.map(([step]) => ((MOVING / round) * step) / steps);
  const all = [...values.map(([, value]) => value), values.at(-1)![1]];
  const keys = [...times, 1].map((time) => Number(time.toFixed(4)));
  return (
    `<animate attributeName="${attribute}" dur="${round}s" repeatCount="indefinite" ` +
    (leaps ? 'calcMode="discrete" ' : "") +
    `values="${all.join(";")}" keyTimes="${keys.join(";")}"/>`
  );
}

function mapOf({ label, knowledge }: Followed, agent: number, steps: number): string {
  const [x, y] = [24 + agent * 240, 84];
  const colour = agent % 2;
  const last = knowledge.at(-1)!.facts;
  const squares = last.map(({ says }, i) => {
    const at = `x="${x + STEP * (i % PER_ROW)}" y="${y + STEP * Math.floor(i / PER_ROW)}"`;
    const size = `width="${SIZE}" height="${SIZE}" rx="3"`;
    const shades = knowledge.map(({ step, facts }): [number, string] => [step, facts[i]!.p.toFixed(1)]);
    const end = shades.at(-1)![1];
    const fill = `<rect ${at} ${size} class="of-${colour}" opacity="${end}">${moving("opacity", shades, steps)}`;
    return `${fill}<title>${escapeHtml(says)}</title></rect><rect class="edge" ${at} ${size}/>`;
  });
  const teachers = agent === 0 ? "learns from rewards alone" : "also predicts the answers";
  const foot = y + STEP * Math.ceil(last.length / PER_ROW) + 16;
  const counts = knowledge.map(({ step, facts }) => ({ step, known: facts.filter(isKnown).length }));
  // Each count is a text that is seen while it holds; without motion the last one is.
  const counted = [...new Set(counts.map(({ known }) => known))].map((count) => {
    const seen = counts.map(({ step, known }): [number, string] => [step, known === count ? "1" : "0"]);
    const isLast = counts.at(-1)!.known === count;
    return (
      `<text x="${x}" y="${foot}" class="small" opacity="${isLast ? 1 : 0}">knows ${count} of ${last.length} facts` +
      `${moving("opacity", seen, steps, true)}</text>`
    );
  });
  return [
    `<text x="${x}" y="44" font-weight="600" class="of-${colour}">${label}</text>`,
    `<text x="${x}" y="64" class="small">${teachers}</text>`,
    ...squares,
    ...counted,
  ].join("\n");
}

function axesOf(top: number, steps: number): string {
  const { left, top: y, width, height } = CHART;
  const lines = [0, 0.5, 1].map((part) => {
    const at = y + height * (1 - part);
    return (
      `<line class="grid" x1="${left}" x2="${left + width}" y1="${at}" y2="${at}"/>` +
      `<text class="small" x="${left - 8}" y="${at + 4}" text-anchor="end">${percent(part * top)}</text>`
    );
  });
  return [
    `<text x="${left}" y="44" font-weight="600">tasks solved that training never asks</text>`,
    ...lines,
    `<text class="small" x="${left}" y="${y + height + 20}">0</text>`,
    `<text class="small" x="${left + width}" y="${y + height + 20}" text-anchor="end">` +
      `${steps} steps of training</text>`,
  ].join("\n");
}

function curveOf({ success }: Followed, agent: number, top: number, steps: number): string {
  const { left, top: y, width, height } = CHART;
  const points = success.map(({ step, share }): [number, number] => [
    left + (width * step) / steps,
    y + height * (1 - share / top),
  ]);
  const path = points.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" ");
  const id = `seen-${agent}`;
  const widths = [0, steps].map((step): [number, string] => [step, String((width * step) / steps + 6)]);
  return [
    `<clipPath id="${id}"><rect x="${left - 3}" y="${y - 10}" width="${width + 6}" height="${height + 20}">` +
      `${moving("width", widths, steps)}</rect></clipPath>`,
    `<polyline points="${path}" class="line-${agent % 2}" stroke-width="2.5" clip-path="url(#${id})"/>`,
    `<text x="${left + width}" y="${points.at(-1)![1] - 8}" text-anchor="end" class="of-${agent % 2}" ` +
      `clip-path="url(#${id})">${percent(success.at(-1)!.share)}</text>`,
  ].join("\n");
}
