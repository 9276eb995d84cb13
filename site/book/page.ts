/** A chapter's page: its cells run, its program breaks, its exercises are checked. */
import { element } from "../../run/page/dom.ts";
import { compare, type Likeness, worse } from "./compare.ts";
import { Editor } from "./editor.ts";
import { FIGURES } from "./figures/all.ts";
import { Output } from "./output.ts";
import { DATA_ID, type PageData } from "./pageData.ts";
import { applyChanges, assemble, assembleCheck } from "./program.ts";
import { type Failure, start, stop } from "./runner.ts";
import { svgElement } from "./svg.ts";

const FOLDER = "learn";
const NOW = "Printed just now";
const NOTHING = "What was printed has nothing to draw.";
const data = JSON.parse(document.getElementById(DATA_ID)!.textContent) as PageData;

/** The buttons of a cell, and a line that says what became of a run. */
class Bar {
  private readonly stopButton = button("Stop", () => stop());
  private readonly status = element("span", { role: "status", class: "status" });
  private readonly clock = element("span", { class: "muted", "aria-hidden": "true" });
  private timer = 0;
  private began = 0;

  constructor(host: HTMLElement, buttons: readonly HTMLButtonElement[]) {
    const [first, ...others] = buttons;
    this.stopButton.disabled = true;
    host.append(first!, this.stopButton, ...others, this.status, this.clock);
  }

  begin(): void {
    this.began = performance.now();
    this.say("Running …");
    this.stopButton.disabled = false;
    this.timer = window.setInterval(() => (this.clock.textContent = `${this.seconds().toFixed(0)} s`), 1000);
  }

  end(text: string, kind: "" | "good" | "bad" = ""): void {
    clearInterval(this.timer);
    this.clock.textContent = "";
    this.stopButton.disabled = true;
    this.say(text, kind);
  }

  say(text: string, kind: "" | "good" | "bad" = ""): void {
    this.status.textContent = text;
    this.status.className = `status ${kind}`;
  }

  seconds(): number {
    return (performance.now() - this.began) / 1000;
  }
}

interface Cell {
  readonly host: HTMLElement;
  readonly editor: Editor;
  readonly output: Output;
  readonly bar: Bar;
}

const cells = [...document.querySelectorAll<HTMLElement>(".cell")].map((host, i): Cell => {
  const editor = new Editor(part(host, ".editor"), () => run(i));
  const output = new Output(part(host, ".output"));
  const reset = (): void => {
    editor.reset();
    output.show("Prints", data.outputs[i]!);
    drawFigures(host, data.outputs.slice(0, i + 1));
    bar.say("");
  };
  const bar = new Bar(part(host, ".bar"), [
    button("Run", () => run(i), "Runs the program up to here (Ctrl+Enter)"),
    button("Edit", () => editor.edit()),
    button("Reset", reset),
  ]);
  return { host, editor, output, bar };
});

/** Draws the figures beside a cell from what was printed. @param outputs of the cells up to it */
function drawFigures(host: HTMLElement, outputs: readonly string[]): void {
  for (const place of host.closest(".row")!.querySelectorAll<HTMLElement>("[data-figure]")) {
    const drawn = FIGURES[data.chapter]![Number(place.dataset["figure"])]!.draw(outputs.at(-1)!, outputs.join(""));
    const drawing = drawn === undefined ? element("p", { class: "muted" }, NOTHING) : svgElement(drawn);
    part(place, ".drawing").replaceChildren(drawing);
  }
}

/** Runs all cells up to this one as one program; each gets what it printed. */
function run(last: number): void {
  const own = cells.slice(0, last + 1);
  const program = assemble(own.map(({ editor }) => editor.text));
  for (const { output } of own) output.clear(NOW);
  const { bar } = own[last]!;
  let cell = 0;
  const onEnd = (result: Failure | "stopped" | undefined): void => {
    own.forEach(({ host }, i) =>
      drawFigures(
        host,
        own.slice(0, i + 1).map(({ output }) => output.value),
      ),
    );
    if (result === "stopped") return bar.end("Stopped.");
    if (result === undefined) return bar.end(...verdict(own, bar.seconds()));
    const at = result.place?.cell ?? cell;
    own[at]!.output.fail(result, own[at]!.editor.text);
    bar.end(at === last ? "Ended by an error." : "Ended by an error in a cell above.", "bad");
  };
  const onPrinted = (text: string): void => own[cell]!.output.print(text);
  void start(program, FOLDER, data.modules, { onCell: (next) => (cell = next), onPrinted, onEnd });
  bar.begin();
}

const CHECKED: Readonly<Record<Exclude<Likeness, "other">, string>> = {
  same: "the output is the one that CI checked.",
  close: "the output is the one that CI checked, but for last digits: engines round Math.sin and others differently.",
};

/** The verdict on a finished run: is its output the one that CI checked? */
function verdict(own: readonly Cell[], seconds: number): [text: string, kind: "" | "good" | "bad"] {
  const ran = `Ran in ${seconds.toFixed(1)} s`;
  const likeness = own
    .map(({ output }, i) => compare(output.value, data.outputs[i]!))
    .reduce<Likeness>((a, b) => worse(a, b), "same");
  const expected = data.outputs.slice(0, own.length).join("");
  if (expected === "" && own.every(({ output }) => output.value === ""))
    return [`${ran}; nothing is printed here yet.`, "good"];
  if (likeness !== "other") return [`${ran}; ${CHECKED[likeness]}`, "good"];
  if (own.some(({ editor }) => editor.isEdited)) return [`${ran}; the code was edited, the output is another.`, ""];
  return [`${ran}; the output is not the one that CI checked.`, "bad"];
}

/** "Break it": its button changes the cells and runs all of them; what is printed stands beside it. */
function mountBreak(host: HTMLElement): void {
  const label = part(host, ".output .label").textContent;
  const kept = [...part(host, ".output pre").childNodes].map((node) => node.cloneNode(true));
  const output = new Output(part(host, ".output"));
  const undo = (): void => {
    for (const { editor } of cells) editor.reset();
    output.restore(label, kept);
    bar.say("");
  };
  const apply = (): void => {
    const texts = cells.map(({ editor }) => editor.text);
    let changed: string[];
    try {
      changed = applyChanges(texts, data.changes);
    } catch {
      return bar.say("The lines to change are not in the program any more. Undo first.", "bad");
    }
    changed.forEach((text, i) => {
      if (text !== texts[i]) cells[i]!.editor.set(text);
    });
    output.clear(NOW);
    const onEnd = (result: Failure | "stopped" | undefined): void => {
      if (result === "stopped") return bar.end("Stopped.");
      if (result !== undefined) output.fail(result, changed[result.place?.cell ?? 0]);
      output.compareWith(data.outputs.join(""), `${NOW}, beside what the whole program prints (−)`);
      const error = result === undefined ? "" : `${result.name}: ${result.message}\n`;
      const likeness = compare(output.value + error, data.broken);
      const text = likeness === "other" ? "the output is not the one that CI checked." : CHECKED[likeness];
      bar.end(`Ran in ${bar.seconds().toFixed(1)} s; ${text}`, likeness === "other" ? "" : "good");
    };
    const onPrinted = (text: string): void => output.print(text);
    void start(assemble(changed), FOLDER, data.modules, { onCell: () => {}, onPrinted, onEnd });
    bar.begin();
  };
  const bar = new Bar(part(host, ".bar"), [
    button("Break it and run", apply, "Changes the cells above and runs all of them"),
    button("Undo", undo),
  ]);
}

function mountExercise(host: HTMLElement, { number, before, after }: PageData["exercises"][number]): void {
  const check = (): void => {
    const program = assembleCheck(before, editor.text, after, number);
    output.clear("Printed while it was checked");
    const onEnd = (result: Failure | "stopped" | undefined): void => {
      if (result === undefined) return bar.end("Right: the check accepts it.", "good");
      if (result === "stopped") return bar.end("Stopped.");
      output.fail(result, editor.text);
      bar.end("Not yet.", "bad");
    };
    const onPrinted = (text: string): void => output.print(text);
    const listener = { onCell: () => {}, onPrinted, onEnd };
    void start(program, `${FOLDER}/exercises`, data.modules, listener);
    bar.begin();
  };
  const editor = new Editor(part(host, ".editor"), check);
  const output = new Output(part(host, ".output"));
  const reset = (): void => {
    editor.reset();
    output.clear("");
    bar.say("");
  };
  const bar = new Bar(part(host, ".bar"), [
    button("Check", check, "Runs the check (Ctrl+Enter)"),
    button("Edit", () => editor.edit()),
    button("Reset", reset),
  ]);
}

function button(text: string, onClick: () => void, title = ""): HTMLButtonElement {
  const own = element("button", { type: "button", ...(title === "" ? {} : { title }) }, text);
  own.addEventListener("click", onClick);
  return own;
}

function part(host: HTMLElement, selector: string): HTMLElement {
  return host.querySelector<HTMLElement>(selector)!;
}

for (const host of document.querySelectorAll<HTMLElement>(".breaker")) mountBreak(host);
[...document.querySelectorAll<HTMLElement>(".exercise")].forEach((host, i) => mountExercise(host, data.exercises[i]!));
