/** The section of the token inspector, whose code is loaded when the section is opened. */
import { element } from "../run/page/dom.ts";
import type { Inspected, Inspector } from "./inspector.ts";

export class TokenSection {
  readonly #details: HTMLDetailsElement;
  #inspector: Inspector | null = null;
  #isOff = false;
  /** Whether the page has opened it, and not the reader. */
  #isShown = false;

  /** @param place its content is replaced by a box that shows the inspector when it is opened */
  constructor(place: HTMLElement, agents: readonly Inspected[]) {
    const details = element("details", {}, element("summary", {}, "Look at the last step, token by token"));
    this.#details = details;
    place.replaceChildren(details);
    const open = async (): Promise<void> => {
      const { Inspector } = await import("./inspector.ts");
      if (this.#isOff) return;
      this.#inspector = new Inspector(agents, this.#isShown);
      details.append(this.#inspector.view);
    };
    const failed = (error: unknown): void => details.append(element("p", {}, String(error)));
    details.addEventListener("toggle", () => void open().catch(failed), { once: true });
  }

  /** Opens the section at a token that shows much, unless the reader has opened it already. */
  show(): void {
    if (this.#details.open || this.#inspector !== null) return;
    this.#isShown = true;
    this.#details.open = true;
  }

  dispose(): void {
    this.#isOff = true;
    this.#inspector?.dispose();
  }
}
