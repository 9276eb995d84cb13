/**
 * The script of report.html: reads the embedded data, draws the map of facts, the curves and the viewer of
 * trajectories. It is bundled into the page (run/page/assets.ts) and runs in the browser when loaded.
 */
import { decodeReportData, type TranscriptHandle } from "../page/embedded.ts";
import { formatNumber } from "../figures/format.ts";
import { mountCharts } from "../page/charts.ts";
import { choice, element, select, setOptions } from "../page/dom.ts";
import { FactMap } from "../page/factMap.ts";
import { TokenStrip, type ColourMode } from "../page/tokens.ts";

const byId = (id: string): HTMLElement => document.getElementById(id) ?? document.body;

const data = decodeReportData(byId("data").textContent ?? "");
if (data.knowers.length > 0) {
  const map = new FactMap();
  map.show(data.knowers);
  byId("facts").append(map.view);
}
mountCharts(byId("charts"), data.metrics);
mountViewer(byId("viewer"), data.transcripts);

function mountViewer(host: HTMLElement, transcripts: readonly TranscriptHandle[]): void {
  if (transcripts.length === 0) {
    host.append(element("p", { class: "muted" }, "No transcripts yet."));
    return;
  }
  const distinct = (of: (t: TranscriptHandle) => string): [string, string][] =>
    [...new Set(transcripts.map(of))].map((value) => [value, value]);
  const steps = [...new Set(transcripts.map((t) => t.step))].toSorted((a, b) => a - b);
  const phases: Readonly<Record<string, string>> = { sft: "expert demonstration", rl: "training", eval: "held-out" };

  const filters = {
    outcome: select(
      "outcome",
      [
        ["", "all"],
        ["yes", "success"],
        ["no", "failure"],
      ],
      refresh,
    ),
    family: select(
      "family",
      [["", "all"], ...distinct((t) => t.family).toSorted(([a], [b]) => (a < b ? -1 : 1))],
      refresh,
    ),
    phase: select(
      "tasks",
      [["", "all"], ...distinct((t) => t.phase).map(([p]) => [p, phases[p] ?? p] as const)],
      refresh,
    ),
    step: select("step", [["", "all"], ...steps.map((step) => [String(step), String(step)] as const)], refresh),
  };
  const list = select("trajectory", [], open);
  const previous = element("button", { type: "button" }, "‹ previous");
  const next = element("button", { type: "button" }, "next ›");
  const count = element("span", { class: "muted", "aria-live": "polite" });
  const head = element("p", { class: "outcome" });
  const strip = new TokenStrip();
  const modes: readonly (readonly [ColourMode, string])[] = [
    ["role", "role"],
    ["mask", "mask"],
    ["advantage", "advantage"],
    ["surprise", "surprise"],
    ["entropy", "entropy"],
  ];
  previous.addEventListener("click", () => move(-1));
  next.addEventListener("click", () => move(1));

  host.append(
    element("div", { class: "controls" }, ...Object.values(filters).map(({ field }) => field)),
    element("div", { class: "controls" }, list.field, previous, next, count),
    choice("colour by", modes, "role", (mode) => strip.colour(mode)),
    head,
    strip.view,
  );
  // The newest trajectory is shown first.
  refresh();
  list.input.selectedIndex = list.input.options.length - 1;
  open();

  function refresh(): void {
    const { outcome, family, phase, step } = filters;
    const chosen = transcripts.flatMap((t, i): [string, string][] => {
      const fits =
        (outcome.input.value === "" || (outcome.input.value === "yes") === t.success) &&
        (family.input.value === "" || family.input.value === t.family) &&
        (phase.input.value === "" || phase.input.value === t.phase) &&
        (step.input.value === "" || Number(step.input.value) === t.step);
      const turns = `${t.turns} turn${t.turns === 1 ? "" : "s"}`;
      return fits ? [[String(i), `${t.success ? "✔" : "✘"} step ${t.step} · ${t.family} · ${turns}`]] : [];
    });
    setOptions(list.input, chosen);
    open();
  }

  function move(by: number): void {
    const { input } = list;
    input.selectedIndex = Math.min(input.options.length - 1, Math.max(0, input.selectedIndex + by));
    open();
  }

  function open(): void {
    const { selectedIndex, options, value } = list.input;
    const chosen = value === "" ? undefined : transcripts[Number(value)];
    count.textContent = chosen ? `${selectedIndex + 1} of ${options.length}` : "none fits";
    previous.disabled = selectedIndex <= 0;
    next.disabled = selectedIndex >= options.length - 1;
    strip.view.hidden = head.hidden = chosen === undefined;
    if (chosen === undefined) return;
    const facts = [
      `reward ${formatNumber(chosen.reward)}`,
      `stopped: ${chosen.stopReason}`,
      `${phases[chosen.phase] ?? chosen.phase}, step ${chosen.step}`,
      `${chosen.env}, ${chosen.family}`,
      `group ${chosen.group}`,
      `${chosen.length} tokens`,
    ];
    head.replaceChildren(
      element("strong", { class: chosen.success ? "good" : "bad" }, chosen.success ? "✔ success" : "✘ failure"),
      ` ${facts.join(" · ")}`,
    );
    strip.show(chosen.open());
  }
}
