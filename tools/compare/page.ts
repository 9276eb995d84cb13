/**
 * The script of a comparison's report.html: draws curves and ways from the embedded data. Runs in the browser when
 * loaded.
 */
import { decodeReportData } from "../page/embedded.ts";
import { mountOutcome } from "./charts.ts";
import type { Outcome } from "./outcome.ts";
import { mountWays } from "./ways.ts";

interface Embedded {
  readonly outcome: Outcome;
  readonly warmSteps: number;
  readonly ways: readonly { readonly label: string; readonly data: string }[];
}

const { outcome, warmSteps, ways } = JSON.parse(document.getElementById("data")?.textContent ?? "") as Embedded;
const byId = (id: string): HTMLElement => document.getElementById(id) ?? document.body;
mountOutcome(byId("charts"), outcome);
mountWays(
  byId("viewer"),
  ways.map(({ label, data }) => ({ label, transcripts: decodeReportData(data).transcripts })),
  warmSteps,
);
