/** The box in which a page shows a program's output and its error. */
import { element } from "../../run/page/dom.ts";
import { changesOf, COLOUR } from "./changes.ts";
import type { Failure } from "./runner.ts";

export class Output {
  private readonly box: HTMLElement;
  private readonly label: HTMLElement;
  private readonly text: HTMLElement;
  private printed = "";
  private isWaiting = false;

  /** @param box has a label and a <pre>, which may hold what CI's run printed */
  constructor(box: HTMLElement) {
    this.box = box;
    this.label = box.querySelector(".label")!;
    this.text = box.querySelector("pre")!;
  }

  /** The output since `clear`. */
  get value(): string {
    return this.printed;
  }

  clear(label: string): void {
    this.printed = "";
    this.text.textContent = "";
    this.label.textContent = label;
    this.box.querySelector(".problem")?.remove();
    this.box.hidden = true;
  }

  print(line: string): void {
    this.printed += `${line}\n`;
    this.box.hidden = false;
    if (this.isWaiting) return;
    // A fast loop prints more often than the screen can show: once a frame is enough.
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.text.textContent = this.printed;
    });
  }

  /** Shows text that was not printed just now. */
  show(label: string, text: string): void {
    this.clear(label);
    this.text.textContent = text;
    this.box.hidden = text === "";
  }

  /** Shows the output as a diff against `before`. */
  compareWith(before: string, label: string): void {
    const lines = changesOf(before, this.printed).map(({ sign, text }) =>
      element("span", { class: COLOUR[sign] }, `${sign} ${text}\n`),
    );
    requestAnimationFrame(() => {
      // After what `print` still has to show.
      this.text.replaceChildren(...lines);
      this.label.textContent = label;
    });
  }

  /** Puts back the content that the page came with. */
  restore(label: string, content: readonly Node[]): void {
    this.clear(label);
    this.text.replaceChildren(...content.map((node) => node.cloneNode(true)));
    this.box.hidden = content.length === 0;
  }

  /** Shows an error, with its line in `code` if it has one. */
  fail({ name, message, place }: Failure, code: string | undefined): void {
    const problem = element("p", { class: "problem" }, place === undefined ? "" : `Line ${place.line}: `);
    problem.append(name === "Error" || name === "thrown" ? message : `${name}: ${message}`);
    const line = place === undefined ? undefined : code?.split("\n")[place.line - 1]?.trim();
    if (line !== undefined && line !== "") problem.append(element("code", {}, line));
    this.box.querySelector(".problem")?.remove();
    this.box.append(problem);
    this.box.hidden = false;
  }
}
