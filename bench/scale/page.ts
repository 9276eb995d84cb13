/** The script of the page of bench/scale.ts: draws the curves from the embedded results. Runs in the browser. */
import { element } from "../../run/page/dom.ts";
import { type Line, LineChart } from "../../run/page/lineChart.ts";
import type { ScaleData } from "./render.ts";

const { cases } = JSON.parse(document.getElementById("data")?.textContent ?? "") as ScaleData;
const AXIS = { doublings: "workers" } as const;

const rates = new LineChart(
  {
    ...AXIS,
    title: "Tokens per second",
    about: "Both axes are logarithmic: as long as more workers help fully, a line rises by its full slope.",
    format: "number",
    isLogarithmic: true,
  },
  cases.map(({ name }) => name),
);
rates.show(cases.map(({ points }) => points.map(({ workers, tokens }) => [workers, tokens])));
document.getElementById("charts")?.append(element("div", { class: "charts wide" }, rates.card));

const SHARES = ["learner", "link", "places", "wasted"] as const;
const WORDS = { learner: "learner busy", link: "link busy", places: "places taken", wasted: "groups too old" } as const;

for (const [i, { points }] of cases.entries()) {
  const chart = new LineChart(
    {
      ...AXIS,
      title: "Shares",
      about: "Of the time in which the learner, the server's link and the workers' places were busy; of the groups.",
      format: "percent",
    },
    SHARES.map((share) => WORDS[share]),
  );
  chart.show(SHARES.map((share): Line => points.map((point) => [point.workers, point[share]])));
  document.getElementById(`case-${i}`)?.append(element("div", { class: "charts wide" }, chart.card));
}
