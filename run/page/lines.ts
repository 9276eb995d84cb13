/** Common parts of an ablation's and a comparison's charts: a line for each arm. Runs in the browser. */
import type uPlot from "uplot";
import { formatAs, type NumberFormat } from "../figures/format.ts";
import { shortTicks, yRange } from "./charts.ts";
import { cssColour } from "./dom.ts";

const HEIGHT = 260;
/** Dashes, so that lines differ by more than their colour. */
const DASHES: readonly number[][] = [[], [9, 4], [3, 3], [12, 4, 3, 4], [6, 2], [2, 5], [14, 6], [4, 8]];

/** The colour of the i-th line. There are eight colours. */
export const lineColour = (i: number): string => cssColour(`--line-${1 + (Math.max(0, i) % 8)}`);

/** The style of the i-th line. */
export const lineStyle = (i: number): uPlot.Series => ({
  stroke: lineColour(i),
  width: 2,
  dash: DASHES[i % DASHES.length]!,
  spanGaps: true,
  // A line of one value would be invisible.
  points: {
    show: (plot, of) => [...plot.data[of]!].filter((value) => value !== null).length === 1,
    size: 6,
    fill: lineColour(i),
  },
});

/** The series of the horizontal axis. @param last what the values are of that stand beside it without a cursor */
export const axisSeries = (label: string, last = "end"): uPlot.Series => ({
  label,
  value: (_plot, x) => (x === null ? last : formatAs("count", x)),
});

/** The options of a chart except its series. @param sync charts with the same name have one cursor */
export function lineFrame(
  chart: { readonly format: NumberFormat; readonly height?: number; readonly atLeast?: number },
  width: number,
  sync: string,
): Omit<uPlot.Options, "series"> {
  const lines = {
    stroke: cssColour("--muted"),
    grid: { stroke: cssColour("--grid"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: chart.height ?? HEIGHT,
    scales: {
      x: { time: false, range: (_plot, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
      y: { range: (_plot, low, high) => yRange(chart, low, high && Math.max(high, chart.atLeast ?? high)) },
    },
    axes: [
      { ...lines, size: 30 },
      {
        ...lines,
        size: 58,
        values: (_plot, ticks) => shortTicks(ticks, chart),
      },
    ],
    cursor: { sync: { key: sync }, y: false, points: { size: 7 }, drag: { x: true, y: false } },
  };
}

/** The series of a horizontal axis that counts something; without a cursor the last count. */
export const countSeries = (label: string): uPlot.Series => ({
  label,
  value: (plot, x) => formatAs("count", x ?? plot.data[0].at(-1) ?? NaN),
});

type Frame = ReturnType<typeof lineFrame>;

/** The frame with a horizontal axis on which each doubling takes as much room. */
export const doublings = (frame: Frame): Frame => ({
  ...frame,
  scales: { ...frame.scales, x: { ...frame.scales!["x"], distr: 3, log: 2 } },
  axes: [
    {
      ...frame.axes![0],
      splits: (plot) => [...plot.data[0]],
      filter: (_plot, splits) => splits,
      values: (_plot, ticks) => ticks.map(String),
    },
    ...frame.axes!.slice(1),
  ],
});

/** The frame with a horizontal axis from 0 to `upTo`, whatever has been measured. */
export const spanning = (frame: Frame, upTo: number): Frame => ({
  ...frame,
  scales: { ...frame.scales, x: { ...frame.scales!["x"], range: () => [0, upTo] } },
});

/** Draws an upright line with its number at each of these places of the horizontal axis. */
export function drawEvents(plot: uPlot, places: readonly number[]): void {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = cssColour("--muted");
  ctx.lineWidth = scale;
  ctx.setLineDash([2 * scale, 3 * scale]);
  ctx.font = `${11 * scale}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  let [last, row] = [-Infinity, 0];
  places.forEach((place, i) => {
    const x = Math.round(plot.valToPos(place, "x", true));
    // Numbers that would touch stand in two rows.
    row = x - last < 16 * scale ? 1 - row : 0;
    last = x;
    const top = bbox.top + row * 12 * scale;
    ctx.beginPath();
    ctx.moveTo(x, top + 14 * scale);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(String(i + 1), x, top + 10 * scale);
  });
  ctx.restore();
}

/** The frame with a logarithmic vertical axis. */
export const powers = (frame: Frame): Frame => ({ ...frame, scales: { ...frame.scales, y: { distr: 3 } } });
