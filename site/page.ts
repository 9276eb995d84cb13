/**
 * The live page: the experiment that the address names, the form that changes it, and links to experiments that are
 * worth a look. A change writes the address, so that it can be sent to somebody and the back button works. The
 * experiment of an address without words is built into the page (scripts/sitePage.ts); the code that reads words is
 * loaded with the first address that has some.
 */
import { UsageError } from "../run/usage.ts";
import { element } from "../run/page/dom.ts";
import type { Controls } from "./controls.ts";
import type { PageExperiment } from "./experiment.ts";
import { hasFacts, leadHtml } from "./lead.ts";
import { LiveRun } from "./live.ts";
import { AGENTS } from "./messages.ts";
import type { ExperimentWords } from "./words.ts";

const byId = (id: string): HTMLElement => document.getElementById(id)!;
const say = (text: string): void => void (byId("status").textContent = text);
const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const places = {
  controls: byId("controls"),
  knowledge: byId("knowledge"),
  success: byId("success"),
  events: byId("events"),
  verdict: byId("verdict"),
  end: byId("end"),
  charts: byId("charts"),
  further: byId("further"),
  ways: byId("ways"),
  doctor: byId("diagnoses"),
  tokens: byId("inspector"),
  machine: byId("machine"),
  say,
};
let run: LiveRun | undefined;

let form: Controls | undefined;
/** Shows the two questions about an experiment; undefined before they are loaded. */
let ask: ((experiment: PageExperiment) => void) | undefined;

byId("form").addEventListener("toggle", () => void openForm().catch((error: unknown) => say(textOf(error))), {
  once: true,
});
for (const link of links()) link.addEventListener("click", follow);
const program = element("button", { type: "button" }, "Export as TypeScript");
const report = element("button", { type: "button" }, "Save report");
byId("exports").append(program, report);
program.addEventListener("click", withRun(exportProgram));
report.addEventListener("click", withRun(saveReport));
const tour = byId("tour");
tour.addEventListener("click", () => {
  const show = async (): Promise<void> => void new (await import("./tour.ts")).Tour(tour);
  show().catch((error: unknown) => say(textOf(error)));
});
addEventListener("popstate", begin);
begin();

/** Makes the form when its box is opened; until then nobody waits for its code. */
async function openForm(): Promise<void> {
  const [{ Controls }, { addressOf }] = await Promise.all([import("./controls.ts"), import("./words.ts")]);
  form = new Controls(AGENTS, (words) => visit(addressOf(words).toString()));
  if (run) form.show(run.experiment);
  byId("form").append(form.view);
}

/** Goes to an address of this page, as a link does, without loading the page again. @param words after the `?` */
function visit(words: string): void {
  history.pushState(null, "", words === "" ? location.pathname : `?${words}`);
  begin();
}

/** Shows the two questions about this experiment, and the visitor's own try. They wait until agents have begun. */
async function invite({ experiment }: LiveRun): Promise<void> {
  const [{ quickControls }, { Yours }] = await Promise.all([import("./quick.ts"), import("./yours.ts")]);
  if (run?.experiment !== experiment) return;
  const change = async (words: ExperimentWords): Promise<void> => {
    const { addressOf } = await import("./words.ts");
    visit(addressOf(words).toString());
  };
  // Once they are there, they show the newest experiment before its agents have begun.
  ask ??= (newest) => {
    const before = [...byId("quick").querySelectorAll("input")].findIndex((input) => input === document.activeElement);
    byId("quick").replaceChildren(...quickControls(newest.words, hasFacts(newest.warm), (words) => void change(words)));
    byId("quick").querySelectorAll("input")[before]?.focus();
  };
  ask(experiment);
  byId("yours").replaceChildren(new Yours(experiment.warm).view);
}

/** Downloads the experiment as a TypeScript program. */
async function exportProgram({ experiment }: LiveRun): Promise<void> {
  const { programOf } = await import("./exportProgram.ts");
  download("experiment.ts", "text/typescript", programOf(experiment));
}

async function saveReport(own: LiveRun): Promise<void> {
  const [{ reportOf }, logs] = await Promise.all([import("./saveReport.ts"), own.logs()]);
  download("report.html", "text/html", await reportOf(own.experiment, logs));
}

function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A listener that calls `act` with the page's run and shows its error. */
function withRun(act: (own: LiveRun) => Promise<void>): () => void {
  return () => {
    if (run) act(run).catch((error: unknown) => say(textOf(error)));
  };
}

/** Begins the experiment of the address and shows its error. */
function begin(): void {
  start().catch((error: unknown) => say(textOf(error)));
}

/** Ends what runs and begins the experiment of the address. */
async function start(): Promise<void> {
  run?.dispose();
  run = undefined;
  say("Loading the experiment …");
  const { search } = location;
  const experiment = await experimentIn(search);
  // Another address may have come while the code that reads this one was loaded.
  if (experiment === null || location.search !== search || run) return;
  form?.show(experiment);
  ask?.(experiment);
  markCurrent();
  byId("lead").innerHTML = leadHtml(experiment);
  byId("facts").hidden = !hasFacts(experiment.warm);
  run = new LiveRun(experiment, places, (own) => void invite(own).catch((error: unknown) => say(textOf(error))));
  await run.begin();
}

/** @returns null, and says why, if the address names none */
async function experimentIn(search: string): Promise<PageExperiment | null> {
  if (search === "") return JSON.parse(byId("experiment").textContent) as PageExperiment;
  const { experimentOf } = await import("./experiment.ts");
  try {
    return experimentOf(new URLSearchParams(search));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    say(error.message);
    return null;
  }
}

function links(): NodeListOf<HTMLAnchorElement> {
  return document.querySelectorAll<HTMLAnchorElement>(".presets a");
}

/** Goes where a link leads without loading the page again, unless it is to be opened elsewhere. */
function follow(event: MouseEvent): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  visit(new URL((event.currentTarget as HTMLAnchorElement).href).search.slice(1));
}

function markCurrent(): void {
  for (const link of links()) {
    if (new URL(link.href).search === location.search) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}
