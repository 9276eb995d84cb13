/** The live page: reads the experiment from the address and puts it on the page. */
import { experimentOf } from "./experiment.ts";
import { LiveRun } from "./live.ts";

const byId = (id: string): HTMLElement => document.getElementById(id)!;
const say = (text: string): void => void (byId("status").textContent = text);
const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

try {
  const places = { controls: byId("controls"), charts: byId("charts"), ways: byId("ways"), say };
  const run = new LiveRun(experimentOf(new URLSearchParams(location.search)), places);
  run.begin().catch((error: unknown) => say(textOf(error)));
} catch (error) {
  say(textOf(error));
}
