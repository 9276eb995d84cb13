/**
 * `npm run doctor -- runs/<name>`: names the failure modes that a run's metrics and transcripts show, each with the
 * evidence and what to change. Exit code 0: nothing found; 1: something was found; 2: nothing to read, or a wrong flag.
 */
import process from "node:process";
import { createStyle, type Style, wantsColour } from "../../run/display/style.ts";
import { type Diagnosis, diagnose } from "./diagnose.ts";
import type { RunLog } from "./run.ts";
import { writeReport } from "../../run/report/report.ts";
import { openGiven, parse, report } from "../../run/node/flags.ts";
import { endWithOutput } from "../../run/node/output.ts";
import { UsageError } from "../../run/usage.ts";

const HELP = `worldgrad: say what is wrong with a run

  npm run doctor -- runs/NAME [flags]

  --json     the diagnosis as one JSON object
  --report   also makes the folder's report.html from what the logs have
  --help     this text

Exit code 0: nothing found, 1: something was found, 2: wrong usage, or no run there.
`;

const FLAGS = { json: { type: "boolean" }, report: { type: "boolean" }, help: { type: "boolean" } } as const;
const WIDTH = 100;

async function main(): Promise<number> {
  endWithOutput();
  const args = process.argv.slice(2);
  const values = parse(
    args.filter((arg) => arg.startsWith("-")),
    FLAGS,
  );
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const paths = args.filter((arg) => !arg.startsWith("-"));
  const [path] = paths;
  if (path === undefined || paths.length > 1) {
    throw new UsageError(`doctor: expected one run folder, as in npm run doctor -- runs/NAME, got ${paths.length}`);
  }
  const folder = openGiven("doctor", path, "doctor");
  const run = read();
  const diagnosis = diagnose(run);
  if (values["json"]) process.stdout.write(`${JSON.stringify({ run: folder.path, ...diagnosis }, null, 2)}\n`);
  else
    process.stdout.write(
      `${lines(folder.path, run, diagnosis, createStyle(wantsColour(process.stdout.isTTY, process.env))).join("\n")}\n`,
    );
  if (values["report"]) console.error(`report: ${await writeReport(folder)}`);
  return diagnosis.findings.some(({ kind }) => kind === "problem") ? 1 : 0;

  function read(): RunLog {
    try {
      const metrics = folder.readMetrics();
      if (metrics.length === 0) throw new Error("metrics.jsonl has no complete line yet");
      return { config: folder.config, metrics, transcripts: folder.readTranscripts() };
    } catch (error) {
      throw new UsageError(`${path}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

function lines(path: string, run: RunLog, { findings, looked, notChecked }: Diagnosis, style: Style): string[] {
  const count = (phase: string): number => run.metrics.filter((line) => line.phase === phase).length;
  const head =
    `${path}: ${count("sft")} warm-start steps, ${count("rl")} RL steps, ${count("eval")} evaluations, ` +
    `${run.transcripts.length} transcripts`;
  const problems = findings.filter(({ kind }) => kind === "problem");
  const harmless = findings.filter(({ kind }) => kind === "harmless");
  const all = looked.length + notChecked.length;
  // A run without RL steps shows almost nothing and must not look healthy.
  const nothing =
    notChecked.length < all / 2
      ? "Nothing found."
      : `Nothing found, but only ${looked.length} of ${all} things could be looked at.`;
  return [
    head,
    "",
    ...(problems.length === 0 ? [style.good(nothing), ""] : []),
    ...[...problems, ...harmless].flatMap(({ title, kind, evidence, change }, i) => [
      style.bold(kind === "problem" ? `${i + 1}. ${title}` : `No fault: ${title.toLowerCase()}`),
      ...evidence.flatMap((text) => wrapped("   - ", text)),
      ...(kind === "problem" ? ["   What to change:"] : []),
      ...change.flatMap((text) => wrapped("   → ", text)),
      "",
    ]),
    "Looked at:",
    ...looked.flatMap(({ title, at }) => wrapped("   - ", `${title}: ${at}`)),
    ...(notChecked.length > 0 ? ["Not checked:"] : []),
    ...notChecked.flatMap(({ title, why }) => wrapped("   - ", `${title}: ${why}`)),
  ];
}

/** Breaks words into lines of at most `WIDTH` characters: the first begins with `bullet`, the others are indented. */
function wrapped(bullet: string, text: string): string[] {
  const out: string[] = [];
  let line = bullet.trimEnd();
  for (const word of text.split(" ")) {
    if (line.length + 1 + word.length > WIDTH && line.trim() !== bullet.trim()) {
      out.push(line);
      line = " ".repeat(bullet.length - 1);
    }
    line += ` ${word}`;
  }
  return [...out, line];
}

process.exitCode = await main().catch(report);
