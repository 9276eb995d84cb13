/**
 * `npx tsx scripts/worldTable.ts runs/worlds/results.json`: writes the worlds of a comparison into the table of
 * docs/worlds.md; rows of other worlds stay. The comparison is the one that the page names. Minutes are those of
 * `npm start -- --env WORLD --name minutes-WORLD`, if there is such a run.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { format } from "prettier";
import { openRun } from "../run/node/runFolder.ts";
import { addOwnWorlds, OWN_WORLDS } from "../run/node/ownWorlds.ts";
import { type Interval, mean, meanOver } from "../run/figures/statistics.ts";
import { presetFor } from "../run/presets.ts";
import { HELD_OUT_SEEDS } from "../run/scriptedPlayers.ts";
import { startOptions } from "../run/startOptions.ts";
import { taskOptions, WORLDS } from "../run/worlds.ts";
import type { CellResult, Results } from "../studies/ablate/results.ts";
import { packageFolder } from "./packageFolder.ts";

const [BEGIN, END] = ["<!-- table: scripts/worldTable.ts -->", "<!-- /table -->"];
const HEAD =
  "| World | Seeds | Random play | Warm start | GRPO | GRPO + ECHO | Demonstrations further | Expert | " +
  "Rise with ECHO | Minutes |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";
/** Held-out tasks that the expert plays. */
const TASKS = 300;

const percent = (rate: number): string => (100 * rate).toFixed(1);
const points = ({ value, low, high }: Interval): string => {
  const [at, from, to] = [value, low, high].map((x) => `${x < 0 ? "−" : "+"}${Math.abs(100 * x).toFixed(0)}`);
  return `${at!} [${from!}, ${to!}]`;
};

/** The share of held-out tasks that the expert solves. */
async function expertIn(world: string): Promise<number> {
  const spec = WORLDS[world]!;
  const options = taskOptions(presetFor(startOptions({ env: world })), "heldout");
  let solved = 0;
  for (let i = 0; i < TASKS; i++) {
    const env = spec.make(options);
    await env.reset(HELD_OUT_SEEDS + i);
    for (let done = false; !done;) {
      const result = await env.step(spec.expert!(env));
      done = result.done;
      if (done && result.info["success"] === true) solved++;
    }
    env.close?.();
  }
  return solved / TASKS;
}

/** The minutes of a whole run; a dash if there is none. */
function minutesIn(world: string): string {
  const path = join("runs", `minutes-${world}`);
  if (!existsSync(path)) return "–";
  const { files } = openRun(path).loadLatestCheckpoint()!;
  const { seconds } = JSON.parse(new TextDecoder().decode(files["state.json"])) as { readonly seconds: number };
  return (seconds / 60).toFixed(1);
}

async function rowOf(world: string, cells: readonly CellResult[]): Promise<string> {
  const own = (arm: string): readonly CellResult[] => cells.filter((cell) => cell.arm === arm);
  const end = (cell: CellResult): number => cell.points.at(-1)!.success;
  const at = (arm: string): string => (own(arm).length === 0 ? "–" : percent(mean(own(arm).map(end))));
  const echo = own("grpo+echo");
  const entries = [
    `[${world}](${world === "shell" ? "shell.md" : `#${world}`})`,
    [...new Set(echo.map(({ seed }) => seed))].join(", "),
    at("random"),
    percent(mean(echo.map(({ warm }) => warm.success))),
    at("grpo"),
    at("grpo+echo"),
    at("demonstrations"),
    percent(await expertIn(world)),
    points(meanOver(echo.map((cell) => end(cell) - cell.warm.success))),
    minutesIn(world),
  ];
  return `| ${entries.join(" | ")} |`;
}

/** The page with these rows, in the order of `--list`. */
async function withRows(page: string, rows: ReadonlyMap<string, string>): Promise<string> {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`docs/worlds.md has no ${BEGIN} … ${END}`);
  const old = [...page.slice(from, to).matchAll(/^\| \[(\w+)\].*$/gm)].map(([row, world]) => [world!, row] as const);
  const all = new Map([...old, ...rows]);
  const table = [HEAD, ...OWN_WORLDS.flatMap((world) => all.get(world) ?? [])].join("\n");
  return format(`${page.slice(0, from + BEGIN.length)}\n\n${table}\n\n${page.slice(to)}`, {
    parser: "markdown",
    printWidth: 120,
    proseWrap: "preserve",
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  addOwnWorlds();
  const file = join(packageFolder, "docs/worlds.md");
  const rows = new Map<string, string>();
  for (const path of process.argv.slice(2)) {
    const { cells } = JSON.parse(readFileSync(path, "utf8")) as Results;
    for (const world of new Set(cells.map(({ env }) => env)))
      rows.set(
        world,
        await rowOf(
          world,
          cells.filter((cell) => cell.env === world),
        ),
      );
  }
  writeFileSync(file, await withRows(readFileSync(file, "utf8"), rows));
}
