/** The section that looks at tokens: what it needs is loaded when it is opened, and not at the page's start. */
import { element } from "../run/page/dom.ts";
import type { Inspected, Inspector } from "./inspector.ts";

export class TokenSection {
  #inspector: Inspector | null = null;
  #isOff = false;

  /** @param place what was there is replaced by a box that shows the inspector when it is opened */
  constructor(place: HTMLElement, agents: readonly Inspected[]) {
    const details = element("details", {}, element("summary", {}, "Look at the last step"));
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

  dispose(): void {
    this.#isOff = true;
    this.#inspector?.dispose();
  }
}
