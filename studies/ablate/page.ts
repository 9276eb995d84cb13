/**
 * The script of an ablation's report.html: draws the curves from the results in it, a line for every arm, the mean over
 * seeds, with a band around it. Runs in the browser when loaded.
 */
import { metricInfo } from "../../run/figures/catalogue.ts";
import { choice, element } from "../../run/page/dom.ts";
import { type Line, LineChart, type LineChartInfo } from "../../run/page/lineChart.ts";
import type { Curve, EnvironmentResult, Results } from "./results.ts";

type Axis = "steps" | "envSteps";
const AXES = [
  ["steps", "RL steps"],
  ["envSteps", "environment steps"],
] as const;

type Chart = LineChartInfo & { readonly of: (curve: Curve) => Curve["success"] };

mountCurves(
  document.getElementById("charts") ?? document.body,
  JSON.parse(document.getElementById("data")?.textContent ?? "") as Results,
);

function mountCurves(host: HTMLElement, { environments, threshold, shown: metrics }: Results): void {
  const names = [...new Set(environments.flatMap((env) => env.arms.map(({ arm }) => arm)))];
  const hidden = new Set<string>();
  let axis: Axis = "steps";
  let bands = true;
  const views = environments.flatMap((env) =>
    chartsOf(env, threshold, metrics).map((chart) => {
      return { env, chart, view: new LineChart({ ...chart, hasIntervals: true, place: env.env }, names) };
    }),
  );
  const draw = (): void => {
    for (const { env, chart, view } of views) {
      const lines = names.map((name): Line | null => {
        const arm = env.arms.find((one) => one.arm === name);
        // An arm that plays nothing has no place on an axis of environment steps.
        if (arm === undefined || hidden.has(name) || (axis === "envSteps" && !arm.plays)) return null;
        const values = chart.of(arm.curve);
        return arm.curve[axis].map((x, i) => [x, values[i]?.value ?? null, values[i]?.low, values[i]?.high]);
      });
      view.show(lines, names, { axis: new Map(AXES).get(axis)!, bands });
    }
  };
  const checkbox = (label: string, onChange: (checked: boolean) => void): HTMLElement => {
    const input = element("input", { type: "checkbox", checked: true });
    input.addEventListener("change", () => {
      onChange(input.checked);
      draw();
    });
    return element("label", { class: "check" }, input, element("span", {}, label));
  };
  host.append(
    choice<Axis>("against", AXES, axis, (chosen) => {
      axis = chosen;
      draw();
    }),
    element(
      "div",
      { class: "controls" },
      checkbox("bands", (checked) => void (bands = checked)),
      ...names.map((name) => checkbox(name, (on) => void (on ? hidden.delete(name) : hidden.add(name)))),
      element("span", { class: "muted" }, "Drag to zoom, double-click to zoom out, ← → to step through a chart."),
    ),
  );
  for (const env of environments) {
    const cards = views.flatMap((one) => (one.env === env ? [one.view.card] : []));
    host.append(element("h3", {}, env.env), element("div", { class: "charts wide" }, ...cards));
  }
  draw();
}

function chartsOf({ env, arms }: EnvironmentResult, threshold: number, metrics: readonly string[]): Chart[] {
  const hasExcess = arms.some(({ curve }) => curve.worldLossExcess.some((value) => value !== null));
  const excess: Chart = {
    title: "Excess of that loss over the answers' own entropy",
    format: "number",
    of: ({ worldLossExcess }) => worldLossExcess,
    about: "What is left in its own episodes without what nobody can predict who knows this world: 0 is to know it.",
  };
  return [
    {
      title: "Success on held-out tasks",
      format: "percent",
      of: ({ success }) => success,
      mark: threshold,
      about:
        "Mean over seeds; the band is its 95 % bootstrap interval. The dashed line is the threshold. The arms of a " +
        "seed begin with the same weights, so all lines begin at one point.",
    },
    {
      title: "Reward in training",
      format: "number",
      of: ({ reward }) => reward,
      about: "Mean reward of the episodes played since the evaluation before.",
    },
    {
      title: "World-model loss on held-out observations",
      format: "number",
      of: ({ worldLoss }) => worldLoss,
      about:
        `Nats per token of what the environment answers, in the same ${env} episodes at every point. Lower is ` +
        "better.",
    },
    {
      title: "World-model loss in its own episodes",
      format: "number",
      of: ({ worldLossOnPolicy }) => worldLossOnPolicy,
      about: "Nats per token of the answers in held-out episodes that the arm has just played, its own to predict.",
    },
    ...(hasExcess ? [excess] : []),
    ...metrics.map((name): Chart => ({
      title: name,
      format: metricInfo(name).format,
      of: ({ shown }) => shown[name] ?? [],
      about: name.startsWith("eval/")
        ? "Measured in each evaluation."
        : "Mean over the training steps since the evaluation before.",
    })),
  ];
}
