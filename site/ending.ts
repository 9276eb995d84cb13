/** The summary at the end of a run: what came of it, what ten runs of the page's own experiment gave, and a link. */
import { rateDifference } from "../run/figures/statistics.ts";
import { element } from "../run/page/dom.ts";
import type { Evaluation } from "../run/records.ts";
import { TEN_RUNS } from "./recorded.ts";

/** An agent at its end. */
export interface Ended {
  readonly label: string;
  readonly after: Evaluation;
}

/** @param isUnchanged whether the experiment is the one that the page opens with */
export function endView(agents: readonly Ended[], isUnchanged: boolean): HTMLElement {
  const copied = element("span", { role: "status", class: "muted" });
  const button = element("button", { type: "button" }, "Copy a link to this experiment");
  button.addEventListener("click", () => {
    void navigator.clipboard
      .writeText(location.href)
      .then(() => (copied.textContent = " copied"))
      .catch(() => (copied.textContent = ` ${location.href}`));
  });
  return element(
    "div",
    { class: "ending" },
    element("p", {}, element("strong", {}, "The end. "), sentenceOf(agents)),
    ...(isUnchanged ? [element("p", {}, TEN_SEEDS)] : []),
    element("p", { class: "controls" }, button, copied),
  );
}

/** docs/evidence.md; tests/site/ending.test.ts compares the figures. */
export const TEN_SEEDS =
  `${TEN_RUNS} ` +
  "Told random facts, with λ 0.2, the second ends at 11.0 %. It also fails where answers do not say what was right.";

function sentenceOf(agents: readonly Ended[]): string {
  const shares = agents.map(({ label, after }) => `${label} solves ${percent(after.successes / after.episodes)}`);
  const [a, b] = agents.map(({ after }) => ({ successes: after.successes, trials: after.episodes }));
  if (a === undefined || b === undefined) return `${shares.join(", ")} of the new tasks.`;
  const { low, high } = rateDifference(a, b);
  const isClear = low > 0 || high < 0;
  return `${shares.join(", ")} of the new tasks${isClear ? "." : "; so many tasks cannot tell them apart."}`;
}

const percent = (share: number): string => `${Math.round(100 * share)} %`;
