/**
 * Re-records shell-recorded.json: runs its commands in the real bash of this machine, each in a fresh copy of the same
 * small tree, and writes down what they printed, their exit codes and the tree they left. The committed recording is of
 * GNU bash 5.2.15, coreutils 9.1, grep 3.8 and findutils 4.9 in the C locale, without bash's `bash: line 1: ` in front
 * of messages.
 *
 *     npx tsx tests/environments/record-shell.ts && npx prettier --write tests/environments/shell-recorded.json
 *
 * The commands are run for real: read them before adding one that deletes.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const HOME = "/home/user"; // what the temporary directory is called in the recording
const recording = new URL("./shell-recorded.json", import.meta.url);

interface Case {
  command: string;
  output?: string;
  code?: number;
  /** Only if the command changed the tree: path → text, null for a directory. */
  tree?: Record<string, string | null>;
}
interface Recording {
  files: Record<string, string | null>;
  cases: Case[];
}

function readTree(root: string, below = ""): Record<string, string | null> {
  const tree: Record<string, string | null> = {};
  for (const name of readdirSync(join(root, below)).sort()) {
    const path = below + name;
    if (statSync(join(root, path)).isDirectory()) Object.assign(tree, { [path]: null }, readTree(root, `${path}/`));
    else tree[path] = readFileSync(join(root, path), "utf8");
  }
  return tree;
}

function record(command: string, files: Recording["files"]): Case {
  const root = mkdtempSync(join(tmpdir(), "record-shell-"));
  try {
    for (const [path, text] of Object.entries(files))
      if (text === null) mkdirSync(join(root, path));
      else writeFileSync(join(root, path), text);
    const before = JSON.stringify(readTree(root));
    const env = { LC_ALL: "C", HOME: root, PATH: process.env["PATH"] };
    const options = { cwd: root, env, encoding: "utf8", input: "", timeout: 5_000 } as const;
    const { stdout, status } = spawnSync("bash", ["--norc", "-c", `exec 2>&1\n${command}`], options);
    const output = stdout
      .replace(/^bash: -c: line \d+: `.*'\n/gm, "")
      .replace(/^bash: (?:-c: )?(?:line \d+: )?/gm, "")
      .replaceAll(root, HOME);
    const tree = readTree(root);
    return { command, output, code: status ?? -1, ...(JSON.stringify(tree) === before ? {} : { tree }) };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

const { files, cases } = JSON.parse(readFileSync(recording, "utf8")) as Recording;
const recorded = cases.map(({ command }) => record(command, files));
writeFileSync(recording, JSON.stringify({ files, cases: recorded }));
