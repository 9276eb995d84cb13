/**
 * `npx tsx scripts/worldTable.ts [runs/NAME/results.json ...]`: takes the cells of these comparisons into
 * bench/worlds.jsonl, a line each, and writes the worlds of that file into the table of docs/worlds.md; rows of other
 * worlds stay. The comparisons are those that the page names. The minutes of `npm start -- --env WORLD --name
 * minutes-WORLD` are taken too, if there is such a run. A line of settings that the world no longer has is dropped.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { format } from "prettier";
import { openRun } from "../run/node/runFolder.ts";
import { addOwnWorlds, OWN_WORLDS } from "../run/node/ownWorlds.ts";
import { type Interval, mean, meanOver } from "../run/figures/statistics.ts";
import { environmentSettings } from "../run/environments.ts";
import { presetFor } from "../run/presets.ts";
import { HELD_OUT_SEEDS } from "../run/scriptedPlayers.ts";
import { startOptions } from "../run/startOptions.ts";
import { taskOptions, WORLDS } from "../run/worlds.ts";
import type { Results } from "../studies/ablate/results.ts";
import { packageFolder } from "./packageFolder.ts";

const [BEGIN, END] = ["<!-- table: scripts/worldTable.ts -->", "<!-- /table -->"];
const LINES = join(packageFolder, "bench/worlds.jsonl");
const HEAD =
  "| World | Seeds | Random play | Warm start | GRPO | GRPO + ECHO | Demonstrations further | Expert | " +
  "Rise with GRPO | Rise with ECHO | Minutes |\n" +
  `| --- | --- |${" ---: |".repeat(9)}`;
/** Held-out tasks that the expert plays. */
const TASKS = 300;
/** Seeds from which on a mean has an interval. */
const LEAST_FOR_INTERVAL = 5;

const percent = (rate: number): string => (100 * rate).toFixed(1);
/** Points, with the interval if there are seeds enough for one. */
const points = ({ value, low, high }: Interval, seeds: number): string => {
  const [at, from, to] = [value, low, high].map((x) => `${x < 0 ? "−" : "+"}${Math.abs(100 * x).toFixed(0)}`);
  return seeds < LEAST_FOR_INTERVAL ? at! : `${at!} [${from!}, ${to!}]`;
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

/** The minutes of a whole run, if there is one. */
function minutesOf(world: string): number | undefined {
  const path = join("runs", `minutes-${world}`);
  if (!existsSync(path)) return undefined;
  const { files } = openRun(path).loadLatestCheckpoint()!;
  const { seconds } = JSON.parse(new TextDecoder().decode(files["state.json"])) as { readonly seconds: number };
  return Number((seconds / 60).toFixed(1));
}

/** What one agent reached, or how long `npm start` took: a line of bench/worlds.jsonl. */
export type Line = {
  readonly world: string;
  /** The first digits of a hash of the world's settings in run/environments.ts. */
  readonly settings: string;
} & (
  | {
      readonly arm: string;
      readonly seed: number;
      /** Held-out tasks of an evaluation. */
      readonly tasks: number;
      /** Success after the warm start that all arms of the seed share, and at the end. */
      readonly warm: number;
      readonly end: number;
    }
  | { readonly minutes: number }
);

/** A text that changes if the settings of a world change. */
export const settingsKey = (world: string): string =>
  createHash("sha256")
    .update(JSON.stringify(environmentSettings(world)))
    .digest("hex")
    .slice(0, 8);

/** What a line is about: a later one of the same replaces it. */
const subject = (line: Line): string => ("arm" in line ? `${line.world} ${line.arm} ${line.seed}` : line.world);

export const readLines = (): Line[] =>
  existsSync(LINES)
    ? readFileSync(LINES, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((text) => JSON.parse(text) as Line)
    : [];

function linesOf({ cells, heldOutEpisodes }: Results): Line[] {
  return cells.map(({ env, arm, seed, warm, points }) => ({
    world: env,
    settings: settingsKey(env),
    arm,
    seed,
    tasks: heldOutEpisodes,
    warm: warm.success,
    end: points.at(-1)!.success,
  }));
}

/** "0–4" or "0, 2". */
function seedsOf(seeds: readonly number[]): string {
  const [first, last] = [seeds[0]!, seeds.at(-1)!];
  return seeds.length > 2 && last - first === seeds.length - 1 ? `${first}–${last}` : seeds.join(", ");
}

async function rowOf(world: string, lines: readonly Line[]): Promise<string> {
  const own = (arm: string) =>
    lines.flatMap((line) => ("arm" in line && line.arm === arm ? [line] : [])).sort((a, b) => a.seed - b.seed);
  const at = (arm: string): string => (own(arm).length === 0 ? "–" : percent(mean(own(arm).map(({ end }) => end))));
  const rises = (arm: string): string =>
    own(arm).length === 0 ? "–" : points(meanOver(own(arm).map(({ warm, end }) => end - warm)), own(arm).length);
  const echo = own("grpo+echo");
  const minutes = lines.flatMap((line) => ("minutes" in line ? [line.minutes.toFixed(1)] : []));
  const entries = [
    `[${world}](${world === "shell" ? "shell.md" : `#${world}`})`,
    seedsOf(echo.map(({ seed }) => seed)),
    at("random"),
    percent(mean(echo.map(({ warm }) => warm))),
    at("grpo"),
    at("grpo+echo"),
    at("demonstrations"),
    percent(await expertIn(world)),
    rises("grpo"),
    rises("grpo+echo"),
    minutes[0] ?? "–",
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
  const found = process.argv.slice(2).flatMap((path) => linesOf(JSON.parse(readFileSync(path, "utf8")) as Results));
  const timed = OWN_WORLDS.flatMap((world): Line[] => {
    const minutes = minutesOf(world);
    return minutes === undefined ? [] : [{ world, settings: settingsKey(world), minutes }];
  });
  const known = new Map([...readLines(), ...found, ...timed].map((line) => [subject(line), line]));
  const lines = [...known.values()]
    .filter(({ world, settings }) => settings === settingsKey(world))
    .sort((a, b) => OWN_WORLDS.indexOf(a.world) - OWN_WORLDS.indexOf(b.world));
  writeFileSync(LINES, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));

  const rows = new Map<string, string>();
  for (const world of new Set(lines.map((line) => line.world)))
    rows.set(
      world,
      await rowOf(
        world,
        lines.filter((line) => line.world === world),
      ),
    );
  const page = join(packageFolder, "docs/worlds.md");
  writeFileSync(page, await withRows(readFileSync(page, "utf8"), rows));
}
