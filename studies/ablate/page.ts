/**
 * The script of an ablation's report.html: draws the curves from the embedded results. Runs in the browser when loaded.
 */
import { mountCurves } from "./pageCurves.ts";
import type { Results } from "./results.ts";

const data = JSON.parse(document.getElementById("data")?.textContent ?? "") as Results;
mountCurves(document.getElementById("charts") ?? document.body, data);
