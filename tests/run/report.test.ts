/** The report page as text: it is self-contained, and nothing that a model wrote can get out of its data. */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { bundlePage, withHashes } from "../../run/page/assets.ts";
import { metricInfo } from "../../run/figures/catalogue.ts";
import { shortTicks } from "../../run/page/charts.ts";
import { chartData, chartsOf, isSparse, linesIn, smooth } from "../../run/page/curves.ts";
import { decodeReportData, encodeReportData } from "../../run/page/embedded.ts";
import type { KnownFact, MetricsRecord, Summary, Transcript } from "../../run/records.ts";
import { escapeHtml } from "../../run/page/frame.ts";
import { renderReport } from "../../run/report/render.ts";
import { writeReport } from "../../run/report/report.ts";
import { createRun } from "../../run/node/runFolder.ts";

const HOSTILE = "</script><img src=x onerror=alert(1)><!--\u2028\u2029]]>\"'&amp;";
const ASSETS = withHashes({ script: "console.log(1)", style: "body{color:red}" });

const metrics: readonly MetricsRecord[] = [
  { step: 1, phase: "sft", loss: 4, grad_norm: 1 },
  { step: 2, phase: "sft", loss: 2, grad_norm: NaN },
  { step: 2, phase: "eval", success: 0.25, episodes: 40, world_loss: 1 },
  { step: 3, phase: "rl", reward: 0.5, reward_std: 0.1, success: 0.5, policy_loss: 0, surprise_of_mine: 7 },
  { step: 3, phase: "eval", success: 0.5, episodes: 40, world_loss: 0.5 },
];

const transcript: Transcript = {
  step: 3,
  phase: "rl",
  env: "terminal",
  family: HOSTILE,
  task: HOSTILE,
  group: 0,
  reward: NaN,
  success: false,
  stopReason: "max_turns",
  turns: 1,
  tokens: [
    { id: 1, text: HOSTILE, role: "observation", turn: 1, surprise: 2.5 },
    { id: 2, text: HOSTILE, role: "action", turn: 1, logProb: -1, oldLogProb: -1.25, advantage: -0.5, wPolicy: 0.1 },
  ],
};

const summary: Summary = {
  before: { label: "warm <b>start</b>", episodes: 40, successes: 10 },
  after: { label: "after", episodes: 40, successes: 20, families: { [HOSTILE]: { episodes: 4, successes: 2 } } },
  facts: { executor: "wasm" },
};

const input = {
  name: `run ${HOSTILE}`,
  config: { note: HOSTILE, seed: 1 },
  metrics,
  transcripts: [transcript],
  summary,
};

/** A fact of a world, with a name that a world of somebody else may have. */
const fact = (p: number): KnownFact => ({ kind: "where", known: HOSTILE, right: "b", says: `${HOSTILE} is in b`, p });

/** Contents of each element of a kind, found as a browser finds the end of raw text: by the first `</tag`. */
const contents = (html: string, tag: string): string[] =>
  [...html.matchAll(new RegExp(`<${tag}[^>]*>([^]*?)</${tag}`, "g"))].map((m) => m[1] ?? "");

describe("the page", () => {
  const html = renderReport(input, ASSETS);

  test("is one file: no address of anything outside, and a policy that forbids requests", () => {
    expect(html).not.toMatch(/(?:src|href)\s*=\s*["']?(?:https?:|\/\/)/i);
    expect(html).not.toMatch(/<link|@import|url\(/i);
    const hash = (text: string): string => createHash("sha256").update(text).digest("base64");
    expect(html).toContain(
      `default-src 'none'; script-src 'sha256-${hash(ASSETS.script)}'; style-src 'sha256-${hash(ASSETS.style)}'`,
    );
    expect(contents(html, "style")).toEqual([ASSETS.style]);
    expect(contents(html, "script")).toEqual([expect.stringContaining("{"), ASSETS.script]);
  });

  test("hostile text stays text", () => {
    expect(html.match(/<img/g)).toBeNull();
    expect(html.match(/<b>/g)).toBeNull();
    expect(html.match(/<script/g)).toHaveLength(2);
    expect(html.match(/<\/script/g)).toHaveLength(2);
    expect(contents(html, "script")[0]).not.toMatch(/[<\u2028\u2029]/);
    expect(contents(html, "title")[0]).toBe(`${escapeHtml(input.name)} · worldgrad`);
  });

  test("the embedded data comes back whole", () => {
    const data = decodeReportData(contents(html, "script")[0] ?? "");
    expect(data.metrics).toEqual(metrics);
    expect(data.transcripts[0]?.open()).toEqual(transcript);
    expect(data.transcripts[0]).toMatchObject({ family: HOSTILE, length: 2 });
    // Each distinct text is stored once.
    expect(encodeReportData([], [transcript, transcript]).split("onerror").length - 1).toBe(2 * 2 + 1);
  });

  test("has facts, tables and the lessons; and says so where a run has not ended", () => {
    expect(html).toContain("<dd>2 SFT + 1 RL</dd>");
    expect(html).toContain("<dd>wasm</dd>");
    expect(html).toMatch(/success rate \[95 %\].*25\.0 % \[14, 40\].*50\.0 % \[35, 65\].*\+25\.0/);
    expect(html).toContain("Why the policy loss is about 0 yet its gradient is not");
    const { summary: _, ...unfinished } = input;
    expect(renderReport(unfinished, ASSETS)).toContain("has not been evaluated at its end");
  });

  test("has a map of what the model knows and a curve of it, if the world has facts that can be asked for", () => {
    expect(html).not.toContain('id="facts"');
    expect(decodeReportData(contents(html, "script")[0]!).knowers).toEqual([]);
    const { before, after } = summary;
    const known = { before: { ...before, facts: [fact(0.1)] }, after: { ...after, facts: [fact(0.9)] } };
    const lines: MetricsRecord[] = [...metrics, { step: 3, phase: "eval", facts_known: 1 }];
    const page = renderReport({ ...input, metrics: lines, summary: { ...summary, ...known } }, ASSETS);
    expect(page).toContain('<div id="facts"></div>');
    expect(page.match(/<img/g)).toBeNull();
    const [data] = contents(page, "script");
    expect(decodeReportData(data!).knowers).toEqual([
      { label: "after", facts: [fact(0.9)] },
      { label: "warm <b>start</b>", facts: [fact(0.1)] },
    ]);
    expect(chartsOf(lines).map(({ title }) => title)).toContain("Facts of the world known");
  });

  test("embeds a bounded number of trajectories, the newest among them", () => {
    const many = Array.from({ length: 1500 }, (_, i): Transcript => ({ ...transcript, step: i }));
    const long = renderReport({ ...input, transcripts: many }, ASSETS);
    const { transcripts } = decodeReportData(contents(long, "script")[0] ?? "");
    expect(transcripts).toHaveLength(600);
    expect(transcripts.at(-1)?.step).toBe(1499);
    expect(long).toContain("600 of 1500");
  });
});

describe("curves", () => {
  test("only charts with data, unknown metrics under their own name", () => {
    expect(chartsOf(metrics).map((chart) => chart.title)).toEqual([
      "Success",
      "Reward",
      "Policy loss",
      "World-model loss",
      "Loss",
      "Gradient norm",
      "surprise_of_mine",
    ]);
    expect(chartsOf([])).toEqual([]);
  });

  test("gradients of the world model and the policy: charts and labels of their own; rare values are points", () => {
    const rare = [{ step: 0, phase: "rl", "grad_cosine/world_policy": -0.1, "grad_ratio/world_policy": 2 }] as const;
    const charts = chartsOf(rare);
    expect(charts.map(({ title }) => title)).toEqual(["World and policy: direction", "World and policy: length"]);
    for (const { about } of charts) expect(about).not.toBe("");
    for (const name of Object.keys(rare[0]).slice(2)) expect(metricInfo(name).label).toMatch(/^world \w+$/);
    const [predicted] = chartsOf([{ step: 0, phase: "rl", return_prediction_loss: 0.1 }]);
    expect([predicted!.title, predicted!.series[0]!.label]).toEqual(["Return prediction", "c · mean of ½(v − R)²"]);
    expect(predicted!.about).not.toBe("");

    const every = (n: number, count: number): (number | null)[] =>
      Array.from({ length: count }, (_, i) => (i % n === 0 ? 1 : null));
    expect([every(64, 129), every(64, 65), every(64, 1), [null, 1, null], every(20, 1000)].map(isSparse)).toEqual([
      true,
      true,
      true,
      true,
      true,
    ]);
    // RL after a long warm start is not rare, nor is nothing at all.
    const late = [...Array.from({ length: 900 }, () => null), ...every(1, 60)];
    expect([late, every(5, 100), every(1, 2), [null, null], []].map(isSparse)).toEqual([
      false,
      false,
      false,
      false,
      false,
    ]);
  });

  test("held-out and training values on one axis, with the Wilson band", () => {
    const chart = chartsOf(metrics)[0];
    if (chart === undefined) throw new Error("no chart");
    const { steps, curves, band } = chartData(chart, metrics);
    expect(steps).toEqual([1, 2, 3]);
    expect(curves).toEqual([
      [null, 0.25, 0.5],
      [null, null, 0.5],
    ]);
    expect(band?.low[0]).toBeNull();
    expect(band?.low[1]).toBeCloseTo(0.1419, 4);
    expect(band?.high[1]).toBeCloseTo(0.4019, 4);
  });

  test("parts of a run: the evaluation between the phases is in both, and RL's baseline", () => {
    const run: readonly MetricsRecord[] = [
      { step: 0, phase: "sft", loss: 4 },
      { step: 1, phase: "sft", loss: 2 },
      { step: 2, phase: "eval", success: 0.25, episodes: 40 },
      { step: 2, phase: "rl", success: 0.5 },
      { step: 3, phase: "rl", success: 0.75 },
      { step: 4, phase: "eval", success: 0.5, episodes: 40 },
    ];
    const part = (range: "whole" | "sft" | "rl"): string =>
      linesIn(run, range)
        .map(({ phase }) => phase)
        .join(" ");
    expect(part("whole")).toBe("sft sft eval rl rl eval");
    expect(part("sft")).toBe("sft sft eval");
    expect(part("rl")).toBe("eval rl rl eval");
    // One phase only: every choice is the whole run.
    expect(linesIn(run.slice(0, 3), "rl")).toEqual(run.slice(0, 3));

    const success = chartsOf(run)[0];
    if (success === undefined) throw new Error("no chart");
    expect(chartData(success, run)).toMatchObject({
      steps: [0, 1, 2, 3, 4],
      baseline: [null, null, 0.25, 0.25, 0.25],
    });
    expect(chartData(success, linesIn(run, "rl"))).toMatchObject({ steps: [2, 3, 4], baseline: [0.25, 0.25, 0.25] });
    expect(chartData(success, linesIn(run, "sft")).baseline).toBeUndefined();
    // No evaluation before RL, no baseline.
    expect(chartData(success, run.slice(3)).baseline).toBeUndefined();
  });

  test("smoothing: nothing at 0, unbiased at the start, anew at a boundary, gaps stay", () => {
    expect(smooth([1, null, 3], 0)).toEqual([1, null, 3]);
    const [first, second, gap, restarted] = smooth([5, 5, null, 100], 0.9, 3);
    expect([first, second, restarted].map((value) => Number(value?.toFixed(12)))).toEqual([5, 5, 100]);
    expect(gap).toBeNull();
  });

  test("an axis tells its ticks apart, however near to each other: a ratio is all but 1", () => {
    const number = (...ticks: (number | null)[]): string[] => shortTicks(ticks, { format: "number" });
    expect(number(0.99999, 1, 1.00001)).toEqual(["0.99999", "1", "1.00001"]);
    expect(number(-0.5, 0, 0.5)).toEqual(["−0.5", "0", "0.5"]);
    expect(number(null, 1 / 3, 2 / 3)).toEqual(["", "0.3333", "0.6667"]);
    expect([number(2), number(0), number(0, 0), number()]).toEqual([["2"], ["0"], ["0", "0"], []]);
    expect(shortTicks([0.999, 1], { format: "percent" })).toEqual(["99.9 %", "100 %"]);
    expect(shortTicks([0, 5000], { format: "count" })).toEqual(["0", "5k"]);
  });
});

describe("the bundle", () => {
  test("holds the page's script and style and nothing that ends them; a run writes its report with it", async () => {
    const { script, style } = await bundlePage("report");
    expect(script).not.toContain("</script");
    expect(style).not.toContain("</style");
    expect(style).toContain(".u-");
    expect(style).not.toContain("@import");
    // 50 kB of it is the plot library.
    expect(script.length).toBeLessThan(100_000);
    const folder = mkdtempSync(join(tmpdir(), "worldgrad-report-"));
    const run = createRun(join(folder, "demo"), { seed: 1 });
    for (const line of metrics) run.appendMetrics(line);
    run.appendTranscript(transcript);
    const path = await writeReport(run, summary);
    expect(contents(readFileSync(path, "utf8"), "script")[1]).toBe(script);
    rmSync(folder, { recursive: true });
  });
});
