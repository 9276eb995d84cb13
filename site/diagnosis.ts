/**
 * What the doctor (tools/doctor) says of the agents, beside each other and while they learn. It is loaded when the
 * first steps are done. A doctor looks at symptoms: nothing found does not prove that all is well.
 */
import { diagnose, type Diagnosis, type FailureMode } from "../tools/doctor/diagnose.ts";
import type { RunLog } from "../tools/doctor/run.ts";
import { element } from "../tools/page/dom.ts";

export class Diagnoses {
  readonly view: HTMLElement;
  readonly #columns: readonly HTMLElement[];
  readonly #labels: readonly string[];

  constructor(labels: readonly string[]) {
    this.#labels = labels;
    this.#columns = labels.map(() => element("div", { class: "diagnosis" }));
    this.view = element("div", { class: "diagnoses" }, ...this.#columns);
  }

  /** Looks at an agent's run anew. @returns the failure modes that it has, those first that should be repaired first */
  show(agent: number, run: RunLog): readonly FailureMode[] {
    const diagnosis = diagnose(run);
    const column = this.#columns[agent]!;
    const closed = [...column.querySelectorAll("details:not([open])")].map((own) => own.getAttribute("data-mode"));
    column.replaceChildren(element("h3", {}, this.#labels[agent]!), ...partsOf(diagnosis));
    // What the reader has closed stays closed.
    for (const own of column.querySelectorAll("details")) if (closed.includes(own.dataset["mode"]!)) own.open = false;
    return diagnosis.findings.flatMap(({ kind, mode }) => (kind === "problem" ? [mode] : []));
  }
}

function partsOf({ findings, looked, notChecked }: Diagnosis): HTMLElement[] {
  const problems = findings.filter(({ kind }) => kind === "problem");
  const all = looked.length + notChecked.length;
  const first = problems[0];
  const waits = notChecked.length === 0 ? "" : ` ${notChecked.length} of ${all} checks wait for more steps.`;
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
