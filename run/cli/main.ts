/**
 * `npm start` for one agent (the main job: warm start, RL, evaluations; run/run.ts does the work). This file reads the
 * flags, opens the run folder, handles Ctrl-C and writes the report. Several agents: run/compare/.
 */
import { basename, relative } from "node:path";
import process from "node:process";
import type { Device } from "../../engine/index.ts";
import { listMethods } from "../../methods/presets.ts";
import { compare } from "../compare/compare.ts";
import { isAboutSeveral, isComparison } from "../compare/settings.ts";
import { createDisplay } from "../display/display.ts";
import { comparisonTable, familyTable } from "../display/table.ts";
import { listEnvironments } from "../environments.ts";
import { checkEnvironment, checkFingerprint, fingerprintOf } from "../worlds.ts";
import { stopOnInterrupt } from "../node/interrupt.ts";
import { methodSlug } from "../methods.ts";
import { freeFolder, openGiven, report } from "../node/flags.ts";
import { HELP, parseStart, saidIn } from "../node/commandLine.ts";
import { helpAbout } from "./helpAbout.ts";
import { FLAGS_FILE, flagsText } from "../node/flagsFile.ts";
import { type Said, type StartOptions, TEACHES_NOTHING } from "../startOptions.ts";
import { UsageError } from "../usage.ts";
import type { Preset } from "../preset.ts";
import { presetFor, presetOf } from "../presets.ts";
import type { ModelConfig } from "../../nn/index.ts";
import { runMemory } from "../fit/promptSteps.ts";
import { writeReport } from "../report/report.ts";
import type { PlayAhead } from "../runParts.ts";
import { threadWorkers } from "../node/threads.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { Run } from "../run.ts";
import type { LoadSource } from "../modelFiles.ts";
import { makeFolder } from "../node/disk.ts";
import { exportRun } from "../node/exportRun.ts";
import { lockFolder } from "../node/lock.ts";
import { fromRun, saveWeightsOf } from "../node/fromRun.ts";
import { openTeacher, teacherLoader } from "../node/teacher.ts";
import { giveWebSocketTo } from "../node/webSocket.ts";
import { displayOutput, outliveOutput, outputTaken } from "../node/output.ts";
import { createRun, isFree, type RunFolder } from "../node/runFolder.ts";
import { deviceOfRun, keepSchedules, schedulesOf } from "../node/schedules.ts";
import { checkRoom, checkSource, sourceLoader, sourceOf } from "../node/runSource.ts";
import { loadUserFilesOf, withUserFiles } from "../node/userFiles.ts";
import { listSettings } from "../settings.ts";
import { listNames } from "../names.ts";
import { listRecipes } from "../recipes.ts";
import { listBaselines } from "../baselines.ts";

const NOT_LISTED = `
The default method is grpo_token+echo.
gdpo compares the components of --set reward.…; without any it takes reward.format=0.2 and reward.tools=0.1 beside
the outcome.
In code only: losses over pairs (dpo, dpo_ipo, dpo_hinge: trainPreference), and over demonstrations (dft: trainSft, or
--set sft.loss=dft).
`;

/** All names and options, in sections. */
const listed = (): string =>
  [listMethods(), listRecipes(), listBaselines(), listNames(), listEnvironments(), listSettings()].join("\n\n");

async function main(): Promise<number> {
  outliveOutput();
  const args = process.argv.slice(2);
  const [asked, word] = args;
  if (asked === "--help" && word !== undefined && args.length === 2 && !/^-[^-]/.test(word)) {
    process.stdout.write(helpAbout(word, HELP, listed()));
    return 0;
  }
  const started = parseStart(args);
  if (started === "help") {
    process.stdout.write(HELP);
    return 0;
  }
  if (started === "list") {
    process.stdout.write(`${listed()}\n${NOT_LISTED}`);
    return 0;
  }
  const options = await withUserFiles(started);
  const display = createDisplay({ stream: displayOutput, isTTY: process.stdout.isTTY, env: process.env });
  const isSeveral = options.resume === undefined ? isAboutSeveral(options) : isComparison(options.resume);
  const signal = stopOnInterrupt(() => display.note("stopping after this step; press Ctrl-C again to stop at once"));
  if (isSeveral) {
    if (options.tune) throw new UsageError("--tune measures for one agent; name its method, as in --method grpo_token");
    try {
      return await compare(options, display, signal, saidIn(args));
    } finally {
      display.close();
    }
  }
  const chosen = await checkFolder(options, saidIn(args));
  const { open, source } = chosen;
  // Environment, device and server come first: a run that lacks one leaves no folder behind.
  await checkEnvironment(chosen.settings);
  const executor = await deviceOfRun(options, chosen.schedules, (line) => display.note(line));
  await giveWebSocketTo(chosen.settings.env);
  const playAhead = await playAheadFor(chosen, (line) => display.note(line));
  const { folder, preset } = await open(executor);
  if (options.tune) keepSchedules(folder.path, executor);
  if (options.reportTo) folder.reportTo(options.reportTo);
  if (chosen.warning !== undefined) display.note(chosen.warning);
  const { pretrained } = preset;
  const needs = chosen.config && pretrained && (await runMemory(chosen.config, preset, executor));
  if (needs !== undefined) display.note(needs);
  if (options.device !== "auto") display.note(`executor: ${executor.description}`);
  display.note(`run folder: ${relative(".", folder.path)}`);
  if (options.quick) display.note(TEACHES_NOTHING);
  const teacher = teacherLoader(preset);
  const run = new Run(folder, preset, executor, display, signal, { playAhead, source, teacher });
  try {
    const summary = await run.run(options.resume !== undefined || options.from !== undefined);
    if (summary !== null) {
      display.table(comparisonTable(summary));
      const families = familyTable(summary);
      if (families) display.table(families);
    }
    const path = await writeReport(folder, summary ?? undefined);
    const name = relative(".", folder.path);
    display.note(`report: ${relative(".", path)}`);
    display.note(
      summary === null
        ? `stopped; continue with: npm start -- --resume ${name}`
        : `play one episode: npm run generate -- --run ${name} --task "…"`,
    );
    if (pretrained) {
      for (const { path: written, what } of await exportRun(folder, { ...preset, pretrained }))
        display.note(`${what}: ${relative(".", written)}`);
    }
    return summary === null ? 130 : 0;
  } finally {
    display.close();
    run.dispose();
    executor.dispose();
  }
}

/** The module for runs with workers on other machines, which no other run loads. */
const loadNats = () => import("../../distribute/nats/index.ts");

/** The workers of the run. It connects to their server at once: without one nothing begins. */
async function playAheadFor({ workers, settings }: Chosen, note: (line: string) => void): Promise<PlayAhead> {
  const { env, environmentFile } = settings;
  const players = workers === undefined ? undefined : await (await loadNats()).natsWorkers({ server: workers, note });
  return {
    startWorkers: players ? () => players : (count) => threadWorkers(count, { env, environmentFile }),
    train: trainRlAsync,
  };
}

/** A run whose settings have been checked. */
interface Chosen {
  readonly settings: Preset;
  /** The NATS server of its workers, perhaps with user and password. */
  readonly workers: string | undefined;
  /** Opens its folder, or makes it, and locks it until the process ends. */
  readonly open: (device: Device) => Promise<{ readonly folder: RunFolder; readonly preset: Preset }>;
  /** Loads the pretrained model that it begins with, if it has one. */
  readonly source: LoadSource | undefined;
  /** The configuration of that model. */
  readonly config: ModelConfig | undefined;
  /** The schedules that it was begun with. */
  readonly schedules?: ReturnType<typeof schedulesOf>;
  /** A sentence about missing files of its folder. */
  readonly warning?: string | undefined;
}

/** Checks the folder and the settings of the run. */
async function checkFolder(options: StartOptions, said: Said): Promise<Chosen> {
  if (options.resume !== undefined) {
    const folder = openGiven("resume", options.resume);
    const preset = presetOf(folder);
    await loadUserFilesOf(preset);
    await checkFingerprint(preset);
    const open: Chosen["open"] = async () => {
      await lockFolder(folder.path);
      return { folder, preset };
    };
    const begun = await checkSource(preset);
    const [source, config] = [sourceLoader(preset, begun), begun?.config];
    const schedules = schedulesOf(folder.path);
    return { workers: serverOf(preset.async?.workers), settings: preset, open, source, config, schedules };
  }
  // The settings are saved with the run, so they must not hold a password.
  const { workers } = options;
  const stored = {
    ...options,
    workers: typeof workers === "string" ? (await loadNats()).publicAddress(workers) : workers,
  };
  const source = await sourceOf(options);
  const earlier = await fromRun(options);
  const teacher = options.teacher === undefined ? undefined : await openTeacher(options.teacher);
  const settings = presetFor(stored, source, earlier, teacher?.settings);
  const fingerprint = await fingerprintOf(settings);
  const preset: Preset = fingerprint === undefined ? settings : { ...settings, fingerprint };
  if (source) await checkRoom(preset, source.tokenizer);
  const free = freeFolder(options.name, nameOf(preset, options), isFree);
  const open: Chosen["open"] = async (executor) => {
    makeFolder("runs");
    await lockFolder(free);
    const folder = createRun(free, { preset });
    folder.writeFile(FLAGS_FILE, flagsText({ ...said, workers: stored.workers }));
    if (earlier) await saveWeightsOf(earlier, folder, executor);
    return { folder, preset };
  };
  const loads = { source: sourceLoader(preset, source?.folder), config: source?.config, warning: source?.warning };
  return { workers: serverOf(workers), settings: preset, open, ...loads };
}

const serverOf = (workers: number | string | undefined): string | undefined =>
  typeof workers === "string" ? workers : undefined;

/** The default name of a run: its environment and method, where these differ from the defaults. */
function nameOf({ env, seed, rl, async, pretrained, from }: Preset, { model, quick }: StartOptions): string {
  const lambda = rl.options?.["echo"]?.["lambda"];
  const begun = pretrained ?? from;
  const start = begun && basename(begun.path).replaceAll(/[^\w.-]+/g, "_");
  const parts = [
    ...(quick ? ["quick"] : []),
    ...(start === undefined ? (quick ? [] : [model]) : [start]),
    env,
    methodSlug(rl),
    ...(typeof lambda === "number" ? [`lambda${lambda}`] : []),
    ...(async === undefined ? [] : [`staleness${async.maxStaleness}`]),
    `seed${seed}`,
  ];
  return parts.join("-");
}

process.exitCode = await main().catch(report);
await outputTaken();
// Threads and Dawn may keep the process alive after their device is disposed.
process.exit();
