/**
 * The agents' ways through the same held-out task, side by side: the actions, the expected answers, the real ones, and
 * all tokens. A slider goes through training. Runs in the browser.
 */
import type { TranscriptHandle } from "../page/embedded.ts";
import { formatPercent } from "../figures/format.ts";
import { visible } from "../visible.ts";
import { choice, element, select } from "../page/dom.ts";
import { type ColourMode, TokenStrip } from "../page/tokens.ts";
import type { Transcript } from "../records.ts";

/** An agent, and the transcripts of its held-out episodes. */
export interface Way {
  readonly label: string;
  readonly transcripts: readonly TranscriptHandle[];
}

const MODES = (["surprise", "role", "entropy"] as const).map((mode) => [mode, mode] as const);

/** @param warmSteps steps before RL, which the slider does not count */
export function mountWays(host: HTMLElement, ways: readonly Way[], warmSteps: number): void {
  const all = ways.flatMap(({ transcripts }) => transcripts);
  const steps = [...new Set(all.map(({ step }) => step))].toSorted((a, b) => a - b);
  const tasks = [...new Set(all.map(({ task }) => task))];
  if (steps.length === 0) return void host.append(element("p", { class: "muted" }, "No episodes were written down."));
  const slider = element("input", { type: "range", min: 0, max: steps.length - 1, value: steps.length - 1 });
  const place = element("output", {});
  const options = tasks.map((text) => [text, text] as const);
  const task = select("task", options, show);
  task.input.value = tellingTask(ways.slice(0, 2), tasks); // the page's verdict is about the first two
  const columns = ways.map(() => new WayColumn());
  slider.addEventListener("input", show);
  host.append(
    element(
      "div",
      { class: "controls" },
      task.field,
      element("label", { class: "field" }, element("span", {}, "RL step"), slider, place),
    ),
    choice<ColourMode>("colour by", MODES, "surprise", (mode) => columns.forEach((column) => column.colour(mode))),
    element("div", { class: "ways" }, ...columns.map(({ view }) => view)),
  );
  show();

  function show(): void {
    const step = steps[Number(slider.value)]!;
    place.textContent = String(step - warmSteps);
    ways.forEach(({ label, transcripts }, i) => {
      const written = transcripts.filter((t) => t.task === task.input.value);
      // The last until this step. For an agent that plays only once, as random play does, it is that one.
      const handle = written.findLast((t) => t.step <= step) ?? written[0];
      if (handle === undefined) return columns[i]!.showNone(label);
      const when = handle.step === step ? "" : ` at RL step ${handle.step - warmSteps}`;
      columns[i]!.show(label, handle.open(), when);
    });
  }
}

/** The first of the tasks that tells the agents apart at the end; the first one if none does. */
export function tellingTask(
  ways: readonly { readonly transcripts: readonly Pick<Transcript, "task" | "success">[] }[],
  tasks: readonly string[],
): string {
  const outcomes = (text: string): readonly boolean[] =>
    ways.flatMap(({ transcripts }) => transcripts.findLast((own) => own.task === text)?.success ?? []);
  return tasks.find((text) => new Set(outcomes(text)).size > 1) ?? tasks[0]!;
}

/** An agent's way through a task: whether it was solved, the expected and the real answers, and all tokens. */
export class WayColumn {
  readonly view: HTMLElement = element("div", { class: "way" });
  /** undefined: the tokens are not shown. */
  readonly #strip: TokenStrip | undefined;

  constructor({ tokens = true }: { readonly tokens?: boolean } = {}) {
    this.#strip = tokens ? new TokenStrip() : undefined;
    this.colour("surprise");
  }

  colour(mode: ColourMode): void {
    this.#strip?.colour(mode);
  }

  /** @param when a remark behind the label, in small letters */
  show(label: string, transcript: Transcript, when: string): void {
    const [kind, outcome] = transcript.success ? ["good", "✔ solved"] : ["bad", "✘ failed"];
    this.view.replaceChildren(
      element(
        "h3",
        {},
        label,
        element("span", { class: "muted" }, when),
        " ",
        element("span", { class: kind }, outcome),
      ),
      expectations(transcript),
      ...(this.#strip ? [this.#strip.view] : []),
    );
    this.#strip?.show(transcript);
  }

  dispose(): void {
    this.#strip?.dispose();
  }

  showNone(label: string): void {
    this.view.replaceChildren(element("h3", {}, label), element("p", { class: "muted" }, "not written down"));
  }
}

/** What stands for an answer without a letter. */
const EMPTY = "(an empty answer)";

/** The actions, and for each that was answered the expected answer and the real one. */
function expectations({ tokens, turns, expected = [], stopReason }: Transcript): HTMLElement {
  const list = element("dl", { class: "expectations" });
  const add = (name: string, text: string, kind: string, note = ""): void => {
    const remark = note === "" ? [] : [" ", element("span", { class: "muted" }, note)];
    list.append(element("dt", {}, name), element("dd", { class: kind }, element("code", {}, text), ...remark));
  };
  for (let turn = 0; turn < turns; turn++) {
    const of = (role: string): Transcript["tokens"] => tokens.filter((t) => t.turn === turn && t.role === role);
    const textOf = (role: string): string => {
      const all = of(role).map(({ text }) => text);
      return visible(
        all
          .join("")
          .replace(/<\|\w+\|>/g, "")
          .trim(),
      );
    };
    const came = textOf("observation");
    const isCut = turn + 1 === turns && stopReason === "max_tokens";
    add("typed", textOf("action"), "typed", isCut ? "cut off: too long" : "");
    if (turn + 1 === turns && came === "") continue; // the last action may end the episode without an answer
    const hoped = visible((expected[turn] ?? "").trim());
    const nats = of("observation").flatMap(({ surprise = [] }) => surprise);
    // An answer without a token was not predicted, whatever was expected in its place.
    const isRated = came !== hoped && nats.length > 0;
    const note = isRated ? `the agent gave this ${chanceIn(nats.reduce((sum, own) => sum + own, 0))}` : "";
    add("expected", hoped === "" ? EMPTY : hoped, hoped === came ? "good" : "bad");
    add("answered", came === "" ? EMPTY : came, "came", note);
  }
  return list;
}

/** The probability e^−nats, as people say it. */
export function chanceIn(nats: number): string {
  if (nats < Math.LN2) return formatPercent(Math.exp(-nats));
  const of = Math.exp(nats);
  return of >= 1e6 ? "less than one chance in a million" : `one chance in ${Math.round(of).toLocaleString("en")}`;
}
