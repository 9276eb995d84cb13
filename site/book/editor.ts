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
    addEventListener("resize", () => this.fit());
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
    this.shown.hidden = true;
    if (!this.area.isConnected) this.host.append(this.area);
    this.fit();
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

  /** Gives the area as many rows as its text has lines, and more where a narrow page wraps these. */
  private fit(): void {
    const { area } = this;
    if (area === undefined) return;
    area.rows = area.value.split("\n").length;
    const hidden = area.scrollHeight - area.clientHeight;
    if (hidden > 0) area.rows += Math.ceil(hidden / parseFloat(getComputedStyle(area).lineHeight));
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
