/** exact.html: how far the gradients of methods are from the true one. A worker computes all figures. */
import { formatNumber, formatPercent } from "../../run/figures/format.ts";
import { choice, element, select } from "../../run/page/dom.ts";
import { LineChart, type LineChartInfo } from "../../run/page/lineChart.ts";
import { type Figures } from "./figures.ts";
import type { StateFacts } from "./laboratory.ts";
import type { Answered, Asked } from "./messages.ts";
import { methodByName, PAGE_METHODS } from "./methods.ts";
import { Scatter } from "./scatter.ts";
import {
  addressOf,
  comparedIn,
  GROUPS,
  LAMBDAS,
  type Settings,
  settingsIn,
  STEPS_ADDED,
  STEPS_AT_MOST,
} from "./settings.ts";
import { figuresTable, sharesTable } from "./tables.ts";
import { aboutMethod, aboutSample, aboutWorld, comparison } from "./words.ts";

const byId = (id: string): HTMLElement => document.getElementById(id)!;
const say = (text: string): void => void (byId("status").textContent = text);

const BIAS: LineChartInfo = {
  title: "Bias",
  about:
    "How far the mean of all possible steps is from the true gradient, in lengths of the true gradient, against the " +
    "number of episodes in a group.",
  format: "number",
  doublings: "episodes in a group",
};
const VARIANCE: LineChartInfo = {
  title: "Variance",
  about:
    "The mean squared distance of a step from its mean, all coordinates together, in squared lengths of the true " +
    "gradient. Both axes are logarithmic: a line that falls by half with each doubling falls as 1 / episodes.",
  format: "number",
  doublings: "episodes in a group",
  isLogarithmic: true,
};

const STATES = [
  ["start", "random start"],
  ["half", "half-trained"],
  ["sure", "almost deterministic"],
] as const;

class ExactPage {
  #settings: Settings;
  #question = 0;
  readonly #worker = new Worker(new URL("exactWorker.js", import.meta.url), { type: "module" });
  readonly #scatter = new Scatter();
  readonly #more = element("button", { type: "button" }, `Sample ${STEPS_ADDED} more steps`);
  readonly #progress = element("progress", { max: 1, value: 0, "aria-label": "How much has been computed" });
  /** Figures of the present settings, by method and group size. */
  #figures = new Map<string, Figures>();

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#worker.addEventListener("message", ({ data }: MessageEvent<Answered>) => this.#hear(data));
    this.#worker.addEventListener("error", (event) => say(event.message || "The page's worker did not start."));
    this.#mountControls();
    byId("plane").append(this.#scatter.card);
    this.#more.addEventListener("click", () => {
      this.#change({ steps: Math.min(STEPS_AT_MOST, this.#settings.steps + STEPS_ADDED) });
    });
    this.#ask();
  }

  #mountControls(): void {
    const { state, player, method, group, lambda, plane, scale } = this.#settings;
    const states = select("Policy", STATES, (value) => this.#change({ state: value as Settings["state"] }));
    const players = select(
      "Episodes are played by",
      [
        ["self", "the policy itself"],
        ["older", "the policy one step ago"],
      ],
      (value) => this.#change({ player: value as Settings["player"] }),
    );
    const methods = select(
      "Method",
      PAGE_METHODS.map(({ name, label }) => [name, label] as const),
      (value) => this.#change({ method: value }),
    );
    const groups = select("Episodes in a group", GROUPS.map(both), (value) => this.#change({ group: Number(value) }));
    const lambdas = select("λ of ECHO", LAMBDAS.map(both), (value) => this.#change({ lambda: Number(value) }));
    const planes = select(
      "Upwards in the plane",
      [
        ["bias", "the bias"],
        ["noise", "the most noise"],
        ["world", "the world model's gradient"],
      ],
      (value) => this.#change({ plane: value as Settings["plane"] }),
    );
    const fields = { states, players, methods, groups, lambdas, planes };
    const values = { states: state, players: player, methods: method, groups: group, lambdas: lambda, planes: plane };
    for (const [name, { input }] of Object.entries(fields)) input.value = String(values[name as keyof typeof values]);
    const hasOlder = (): void => {
      players.input.disabled = this.#settings.state === "start";
      players.input.value = this.#settings.player;
    };
    states.input.addEventListener("change", hasOlder);
    hasOlder();
    byId("controls").append(...Object.values(fields).map(({ field }) => field));
    byId("scale").append(
      choice(
        "Length of the mean step",
        [
          ["equal", "that of the true gradient"],
          ["own", "as the method has it"],
        ],
        scale,
        (value) => this.#change({ scale: value }),
      ),
      this.#more,
      this.#progress,
    );
    byId("compare").append(...PAGE_METHODS.map(({ name, label, about }) => this.#box(name, label, about)));
  }

  /** A box that puts a method into charts and table. */
  #box(name: string, label: string, about: string): HTMLElement {
    const input = element("input", { type: "checkbox", checked: this.#settings.compare.includes(name) });
    input.addEventListener("change", () => {
      const others = this.#settings.compare.filter((other) => other !== name);
      const chosen = input.checked ? [...others, name] : others;
      this.#change({ compare: PAGE_METHODS.flatMap((method) => (chosen.includes(method.name) ? [method.name] : [])) });
    });
    return element(
      "div",
      { class: "method" },
      element("label", { class: "check" }, input, element("span", {}, label)),
      element("span", { class: "muted" }, about),
    );
  }

  #change(changed: Partial<Settings>): void {
    const next = { ...this.#settings, ...changed };
    const isNew = changed.steps === undefined && changed.plane === undefined;
    // The random start has no older policy. A new question begins with at most the page's first number of steps.
    this.#settings = {
      ...next,
      ...(next.state === "start" ? { player: "self" } : {}),
      ...(isNew ? { steps: Math.min(next.steps, STEPS_ADDED) } : {}),
    };
    history.replaceState(null, "", `${location.pathname}${addressOf(this.#settings)}`);
    this.#ask();
  }

  #ask(): void {
    this.#question++;
    this.#figures = new Map();
    this.#more.disabled = this.#settings.steps >= STEPS_AT_MOST;
    document.body.setAttribute("aria-busy", "true");
    this.#drawCharts();
    // Room for a caption, a head, and a row for each method, so that nothing moves when the figures come.
    byId("figures").style.minHeight = `${74 + 39 * comparedIn(this.#settings).length}px`;
    const asked: Asked = { question: this.#question, settings: this.#settings };
    this.#worker.postMessage(asked);
  }

  #hear(answer: Answered): void {
    if (answer.question !== this.#question) return;
    if (answer.kind === "failed") return say(answer.message);
    if (answer.kind === "facts") this.#showFacts(answer.facts);
    if (answer.kind === "sample") {
      this.#scatter.show(answer.sample);
      byId("sampled").textContent = aboutSample(answer.sample);
      byId("shares").replaceChildren(sharesTable(methodByName(this.#settings.method).label, answer.shares));
    }
    if (answer.kind === "figures") {
      this.#figures.set(`${answer.method} ${answer.group}`, answer.figures);
      if (answer.method === this.#settings.method && answer.group === this.#settings.group)
        say(aboutMethod(this.#settings, answer.figures));
      this.#showFigures();
    }
    if (answer.kind === "progress") {
      this.#progress.value = answer.done / answer.all;
      if (answer.done === answer.all) document.body.removeAttribute("aria-busy");
    }
  }

  #showFacts(facts: StateFacts): void {
    const entries = [
      ["expected reward", formatNumber(facts.expectedReward)],
      ["looks first", formatPercent(facts.looks)],
      ["parameters", String(facts.parameters)],
      ["length of the true gradient", formatNumber(facts.gradientNorm)],
    ] as const;
    byId("facts").replaceChildren(
      ...entries.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
    );
    byId("world").textContent = aboutWorld(facts);
  }

  #charts: readonly [bias: LineChart, variance: LineChart] | undefined;
  #drawn = "";

  /** Makes new charts if other methods are drawn: a chart's lines have fixed names. */
  #drawCharts(): void {
    const drawn = comparedIn(this.#settings);
    if (this.#charts !== undefined && this.#drawn === drawn.join()) return;
    this.#drawn = drawn.join();
    const labels = drawn.map((name) => methodByName(name).label);
    for (const chart of this.#charts ?? []) chart.dispose();
    this.#charts = [new LineChart(BIAS, labels), new LineChart(VARIANCE, labels)];
    byId("charts").replaceChildren(...this.#charts.map(({ card }) => card));
  }

  #showFigures(): void {
    const drawn = comparedIn(this.#settings);
    const at = (name: string, group: number): Figures | undefined => this.#figures.get(`${name} ${group}`);
    const lines = (value: (figures: Figures) => number): [number, number | null][][] =>
      drawn.map((name) =>
        GROUPS.map((group): [number, number | null] => {
          const figures = at(name, group);
          return [group, figures ? value(figures) : null];
        }),
      );
    this.#charts![0].show(lines(({ bias }) => bias));
    this.#charts![1].show(lines(({ variance }) => (variance > 0 ? variance : NaN)).map(withoutNaN));
    const rows = drawn.flatMap((method) => {
      const figures = at(method, this.#settings.group);
      return figures ? [{ method, figures }] : [];
    });
    byId("figures").replaceChildren(figuresTable(this.#settings, rows));
    byId("comparison").textContent = rows.length === drawn.length ? comparison(rows, this.#settings.group) : "";
  }
}

const both = (value: number): readonly [string, string] => [String(value), String(value)];
const withoutNaN = (line: readonly [number, number | null][]): [number, number | null][] =>
  line.map(([x, y]) => [x, y === null || Number.isNaN(y) ? null : y]);

try {
  void new ExactPage(settingsIn(new URLSearchParams(location.search)));
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
}
