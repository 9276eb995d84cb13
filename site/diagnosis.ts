/**
 * The doctor's findings (studies/doctor) on the agents, beside each other and while they learn. Loaded when the first
 * steps are done. The doctor looks at symptoms: nothing found does not prove that all is well.
 */
import { diagnose, type Diagnosis, type FailureMode } from "../studies/doctor/diagnose.ts";
import type { RunLog } from "../studies/doctor/run.ts";
import { element } from "../run/page/dom.ts";

export class Diagnoses {
  readonly view: HTMLElement;
  readonly #columns: readonly HTMLElement[];
  readonly #labels: readonly string[];

  constructor(labels: readonly string[]) {
    this.#labels = labels;
    this.#columns = labels.map(() => element("div", { class: "diagnosis" }));
    this.view = element("div", { class: "diagnoses" }, ...this.#columns);
  }

  /**
   * Diagnoses an agent's run anew and shows the findings.
   * @param warmSteps steps before RL, which the page does not count
   * @returns its failure modes, in the order in which they should be repaired
   */
  show(agent: number, run: RunLog, warmSteps: number): readonly FailureMode[] {
    const diagnosis = diagnose(countedAsOnPage(run, warmSteps));
    const column = this.#columns[agent]!;
    const closed = [...column.querySelectorAll("details:not([open])")].map((own) => own.getAttribute("data-mode"));
    column.replaceChildren(element("h3", {}, this.#labels[agent]!), ...partsOf(diagnosis));
    // Findings that the reader has closed stay closed.
    for (const own of column.querySelectorAll("details")) if (closed.includes(own.dataset["mode"]!)) own.open = false;
    return diagnosis.findings.flatMap(({ kind, mode }) => (kind === "problem" ? [mode] : []));
  }
}

/** The run with steps as the page counts them: those of RL, the first being 1. */
function countedAsOnPage({ config, metrics, transcripts }: RunLog, warmSteps: number): RunLog {
  const counted = <T extends { readonly phase: string; readonly step: number }>(line: T): T => ({
    ...line,
    step: line.step - warmSteps + (line.phase === "rl" ? 1 : 0),
  });
  return { config, metrics: metrics.map(counted), transcripts: transcripts.map(counted) };
}

function partsOf({ findings, looked, notChecked }: Diagnosis): HTMLElement[] {
  const problems = findings.filter(({ kind }) => kind === "problem");
  const all = looked.length + notChecked.length;
  const first = problems[0];
  const waits = notChecked.length === 0 ? "" : ` ${notChecked.length} of ${all} checks need more steps.`;
  if (first === undefined) return [element("p", { class: "good" }, `Nothing found.${waits}`)];
  return [
    ...problems.map(({ mode, title, evidence, change }) =>
      element(
        "details",
        { "data-mode": mode, open: true },
        element("summary", {}, element("strong", { class: "bad" }, title)),
        element("ul", {}, ...evidence.map((text) => element("li", {}, text))),
        element("p", { class: "muted" }, "What to change:"),
        element("ul", {}, ...change.map((text) => element("li", {}, text))),
      ),
    ),
    ...(waits === "" ? [] : [element("p", { class: "muted" }, waits.trim())]),
  ];
}
