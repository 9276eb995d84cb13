/** Draws a comparison's curves and ways from the data in its report.html. Runs in the browser. */
import { decodeReportData } from "../page/embedded.ts";
import { mountOutcome } from "./charts.ts";
import type { Outcome } from "./outcome.ts";
import { mountWays } from "./ways.ts";

interface Embedded {
  readonly outcome: Outcome;
  readonly warmSteps: number;
  readonly ways: readonly { readonly label: string; readonly data: string }[];
}

/** @param data the data that render.ts has embedded, as JSON */
export function mountComparison(data: string): void {
  const { outcome, warmSteps, ways } = JSON.parse(data) as Embedded;
  const byId = (id: string): HTMLElement => document.getElementById(id) ?? document.body;
  mountOutcome(byId("charts"), outcome);
  mountWays(
    byId("viewer"),
    ways.map(({ label, data }) => ({ label, transcripts: decodeReportData(data).transcripts })),
    warmSteps,
  );
}
