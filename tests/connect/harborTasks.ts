/** Tasks in the Harbor format, made for tests. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll } from "vitest";

const made: string[] = [];
afterAll(() => made.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

/** Files of a task by path; null takes one of the defaults away. */
export type TaskFiles = Readonly<Record<string, string | Buffer | null>>;

/** A task that asks for the file answer.txt with the word yes. */
const DEFAULTS: TaskFiles = {
  "task.toml": 'version = "1.0"\n\n[metadata]\ndifficulty = "easy"\n\n[verifier]\ntimeout_sec = 30.0\n',
  "instruction.md": "Write yes to answer.txt.\n",
  "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n",
  "tests/test.sh":
    "#!/bin/bash\nif grep -qx yes answer.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
  "solution/solve.sh": "#!/bin/bash\necho yes > answer.txt\n",
};

/** Makes a folder of tasks, which is removed when the tests of the file are over. */
export function folderOf(tasks: Readonly<Record<string, TaskFiles>>): string {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-harbor-"));
  made.push(folder);
  for (const [name, files] of Object.entries(tasks)) {
    for (const [path, content] of Object.entries({ ...DEFAULTS, ...files })) {
      if (content === null) continue;
      const file = join(folder, name, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
      if (path.endsWith(".sh")) chmodSync(file, 0o755);
    }
  }
  return folder;
}
