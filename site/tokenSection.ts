/** The section of the token inspector, whose code is loaded when each agent has done a step or somebody opens it. */
import { element } from "../run/page/dom.ts";
import type { Inspected, Inspector } from "./inspector.ts";

export class TokenSection {
  #inspector: Inspector | null = null;
  readonly #details = element("details", {}, element("summary", {}, "Look at a step, token by token"));
  #isOff = false;
  #hasOpened = false;

  /** @param place its content is replaced by a box that shows the inspector when it is opened */
  constructor(place: HTMLElement, agents: readonly Inspected[]) {
    const details = this.#details;
    place.replaceChildren(details);
    const open = async (): Promise<void> => {
      const { Inspector } = await import("./inspector.ts");
      if (this.#isOff) return;
      this.#inspector = new Inspector(agents);
      details.append(this.#inspector.view);
    };
    const failed = (error: unknown): void => details.append(element("p", {}, String(error)));
    details.addEventListener("toggle", () => void open().catch(failed), { once: true });
  }

  /** Shows a token of the last step; does nothing if it did so before, since the reader may have closed the section. */
  openOnce(): void {
    if (!this.#hasOpened) this.#details.open = true;
    this.#hasOpened = true;
  }

  dispose(): void {
    this.#isOff = true;
    this.#inspector?.dispose();
  }
}
