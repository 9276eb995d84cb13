/** The script of a comparison's report.html. Runs in the browser when loaded. */
import { mountComparison } from "./mount.ts";

mountComparison(document.getElementById("data")?.textContent ?? "");
