/** Makes report.html from a run folder. */
import { join } from "node:path";
import type { RunFolder } from "../node/runFolder.ts";
import { bundlePage } from "../page/assets.ts";
import type { Summary } from "../records.ts";
import { renderReport } from "./render.ts";

/**
 * Writes `report.html` into the run's folder from the lines that are there, also for a run that has not ended. Its
 * path.
 */
export async function writeReport(run: RunFolder, summary?: Summary): Promise<string> {
  const html = renderReport(
    {
      name: run.name,
      config: run.config,
      metrics: run.readMetrics(),
      transcripts: run.readTranscripts(),
      ...(summary ? { summary } : {}),
    },
    await bundlePage("report"),
  );
  run.writeFile("report.html", html);
  return join(run.path, "report.html");
}
