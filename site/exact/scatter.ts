/**
 * Sampled gradients in a plane, with the true gradient, their mean and its uncertainty as arrows. Drawn by uPlot. One
 * unit is as long in both directions, so that angles are true. Runs in the browser.
 */
import uPlot from "uplot";
import { formatNumber } from "../../run/figures/format.ts";
import { chartCard, shortTicks } from "../../run/page/charts.ts";
import { cssColour, element } from "../../run/page/dom.ts";
import type { Point, Sample } from "./laboratory.ts";

const HEIGHT = 400;
const [LEFT, BOTTOM] = [58, 30];
/** 95 % of a normal distribution in two dimensions lie within this many deviations: √(χ²₂ at 0.95). */
const DEVIATIONS = Math.sqrt(5.991);

/** The labels and colours of the arrows. */
const ARROWS = [
  ["true gradient", "--text"],
  ["expected step", "--line-3"],
  ["mean of the sampled steps, with its 95 % region", "--line-2"],
  ["world model's gradient, as long as the true one", "--line-4"],
] as const;

const ACROSS = {
  bias: "the direction of the method's bias",
  noise: "the direction in which the steps differ most",
  world: "the direction of the world model's gradient",
} as const;

export class Scatter {
  readonly card: HTMLElement;
  readonly #host = element("div", { class: "plot scatter", role: "img", "aria-label": "Sampled steps" });
  readonly #about = element("figcaption", {}, "");
  #sample: Sample | null = null;
  #plot: uPlot | null = null;

  constructor() {
    this.card = chartCard({ title: "Sampled steps, seen from the true gradient", about: "" }, this.#host);
    this.card.append(legend(), this.#about);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    new ResizeObserver(() => {
      if (this.#plot?.width !== this.#width()) this.#draw();
    }).observe(this.#host);
  }

  show(sample: Sample): void {
    this.#sample = sample;
    this.#host.setAttribute("aria-label", inWords(sample));
    this.#about.textContent =
      `To the right: along the true gradient, whose length is 1. Up: ${ACROSS[sample.plane]}, at a right angle. ` +
      "Each point is the gradient of one step.";
    this.#draw();
  }

  #width(): number {
    return Math.floor(this.#host.clientWidth);
  }

  #draw(): void {
    this.#plot?.destroy();
    this.#plot = null;
    const [sample, width] = [this.#sample, this.#width()];
    if (sample === null || width < 50) return;
    const sorted = sample.points.toSorted((a, b) => a[0] - b[0]);
    const data: uPlot.AlignedData = [sorted.map(([x]) => x), sorted.map(([, y]) => y)];
    this.#plot = new uPlot(options(sample, width), data, this.#host);
  }
}

function legend(): HTMLElement {
  const entries = ARROWS.map(([text, colour]) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = `var(${colour})`;
    return element("span", { class: "entry" }, swatch, text);
  });
  return element("div", { class: "legend" }, ...entries);
}

function options(sample: Sample, width: number): uPlot.Options {
  const [x, y] = ranges(sample, width);
  const axis = {
    stroke: cssColour("--muted"),
    grid: { stroke: cssColour("--grid"), width: 1 },
    ticks: { show: false },
  };
  const values = (_plot: uPlot, ticks: number[]): string[] => shortTicks(ticks, { format: "number" });
  return {
    width,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    scales: { x: { time: false, range: x }, y: { range: y } },
    axes: [
      { ...axis, size: BOTTOM, values },
      { ...axis, size: LEFT, values },
    ],
    series: [
      {},
      {
        paths: () => null,
        points: { show: true, size: 5, width: 0, fill: `${cssColour("--line-1")}88`, stroke: "transparent" },
      },
    ],
    legend: { show: false },
    cursor: { show: false },
    hooks: { draw: [(plot) => drawArrows(plot, sample)] },
  };
}

/** Ranges that hold all points and arrows, with the same unit in both directions. */
function ranges({ points, mean, world, expected }: Sample, width: number): [[number, number], [number, number]] {
  const all: readonly Point[] = [...points, mean, world, [0, 0], [1, 0], ...(expected ? [expected] : [])];
  const extent = (i: 0 | 1): [number, number] => {
    const values = all.map((p) => p[i]);
    return [Math.min(...values), Math.max(...values)];
  };
  const spans = [extent(0), extent(1)] as const;
  const room = [width - LEFT - 8, HEIGHT - BOTTOM - 8] as const;
  const unit = 1.08 * Math.max(...spans.map(([low, high], i) => (high - low) / room[i]!));
  const centred = (i: 0 | 1): [number, number] => {
    const middle = (spans[i][0] + spans[i][1]) / 2;
    return [middle - (unit * room[i]) / 2, middle + (unit * room[i]) / 2];
  };
  return [centred(0), centred(1)];
}

function drawArrows(plot: uPlot, sample: Sample): void {
  const { ctx } = plot;
  const at = ([x, y]: Point): [number, number] => [plot.valToPos(x, "x", true), plot.valToPos(y, "y", true)];
  const arrow = (to: Point | undefined, colour: string, width: number): void => {
    if (to === undefined) return;
    const [[x0, y0], [x1, y1]] = [at([0, 0]), at(to)];
    const angle = Math.atan2(y1 - y0, x1 - x0);
    const head = Math.min((5 + 2.2 * width) * devicePixelRatio, 0.5 * Math.hypot(x1 - x0, y1 - y0));
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = width * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.lineTo(x1 - head * Math.cos(angle), y1 - head * Math.sin(angle));
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    for (const turn of [-0.45, 0.45])
      ctx.lineTo(x1 - head * Math.cos(angle + turn), y1 - head * Math.sin(angle + turn));
    ctx.fill();
  };
  ctx.save();
  const [truth, expected, mean, world] = ARROWS.map(([, colour]) => cssColour(colour)) as [
    string,
    string,
    string,
    string,
  ];
  // The last three may lie upon each other, so each is thinner than the one before.
  arrow(sample.world, world, 2.5);
  arrow([1, 0], truth, 5.5);
  arrow(sample.expected, expected, 3.5);
  arrow(sample.mean, mean, 1.5);
  ctx.strokeStyle = mean;
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  for (let i = 0; i <= 60; i++) ctx.lineTo(...at(onEllipse(sample, (2 * Math.PI * i) / 60)));
  ctx.stroke();
  ctx.restore();
}

/** A point on the edge of the mean's 95 % region: the mean + √χ²·L·(cos, sin), L·Lᵀ the mean's covariance. */
function onEllipse({ mean, meanCovariance: [xx, yy, xy] }: Sample, angle: number): Point {
  const a = Math.sqrt(xx);
  const b = a === 0 ? 0 : xy / a;
  const c = Math.sqrt(Math.max(0, yy - b * b));
  const [u, v] = [DEVIATIONS * Math.cos(angle), DEVIATIONS * Math.sin(angle)];
  return [mean[0] + a * u, mean[1] + b * u + c * v];
}

/** The picture in words, for those who cannot see it. */
function inWords({ points, mean, meanCovariance: [xx, yy], expected, world, plane }: Sample): string {
  const place = ([x, y]: Point): string => `${formatNumber(x)} along and ${formatNumber(y)} across`;
  const errors = [xx, yy].map((variance) => formatNumber(Math.sqrt(variance))).join(" and ");
  const uphill = points.filter(([along]) => along > 0).length;
  return [
    `${points.length} sampled steps as points; the true gradient is the arrow to 1 along and 0 across.`,
    `Their mean lies at ${place(mean)}, with standard errors of ${errors}.`,
    expected ? `The expected step lies at ${place(expected)}.` : "",
    `The world model's gradient points to ${place(world)}. Across is ${ACROSS[plane]}.`,
    `${uphill} of the points lie on the true gradient's side.`,
  ].join(" ");
}
