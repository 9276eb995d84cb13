/**
 * Tasks of `shell` as folders in the Harbor format: their own tests judge as `shell` does. Needs bubblewrap. The
 * folders are played by the environment `harbor`, in a sandbox of which the whole root can be written.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { checkTasks, harbor } from "../../connect/harbor/index.ts";
import { shell, taskFolder, type TaskFolder } from "../../connect/shell/index.ts";

const root = mkdtempSync(join(tmpdir(), "worldgrad-folders-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Writes a task into a folder of its own, in a folder that has no other. @returns the outer folder */
function written(name: string, folder: TaskFolder): string {
  const outer = mkdtempSync(join(root, `${name}-`));
  for (const [path, text] of folder) {
    const file = join(outer, name, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  return outer;
}

/**
 * The reward of these commands in the task of a family, where `solution` is its own one, and ARCHIVE and DIRECTORY are
 * what is to be packed into what.
 */
async function rewardOf(family: string, ...commands: readonly string[]): Promise<number> {
  const folder = taskFolder(3, family);
  const solution = folder.get("solution/solve.sh")!;
  const [, archive = "", directory = ""] = /^tar cf (\S+) (\S+)$/m.exec(solution) ?? [];
  const env = harbor.make({ path: written(family, folder), heldOut: 0 });
  try {
    await env.reset(0);
    for (const command of commands) {
      const line = command.replace("ARCHIVE", archive).replaceAll("DIRECTORY", directory);
      await env.step(line === "solution" ? solution : line);
    }
    return (await env.step("done")).reward;
  } finally {
    env.close?.();
  }
}

describe("folders of tasks", () => {
  it("of every family have a solution that is worth 1, and are worth 0 to who does nothing", async () => {
    const all = join(root, "all");
    for (const split of ["train", "heldout"] as const)
      for (const { name } of shell.families) {
        const target = join(all, `${name}-${split}`);
        for (const [path, text] of taskFolder(7, name, { split, size: 2 })) {
          mkdirSync(dirname(join(target, path)), { recursive: true });
          writeFileSync(join(target, path), text);
        }
      }
    const checked = await checkTasks({ path: all }, 2);
    expect(checked).toHaveLength(42);
    expect(checked.filter(({ verdict }) => verdict !== "ok")).toEqual([]);
  });

  it("hold nothing that an agent could read of what is right, but in solution/ and tests/", () => {
    for (const { name } of shell.families) {
      const folder = taskFolder(3, name);
      expect(folder.get("instruction.md")).toMatch(/Paths are relative to \/home\/user\./);
      for (const path of folder.keys())
        expect(path).toMatch(
          /^(task\.toml|instruction\.md|environment\/(Dockerfile|files\/.+)|solution\/solve\.sh|tests\/.+)$/,
        );
      expect(taskFolder(3, name)).toEqual(folder);
      expect(taskFolder(4, name).get("instruction.md")).not.toBe(folder.get("instruction.md"));
    }
    expect(() => taskFolder(0, "wrte")).toThrow('taskFolder: shell has no family "wrte"');
  });
});

describe("their tests", () => {
  it.each([
    ["write", ["solution"], 1],
    ["write", ["solution", "touch extra"], 0],
    ["write", ["solution", "mkdir extra"], 0],
    ["write", ["solution", "mkdir .cache; touch .viminfo .cache/x"], 1],
    ["write", ["solution", "touch .hidden"], 0],
    ["write", ["solution", `for f in $(find . -type f); do printf %s "$(cat $f)" > $f; done`], 1],
    ["write", ["solution", `f=$(find . -type f | head -1); echo more >> $f`], 0],
    ["write", ["solution", `f=$(find . -type f | head -1); mv $f /tmp/x; ln -s /tmp/x $f`], 0],
    ["read", ["solution"], 1],
    ["read", ["solution", "touch extra"], 1],
    ["read", ["solution", `printf '  %s \\n\\n' "$(cat /tmp/answer.txt)" > /tmp/answer.txt`], 1],
    ["read", ["solution", "echo word >> /tmp/answer.txt"], 0],
    ["read", ["echo '*' > /tmp/answer.txt"], 0],
    ["find", ["solution", "sed -i 's|^|./|; s|$|/|' /tmp/answer.txt"], 1],
    ["find", ["solution", "sed -i 's|^|~/|' /tmp/answer.txt"], 1],
    ["find", ["solution", "sed -i 's|^|/home/user/|' /tmp/answer.txt"], 1],
    ["find", ["solution", "sed -i 's|^|/home/|' /tmp/answer.txt"], 0],
    ["permit", ["solution", "chmod +x $(find . -type f)"], 0],
    ["permit", ["solution", "chmod a-x $(find . -type f)"], 0],
    ["archive", ["solution", "touch extra"], 0],
    ["archive", ["tar cf ARCHIVE ./DIRECTORY"], 1],
    ["archive", ["tar cf ARCHIVE ."], 0],
    ["archive", ["tar cf ARCHIVE -C DIRECTORY ."], 0],
    ["archive", ["tar czf ARCHIVE DIRECTORY"], 0],
    ["archive", ["tar cf ARCHIVE $(ls DIRECTORY/* | head -1)"], 0],
    ["archive", ["echo hello > ARCHIVE"], 0],
    ["repair", ["solution"], 1],
    ["repair", ["touch $(cat *.sh | grep -o '[a-z]*/[a-z]*$')"], 1],
    ["repair", ["echo x > $(cat *.sh | grep -o '[a-z]*/[a-z]*$')"], 0],
    ["repair", ["echo true > $(ls *.sh)"], 0],
  ])("%s after %j: %d", async (family, commands, reward) => {
    expect(await rewardOf(family, ...commands)).toBe(reward);
  });
});
