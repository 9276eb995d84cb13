/** Code of a page that can be edited: coloured until then, a plain text area afterwards. */
import { element } from "../../run/page/dom.ts";

export class Editor {
  private readonly host: HTMLElement;
  private readonly shown: HTMLElement;
  private readonly original: string;
  private readonly onRun: () => void;
  private area: HTMLTextAreaElement | undefined;

  /** @param host has the coloured code in a <pre> and says in `aria-label` what it is */
  constructor(host: HTMLElement, onRun: () => void) {
    this.host = host;
    this.shown = host.querySelector("pre")!;
    this.original = this.shown.textContent;
    this.onRun = onRun;
    this.shown.addEventListener("keydown", (event) => this.onKey(event));
    this.shown.addEventListener("dblclick", () => this.edit());
  }

  get text(): string {
    return this.area?.value ?? this.original;
  }

  get isEdited(): boolean {
    return this.text !== this.original;
  }

  /** Shows the code in a text area. */
  edit(): void {
    this.set(this.text);
    this.area!.focus();
  }

  /** Shows this text in the text area. */
  set(text: string): void {
    this.area ??= this.makeArea();
    this.area.value = text;
    this.fit();
    this.shown.hidden = true;
    if (!this.area.isConnected) this.host.append(this.area);
  }

  reset(): void {
    this.area?.remove();
    this.area = undefined;
    this.shown.hidden = false;
  }

  private makeArea(): HTMLTextAreaElement {
    const label = this.shown.getAttribute("aria-label") ?? "Code";
    const area = element("textarea", { "aria-label": `${label}, editable`, spellcheck: "false", wrap: "off" });
    area.autocapitalize = "off";
    area.autocomplete = "off";
    area.addEventListener("input", () => this.fit());
    area.addEventListener("keydown", (event) => this.onKey(event));
    return area;
  }

  /** Gives the area as many rows as its text has lines. */
  private fit(): void {
    if (this.area) this.area.rows = this.area.value.split("\n").length;
  }

  /** Ctrl+Enter runs. Tab goes on to the next control, as everywhere; Escape ends an edit that changed nothing. */
  private onKey(event: KeyboardEvent): void {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.onRun();
    } else if (event.key === "Escape" && this.area !== undefined && !this.isEdited) {
      this.reset();
      this.shown.focus();
    }
  }
}
