/**
 * Tasks of `shell` as folders in the Harbor format, for other trainers: a Dockerfile with the files, an instruction,
 * the expert's solution, and tests that judge the files at the end, as `shell` does. They need bash, coreutils,
 * findutils, diffutils, sed, grep and tar, and no network. The format: harborframework.com/docs/tasks.
 */
import { fail } from "../../engine/errors.ts";
import { Rng } from "../../engine/index.ts";
import { options } from "../../engine/optionTable.ts";
import { COMMON_OPTIONS } from "../../environments/index.ts";
import { quoted } from "../sandbox/files.ts";
import { HOME_ONLY } from "../sandbox/kinds.ts";
import { FAMILIES, type FamilyName } from "./families.ts";
import { LITTER } from "./found.ts";
import { SHELL, type ShellOptions } from "./options.ts";
import { makeTask, type ShellTask } from "./tasks.ts";

/** Paths in the folder of a task → texts. */
export type TaskFolder = ReadonlyMap<string, string>;

const HOME = HOME_ONLY.user.home;
/** Where an agent leaves its answer to a question. */
const ANSWER = "/tmp/answer.txt";
/** Names for the levels 1 to 4. */
const DIFFICULTIES = ["easy", "easy", "medium", "hard"];

/** What is in the home directory, as `tree.txt` lists it: kind and path of each entry, without litter of tools. */
const LISTING = String.raw`find . -mindepth 1 \
    -regex '\./\.\(${LITTER.join("\\|")}\)\(/.*\)?' -prune -o \
    -type d -printf 'd %P\n' -o -type f -printf 'f %P\n' -o -printf 'other %P\n' | LC_ALL=C sort`;

const HEAD = `#!/bin/bash
# Writes reward 1 if the task is solved, and 0 if it is not.
mkdir -p /logs/verifier
judge() {
  cd ${HOME} || return`;
const FOOT = `}
if judge; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`;

/** An answer without differences of spelling, as `normalizeAnswer` of the simulated terminal has it. */
const ofAnswer = (answer: string): string => `
  set -f
  read -r -d '' said < ${ANSWER}
  said=$(echo $said)
  case $said in ${HOME}/*) said=\${said#${HOME}/} ;; '~/'*) said=\${said#??} ;; ./*) said=\${said#./} ;; esac
  [ "\${said%/}" = ${quoted(answer)} ]`;

/** Compares the home directory with `tree.txt` and `files/`; a missing last line end is forgiven. */
const OF_TREE = `
  diff <(${LISTING}) /tests/tree.txt || return
  while read -r path; do
    diff <(sed '$a\\' "$path") <(sed '$a\\' "/tests/files/$path") || return
  done < <(sed -n 's/^f //p' /tests/tree.txt)`;

/** What three families judge beside the texts of the files. @param path the last word of the expert's command */
const BESIDE: Partial<Record<FamilyName, (path: string) => { before?: string; after?: string }>> = {
  permit: (path) => ({ after: `  [ "$(find . -type f -perm /111)" = ${quoted(`./${path}`)} ]` }),
  archive: (directory) => ({
    // The archive is no part of the tree that is compared. From a pipe tar takes none that is compressed.
    before: `  archive=$(cat /tests/archive.txt)
  cat "$archive" | tar tf - > /tmp/packed.txt || return
  ! grep -v '^\\(\\./\\)\\?${directory}\\(/\\|$\\)' /tmp/packed.txt || return
  rm -rf /tmp/packed && mkdir /tmp/packed && cat "$archive" | tar xf - -C /tmp/packed || return
  diff -r /tmp/packed/${directory} ${directory} && rm "$archive" || return`,
  }),
  // A file in the place of the directory makes the script work, too.
  repair: (path) => ({ before: `  [ -f ${path} ] && ! [ -s ${path} ] && rm ${path} && mkdir ${path}` }),
};

/** The tests of a task. */
function testsOf({ goal, plan }: ShellTask, family: FamilyName): TaskFolder {
  const script = (lines: readonly string[]): string => [HEAD, ...lines.filter((line) => line !== ""), FOOT].join("\n");
  if ("answer" in goal) return new Map([["test.sh", script([ofAnswer(goal.answer).slice(1)])]]);
  const words = plan.at(-2)!.split(" ");
  const { before = "", after = "" } = BESIDE[family]?.(words.at(-1)!) ?? {};
  const entries = [...goal.tree].sort(([a], [b]) => (a < b ? -1 : 1));
  const listing = entries.map(([path, text]) => `${text === null ? "d" : "f"} ${path}\n`).toSorted();
  return new Map([
    ["test.sh", script([before, OF_TREE.slice(1), after])],
    ["tree.txt", listing.join("")],
    ...entries.flatMap(([path, text]) => (text === null ? [] : [[`files/${path}`, text] as const])),
    ...(family === "archive" ? [["archive.txt", `${words[2]!}\n`] as const] : []),
  ]);
}

/** The expert's commands as a script. */
function solutionOf({ goal, plan }: ShellTask): string {
  const lines = plan.slice(0, -1);
  // Some of the expert's commands fail on purpose, and a script ends with the code of its last one.
  const end = "answer" in goal ? `printf '%s\\n' ${quoted(goal.answer)} > ${ANSWER}` : "true";
  return `${["#!/bin/bash", `cd ${HOME}`, ...lines, end].join("\n")}\n`;
}

/**
 * The folder of a task of a family.
 * @param seed an integer in [0, 2^53)
 * @param family one of `shell.families`
 * @param given `split` decides from which half its words come; `size`: as of an episode
 */
export function taskFolder(seed: number, family: string, given: Pick<ShellOptions, "split" | "size"> = {}): TaskFolder {
  const { name, level, description } =
    FAMILIES.find((each) => each.name === family) ?? fail(`taskFolder: shell has no family "${family}"`);
  const settled = options("shell", { ...COMMON_OPTIONS, ...SHELL }).read(given);
  const { split } = settled;
  const task = makeTask(new Rng(seed).split(`folder/${split}/${name}`), { name }, settled);
  const files = [...task.files].sort(([a], [b]) => (a < b ? -1 : 1));
  const directories = files.flatMap(([path, text]) => (text === null ? [`${HOME}/${path}`] : []));
  const ending = "answer" in task.goal ? `Write the answer to ${ANSWER}, and nothing else.` : "Change nothing else.";
  const settings = [
    `schema_version = "1.1"`,
    ``,
    `[task]`,
    `name = "worldgrad/shell-${name}-${seed}"`,
    `description = "${description}"`,
    ``,
    `[metadata]`,
    `difficulty = "${DIFFICULTIES[level - 1]!}"`,
    `category = "${name}"`,
    `tags = ["shell", "generated", "${split}"]`,
    ``,
    `[agent]`,
    `timeout_sec = 120.0`,
    ``,
    `[verifier]`,
    `timeout_sec = 60.0`,
    ``,
    `[environment]`,
    `build_timeout_sec = 600.0`,
    `cpus = 1`,
    `memory_mb = 512`,
    `storage_mb = 1024`,
    `allow_internet = false`,
  ];
  const dockerfile = [
    "FROM debian:12-slim",
    `WORKDIR ${HOME}`,
    // Folders of tasks travel through git, which keeps no empty directory.
    ...(directories.length > 0 ? [`RUN mkdir -p ${directories.join(" ")}`] : []),
    ...(files.some(([, text]) => text !== null) ? [`COPY files/ ${HOME}/`] : []),
  ];
  return new Map([
    ["task.toml", `${settings.join("\n")}\n`],
    ["instruction.md", `${task.text}\n\nPaths are relative to ${HOME}. ${ending}\n`],
    ["environment/Dockerfile", `${dockerfile.join("\n")}\n`],
    ...files.flatMap(([path, text]) => (text === null ? [] : [[`environment/files/${path}`, text] as const])),
    ["solution/solve.sh", solutionOf(task)],
    ...[...testsOf(task, name)].map(([path, text]) => [`tests/${path}`, text] as const),
  ]);
}
