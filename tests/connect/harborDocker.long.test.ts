/**
 * The engine `docker` of `harbor`, with a program of that name that is none (fakeDocker.sh): which calls are made, and
 * what becomes of their answers. Needs bubblewrap. Podman itself was tried by hand (docs/harbor.md).
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { checkTasks, harbor, type HarborOptions } from "../../connect/harbor/index.ts";
import { folderOf, type TaskFiles } from "./harborTasks.ts";

const path = process.env["PATH"];
let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "worldgrad-docker-"));
  mkdirSync(join(folder, "state"));
  copyFileSync(join(import.meta.dirname, "fakeDocker.sh"), join(folder, "docker"));
  chmodSync(join(folder, "docker"), 0o755);
  process.env["PATH"] = `${folder}:${path}`;
});
afterEach(async () => {
  // Containers are removed by calls that nobody waits for.
  for (let i = 0; i < 50 && containers().length > 0; i++) await wait(100);
  await wait(200);
  process.env["PATH"] = path;
  rmSync(folder, { recursive: true });
});

function optionsOf(tasks: Readonly<Record<string, TaskFiles>>, options: Partial<HarborOptions> = {}): HarborOptions {
  return { path: folderOf(tasks), engine: "docker", ...options };
}
const calls = (verb: string): string[] =>
  readFileSync(join(folder, "state/calls"), "utf8")
    .split("\n")
    .filter((line) => line.startsWith(`${verb} `))
    .map((line) => line.trim());
const containers = (): string[] =>
  readdirSync(join(folder, "state")).filter((name) => name.startsWith("worldgrad-") && !name.includes("image"));

const IMAGE = {
  "task.toml":
    '[environment]\ndocker_image = "org/image:1"\nworkdir = "/app"\ncpus = 2\nmemory_mb = 300\nenv = { A = "a b" }\n' +
    '[verifier.env]\nB = "b"\n',
  "environment/Dockerfile": null,
};

it("plays a task in a container of its image, with its limits, and removes it", async () => {
  const env = harbor.make(optionsOf({ one: IMAGE }));
  expect(await env.reset(0)).toContain("Write yes to answer.txt.");
  const name = containers()[0]!;
  expect(calls("run")).toEqual([
    `run --detach --rm --name ${name} --label worldgrad --network none --memory 300m --pids-limit 128 ` +
      "--security-opt no-new-privileges --cpus 2 --env A=a b --entrypoint /bin/sh org/image:1 -c " +
      "while :; do sleep 600 & wait $!; done",
  ]);
  const step = async (action: string): Promise<string> => (await env.step(action)).observation;
  expect(await step("pwd; ls -d /tests /solution; X=yes")).toMatch(/^\/app\nls: cannot access '\/tests'/);
  expect(await step("echo $X > answer.txt; echo 1 > /logs/verifier/reward.json")).toBe("");
  expect(await env.step("done")).toMatchObject({ reward: 1, done: true, info: { success: true } });
  expect(calls("exec").find((line) => line.includes("/tests/test.sh"))).toBe(
    `exec --user 0 --workdir /app --env PYTHONNOUSERSITE=1 --env B=b ${name} /bin/bash -c ` +
      "exec /bin/bash '/tests/test.sh' > '/logs/verifier/test-stdout.txt' 2>&1",
  );
  for (let i = 0; i < 50 && containers().length > 0; i++) await wait(100);
  expect(containers()).toEqual([]);
  expect(calls("kill")).toEqual([`kill ${name}`]);
});

it("builds an image once, gives a public network only if it is asked for, and takes partial rewards", async () => {
  const files = {
    "task.toml": '[environment]\nworkdir = "/w"\n',
    "tests/test.sh": '#!/bin/bash\necho \'{"a": 1, "b": 0}\' > /logs/verifier/reward.json\n',
  };
  const options = optionsOf({ one: files }, { network: true });
  for (let i = 0; i < 2; i++) {
    const env = harbor.make(options);
    await env.reset(0);
    expect(await env.end!("max_turns")).toMatchObject({ reward: 0.5, info: { "reward.a": 1, success: false } });
  }
  expect(calls("build")).toHaveLength(1);
  expect(calls("run").some((line) => line.includes("--network"))).toBe(false);
});

it("takes no link for a reward, and tells a shell that is gone", async () => {
  const link = "#!/bin/bash\necho 1 > /tmp/r\nln -s /tmp/r /logs/verifier/reward.txt\n";
  const env = harbor.make(optionsOf({ one: { ...IMAGE, "tests/test.sh": link } }));
  await env.reset(0);
  expect(await env.step("done")).toMatchObject({ reward: 0, info: { problem: "reward.txt is no regular file" } });
  const other = harbor.make(optionsOf({ one: IMAGE }));
  await other.reset(0);
  expect(await other.step("kill -9 $PPID $$")).toMatchObject({ reward: 0, done: true, info: { ending: "broken" } });
});

it("says in one line what is wrong: no program, no server, a build that fails", async () => {
  const options = optionsOf({ good: IMAGE, bad: { "environment/broken": "" } });
  expect((await checkTasks(options, 1)).map(({ name, verdict }) => [name, verdict])).toEqual([
    ["bad", "cannot run: cannot be built here: step 2 failed"],
    ["good", "ok"],
  ]);
  writeFileSync(join(folder, "state/broken"), "");
  await expect(harbor.check!(options)).rejects.toThrow(
    "harbor: docker does not work here: Cannot connect to the daemon",
  );
  rmSync(join(folder, "docker"));
  process.env["PATH"] = folder;
  await expect(harbor.check!(options)).rejects.toThrow(/^harbor: no docker: .*ENOENT/);
  expect(existsSync(folder)).toBe(true);
});
