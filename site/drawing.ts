/**
 * All code that draws: the live page's curves, map, ways and token strips, and a saved report. It is bundled into one
 * file, `drawing.js` (scripts/sitePage.ts), for two uses: the page imports it when an agent has begun to work, and
 * saveReport.ts puts its text into the report as the report's script. So the chart library is loaded once.
 */
import { mountComparison } from "../run/compare/mount.ts";

export { WayColumn } from "../run/compare/ways.ts";
export { FactMap } from "../run/page/factMap.ts";
export { TokenStrip } from "../run/page/tokens.ts";
export { Curves } from "./curves.ts";

// The live page has no such element: it is the data of a report.
const data = document.getElementById("data");
if (data !== null) mountComparison(data.textContent);
