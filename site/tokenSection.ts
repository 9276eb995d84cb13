/** The section of the token inspector, whose code is loaded when the section is opened. */
import { element } from "../run/page/dom.ts";
import type { Inspected, Inspector } from "./inspector.ts";

export class TokenSection {
  #inspector: Inspector | null = null;
  #isOff = false;

  /** @param place its content is replaced by a box that shows the inspector when it is opened */
  constructor(place: HTMLElement, agents: readonly Inspected[]) {
    const details = element("details", {}, element("summary", {}, "Look at the last step, token by token"));
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
