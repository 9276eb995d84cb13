/**
 * `harbor` in sandboxes: tasks are built, played and judged, and what an agent does to be judged well without solving
 * them. Needs bubblewrap and python3. The machine may be busy, so times are bounds and no measurements.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import {
  type CheckedTask,
  checkTasks,
  harbor,
  type HarborEpisode,
  type HarborOptions,
} from "../../connect/harbor/index.ts";
import { type FaultOptions, withFaults } from "../../environments/index.ts";
import type { StepResult } from "../../rl/environment.ts";
import { folderOf, type TaskFiles } from "./harborTasks.ts";

/** Plays actions in one task, and closes it. */
async function play(
  files: TaskFiles,
  actions: readonly string[],
  options: Partial<HarborOptions> = {},
): Promise<{ readonly task: string; readonly steps: readonly StepResult[]; readonly last: StepResult }> {
  const env = harbor.make({ path: folderOf({ one: files }), ...options });
  try {
    const task = await env.reset(0);
    const steps: StepResult[] = [];
    for (const action of actions) steps.push(await env.step(action));
    return { task, steps, last: steps.at(-1)! };
  } finally {
    env.close!();
  }
}

const shown = ({ steps }: { readonly steps: readonly StepResult[] }): string[] =>
  steps.map(({ observation }) => observation);

/** Checks one task. */
const checked = async (files: TaskFiles, options: Partial<HarborOptions> = {}): Promise<CheckedTask> =>
  (await checkTasks({ path: folderOf({ one: files }), ...options }, 1))[0]!;

const reward = (script: string): TaskFiles => ({ "tests/test.sh": `#!/bin/bash\n${script}\n` });
const dockerfile = (lines: string): TaskFiles => ({ "environment/Dockerfile": `FROM x\nWORKDIR /app\n${lines}\n` });

/** Processes of the host whose command line has this word. */
const processesWith = (word: string): string[] =>
  execFileSync("ps", ["-eo", "args"], { encoding: "utf8" })
    .split("\n")
    .filter((line) => line.includes(word) && !line.startsWith("ps "));
const mark = (): string => `${7e6 + Math.floor(Math.random() * 1e6)}`;

describe("an episode", () => {
  it("begins with the instruction, takes commands, and ends with the tests' reward", async () => {
    const { task, steps, last } = await play({}, [
      "pwd; ls -A",
      "echo no > answer.txt",
      "cat answer.txt; exit 3",
      "done",
    ]);
    expect(task).toBe(
      "Write yes to answer.txt.\n\nWrite one bash command at a time, and done when the task is solved.",
    );
    expect(shown({ steps })).toEqual(["/app", "", "no\n[exit 3]", ""]);
    expect(last).toMatchObject({
      reward: 0,
      done: true,
      info: { family: "one", level: 1, success: false, score: 0, ending: "done", turns: 4, toolErrors: 1 },
    });
    expect(last.info["problem"]).toBeUndefined();
    const solved = await play({}, ["cd /tmp; X=yes", "echo $X > /app/answer.txt", "done"]);
    expect(solved.last).toMatchObject({ reward: 1, info: { success: true } });
  });

  it("takes a command between fences, and as a tool call", async () => {
    const call = (command: string): string =>
      `<tool_call>${JSON.stringify({ name: "bash", arguments: { command } })}</tool_call>`;
    const { steps, last } = await play({}, [
      "I write.\n```bash\necho yes > answer.txt\n```",
      call("cat answer.txt"),
      '{"name": "bash", "arguments": {}}',
      '{"name": "done", "arguments": {}}',
    ]);
    expect(shown({ steps })).toEqual(["", "yes", 'bash needs a "command", a text\n[exit 2]', ""]);
    expect(last).toMatchObject({ reward: 1, info: { toolErrors: 1 } });
  });

  it("sees neither tests nor solution, neither task.toml nor Dockerfile", async () => {
    const { steps } = await play(dockerfile("COPY . /app/"), [
      "ls -d /tests /solution /logs/verifier /logs/agent /logs/artifacts",
      "find / -xdev -name 'task.toml' -o -xdev -name test.sh -o -xdev -name solve.sh",
      "ls -A /logs/verifier; ls -A /app /.context /.stand-ins",
    ]);
    expect(steps[0]!.observation).toBe(
      "ls: cannot access '/tests': No such file or directory\n" +
        "ls: cannot access '/solution': No such file or directory\n" +
        "/logs/agent\n/logs/artifacts\n/logs/verifier\n[exit 2]",
    );
    expect(steps[1]!.observation).toBe("");
    // That Dockerfile asks for the whole context, itself included.
    expect(steps[2]!.observation).toContain("/app:\nDockerfile");
    expect(steps[2]!.observation).toContain("cannot access '/.context'");
  });

  it("has a time limit for each command, and one for all of them, after which it is judged", async () => {
    const toml = { "task.toml": "[agent]\ntimeout_sec = 2.0\n" };
    const { steps, last } = await play(toml, ["echo yes > answer.txt; sleep 9", "sleep 9"], { seconds: 1 });
    expect(steps[0]).toMatchObject({ observation: "[timeout]", done: false });
    expect(last).toMatchObject({ observation: "[timeout]", done: true, reward: 1, info: { ending: "agent_timeout" } });
  });

  it("is judged when it is ended from outside", async () => {
    const env = harbor.make({ path: folderOf({ one: {} }) });
    await env.reset(0);
    await env.step("echo yes > answer.txt");
    expect(await env.end!("max_turns")).toMatchObject({ reward: 1, info: { success: true, ending: "max_turns" } });
  });

  it("shows the first and the last bytes of long output", async () => {
    const { steps } = await play({}, ["seq 100000", "printf 'a\\0b\\xff'"], { maxOutput: 20 });
    expect(shown({ steps })).toEqual(["1\n2\n3\n4\n5\n\n[... 588875 bytes ...]\n99\n100000", "ab\ufffd"]);
  });

  it("gives its sandbox back: at its end, and when it is closed before it has begun", async () => {
    const word = mark();
    await play({}, [`sleep ${word} & setsid sleep ${word} &`, "done"]);
    await play({}, [`sleep ${word} &`]);
    for (let i = 0; i < 50 && processesWith(word).length > 0; i++) await wait(100);
    expect(processesWith(word)).toEqual([]);
    const env = harbor.make({ path: folderOf({ one: {} }) });
    const beginning = env.reset(0);
    env.close!();
    await beginning;
    expect(await env.step("echo hi")).toMatchObject({ observation: "[the shell is gone]", done: true, reward: 0 });
  });

  it("throws, and so is masked, if this machine has lost the tests", async () => {
    const path = folderOf({ one: {} });
    const env = harbor.make({ path });
    await env.reset(0);
    rmSync(join(path, "one/tests"), { recursive: true });
    writeFileSync(join(path, "one/tests"), "no folder");
    await expect(env.step("done")).rejects.toThrow(/ENOTDIR|cannot be packed/);
    env.close!();
  });

  it("takes the task of its seed, and is the same for the same seed", async () => {
    const path = folderOf({ a: {}, b: {}, c: {} });
    const names = await Promise.all(
      [1, 1, 2, 3, 4, 5].map(async (seed) => {
        const env = harbor.make({ path });
        await env.reset(seed);
        env.close!();
        return (env as HarborEpisode).task.name;
      }),
    );
    expect(names[1]).toBe(names[0]);
    expect(new Set(names).size).toBeGreaterThan(1);
    await expect(harbor.check!({ path })).resolves.toBeUndefined();
  });
});

describe("a build", () => {
  it("runs once; each episode begins with what it left, and leaves nothing for the next", async () => {
    const files = {
      ...dockerfile(
        'ENV WHERE=/data\nARG N=3\nRUN mkdir -p $WHERE && seq $N > $WHERE/n && date +%s%N > "$WHERE/when"\n' +
          'COPY --chmod=644 data /srv/data\nCOPY a.txt "b c.txt" here/\nCOPY a.txt /opt/z\nWORKDIR /srv/deep\n' +
          "RUN cat <<EOF > text\n$WHERE\nEOF",
      ),
      "environment/data/sub/x": "x",
      "environment/a.txt": "a",
      "environment/b c.txt": "b",
    };
    const path = folderOf({ one: files });
    const command =
      "pwd; cat text; echo $WHERE $N; cat $WHERE/n $WHERE/when; (cd /srv/data; find .); " +
      "cat /app/here/* /opt/z; ls /tmp";
    const once = async (): Promise<string> => {
      const env = harbor.make({ path });
      await env.reset(0);
      const { observation } = await env.step(command);
      await env.step("rm -rf /data /srv/*; touch /tmp/litter; echo x > /etc/passwd");
      env.close!();
      return observation;
    };
    const first = await once();
    expect(first).toMatch(/^\/srv\/deep\n\/data\n\/data\n1\n2\n3\n\d{19}\n\.\n\.\/sub\n\.\/sub\/x\naba$/);
    expect(await once()).toBe(first);
  });

  it("copies as Docker does: modes, names with a dot, links that are named, and texts to a directory", async () => {
    const lines = [
      "COPY --chmod=755 run.sh 😀.txt /app/",
      "COPY --chmod=u=rw,go= data /app/data",
      "COPY data/* /app/all/",
      "COPY link.txt /app/",
      "COPY <<one <<two /app/\n1\none\n2\ntwo",
      "RUN ./run.sh > said",
      "RUN <<E\n#!/usr/bin/env python3\nopen('py', 'w').write('py')\nE",
    ];
    const files = {
      ...dockerfile(lines.join("\n")),
      "environment/run.sh": "#!/bin/sh\necho hi\n",
      "environment/😀.txt": "x",
      "environment/data/.hidden": "x",
      "environment/data/a": "x",
      "environment/real/link.txt": "real\n",
    };
    const path = folderOf({ one: files });
    chmodSync(join(path, "one/environment/run.sh"), 0o644);
    symlinkSync("real/link.txt", join(path, "one/environment/link.txt"));
    const env = harbor.make({ path });
    try {
      await env.reset(0);
      const { observation } = await env.step(
        "stat -c '%A %n' run.sh 😀.txt data/.hidden; ls -A all; cat link.txt one two said py; test -L link.txt",
      );
      expect(observation.split("\n")).toEqual([
        "-rwxr-xr-x run.sh",
        "-rwxr-xr-x 😀.txt",
        "-rw------- data/.hidden",
        ".hidden",
        "a",
        "real",
        "1",
        "2",
        "hi",
        "py",
        "[exit 1]",
      ]);
    } finally {
      env.close!();
    }
  });

  it("that fails says the line and the last word of the command", async () => {
    expect((await checked(dockerfile("RUN echo fine\nRUN echo oops >&2; false"))).verdict).toBe(
      "cannot run: cannot be built here: line 4: RUN echo oops >&2; false: oops",
    );
    expect(
      (await checked(dockerfile("RUN apt-get update && apt-get install -y --no-install-recommends nothing-such=1")))
        .verdict,
    ).toContain("E: not on this machine: nothing-such");
    expect((await checked(dockerfile("RUN pip install 'nothing-such>=2'"))).verdict).toContain(
      "ERROR: not on this machine: nothing-such>=2",
    );
    expect((await checked(dockerfile("COPY missing /x"))).verdict).toContain("missing is not in the context");
    const late = { ...dockerfile("RUN sleep 9"), "task.toml": "[environment]\nbuild_timeout_sec = 1\n" };
    expect((await checked(late)).verdict).toContain("RUN sleep 9: [environment] build_timeout_sec, 1 s, is over");
    expect((await checked(dockerfile("RUN head -c 30M /dev/zero > /big"), { diskMb: 16 })).verdict).toMatch(
      /write error: No space left|error writing .*: No space left|File too large/,
    );
  });

  it("finds what is here: packages, and a /usr/local of its own if it asks for one", async () => {
    expect(
      (
        await checked(
          dockerfile("RUN apt-get update && apt-get install -y bash coreutils && rm -rf /var/lib/apt/lists/*"),
        )
      ).verdict,
    ).toBe("ok");
    const tool = dockerfile("RUN printf '#!/bin/sh\\necho yes\\n' > /usr/local/bin/say && chmod +x /usr/local/bin/say");
    const files = { ...tool, "solution/solve.sh": "say > answer.txt\npython -c ''\n" };
    expect((await checked(files)).verdict).toContain("/usr/local/bin/say: Read-only file system");
    expect((await checked(files, { usrLocal: "write" })).verdict).toBe("ok");
    const link = {
      ...dockerfile("RUN ln -s /usr/bin/cat /usr/bin/say"),
      "solution/solve.sh": "say <<< yes > answer.txt\n",
    };
    expect((await checked(link)).verdict).toContain("'/usr/bin/say': Read-only file system");
    expect((await checked(link, { usrLocal: "write" })).verdict).toBe("ok");
  });
});

describe("the tests", () => {
  it("run in the task's directory, with its variables, on files of any bytes, and keep partial rewards", async () => {
    const bytes = Buffer.from([0, 255, 10, 13, 200]);
    const files = {
      "task.toml": '[environment]\nworkdir = "/srv/work"\nenv = { A = "a b" }\n[verifier.env]\nB = "it\'s"\n',
      "tests/fixture.bin": bytes,
      "tests/deep/er/file": "x",
      "tests/test.sh": `#!/bin/bash
[ "$PWD $A $B $0 $HOME" = "/srv/work a b it's /tests/test.sh /root" ] || exit
[ "$(od -An -tu1 /tests/fixture.bin | tr -d ' ')" = 02551013200 ] || exit
[ -f /tests/deep/er/file ] && [ -z "$C" ] || exit
echo '{"style": 1, "size": 0.5}' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt\n`,
    };
    const { last } = await play(files, ["export C=agent; cd /", "done"]);
    expect(last).toMatchObject({
      reward: 0.75,
      info: { success: false, score: 0.75, "reward.style": 1, "reward.size": 0.5 },
    });
  });

  it.each([
    ["no reward", "exit 0", "the verifier has written no reward"],
    [
      "an abort before it is written",
      "set -e; false; echo 1 > /logs/verifier/reward.txt",
      "the verifier has written no reward",
    ],
    ["an empty one", ": > /logs/verifier/reward.txt", "reward.txt is empty"],
    ["nan", "echo nan > /logs/verifier/reward.txt", "reward.txt is no finite number"],
    ["a huge one", "head -c 1M /dev/zero > /logs/verifier/reward.json", "reward.json has 1048576 bytes"],
    ["a link", "echo 1 > /tmp/r; ln -s /tmp/r /logs/verifier/reward.txt", "reward.txt is no regular file"],
    ["a directory", "mkdir /logs/verifier/reward.txt", "reward.txt is no regular file"],
    ["a pipe", "mkfifo /logs/verifier/reward.json", "reward.json is no regular file"],
    [
      "a directory that is a link",
      "rm -r /logs/verifier; mkdir /o; ln -s /o /logs/verifier; echo 1 > /o/reward.txt",
      "reward.json is in a directory that is a link",
    ],
    ["no end", "echo 1 > /logs/verifier/reward.txt; sleep 99", "the verifier ran out of time"],
  ])("that leave %s are worth 0 and say so", async (_, script, problem) => {
    const files = { ...reward(script), "task.toml": "[verifier]\ntimeout_sec = 1.5\n" };
    const { last } = await play(files, ["done"]);
    expect(last).toMatchObject({ reward: 0, done: true, info: { success: false } });
    expect(last.info["problem"]).toContain(problem);
  });

  it("run beside a server of the agent's, which goes on; with background=kill it does not", async () => {
    const files = reward(
      `python3 - <<'E'
import urllib.request
answer = urllib.request.urlopen("http://127.0.0.1:8123/")
open("/logs/verifier/reward.txt", "w").write("1" if answer.status == 200 else "0")
E`,
    );
    const server = "python3 -m http.server 8123 --bind 127.0.0.1 > /dev/null 2>&1 & sleep 1.5";
    expect((await play(files, [server, "done"])).last.reward).toBe(1);
    expect((await play(files, [server, "done"], { background: "kill" })).last.reward).toBe(0);
  });

  it("have stand-ins for uv, pip and curl if they are asked for, and not otherwise", async () => {
    const files = reward(
      `apt-get update; apt-get install -y bash
curl -LsSf https://astral.sh/uv/0.9.7/install.sh | sh
source $HOME/.local/bin/env || exit
uvx -p 3.13 --with pytest-json-ctrf==0.3.5 json.tool --ctrf /x --help > /tmp/help || exit
grep -q usage /tmp/help && echo 1 > /logs/verifier/reward.txt`,
    );
    expect((await play(files, ["done"], { standIns: true })).last.reward).toBe(1);
    expect((await play(files, ["done"])).last.reward).toBe(0);
  });
});

describe("an agent that wants a reward for nothing", () => {
  /** What it does before it says that it is done; the task is not solved. */
  const TRICKS: readonly (readonly [what: string, command: string])[] = [
    ["a reward that was there before", "echo 1 > /logs/verifier/reward.txt; echo 1 > /logs/verifier/reward.json"],
    [
      "a link in place of the directory",
      "mkdir /tmp/mine; echo 1 > /tmp/mine/reward.json; rm -rf /logs/verifier; ln -s /tmp/mine /logs/verifier",
    ],
    [
      "a link in place of the logs",
      "mkdir -p /tmp/l/verifier; echo 1 > /tmp/l/verifier/reward.json; rm -rf /logs; ln -s /tmp/l /logs",
    ],
    ["tests of its own", "mkdir /tests; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; chmod -w /tests/*"],
    ["a link in place of the tests", "mkdir /tmp/t; ln -s /tmp/t /tests"],
    ["functions and aliases", "grep() { true; }; export -f grep; alias grep=true; bash() { echo; }; export -f bash"],
    [
      "a path",
      "mkdir /tmp/bin; printf '#!/bin/sh\\nexit 0\\n' > /tmp/bin/grep; chmod +x /tmp/bin/grep; " +
        "export PATH=/tmp/bin:$PATH",
    ],
    [
      "a file that bash reads",
      "echo 'grep() { true; }' > /tmp/e; export BASH_ENV=/tmp/e ENV=/tmp/e; " +
        "for f in bashrc profile bash_profile; do cp /tmp/e ~/.$f; done",
    ],
    [
      "a program in place of a tool",
      "for f in /usr/bin/grep /usr/local/bin/grep /bin/bash; do cp /usr/bin/true $f; done; " +
        "mv /usr /u; mount --bind /tmp /usr",
    ],
    [
      "a link in place of /bin",
      "rm -f /bin; mkdir /bin; ln -s /usr/bin/* /bin; rm /bin/grep; ln -s /usr/bin/true /bin/grep",
    ],
    [
      "a library",
      "echo > /tmp/x.so; echo /tmp/x.so > /etc/ld.so.preload; export LD_PRELOAD=/tmp/x.so LD_LIBRARY_PATH=/tmp",
    ],
    [
      "a state of its shell",
      "trap 'echo 1 > /logs/verifier/reward.txt' EXIT; echo 'echo 1 > /logs/verifier/reward.json' >> /tmp/.state.0",
    ],
    ["a killed supervisor", "kill -9 -1; kill -9 1; kill -STOP 1; kill -USR2 1"],
    ["no directory", "cd /; rm -rf /app"],
    ["a full disk", "head -c 2G /dev/zero > /big; head -c 1M /dev/zero > /b2"],
    ["a fork bomb", ":(){ :|:& };:"],
  ];
  it.each(TRICKS)(
    "gets none with %s",
    async (_, command) => {
      const { steps, last } = await play({}, [command, "done"], { diskMb: 32, seconds: 5 });
      expect(last, JSON.stringify(steps)).toMatchObject({ done: true, reward: 0, info: { success: false } });
    },
    300_000,
  );

  it("gets none by writing it again and again, as long as the tests write later", async () => {
    const loop = "setsid bash -c 'while :; do rm -f /logs/verifier/reward.json; sleep 0.05; done' > /dev/null 2>&1 &";
    expect((await play({}, [loop, "done"])).last.reward).toBe(0);
  });

  it("gets none for Python's user packages", async () => {
    const files = reward("python3 -c 'raise SystemExit(1)' && r=1 || r=0; echo $r > /logs/verifier/reward.txt");
    const plant =
      "d=$(python3 -c 'import site; print(site.getusersitepackages())'); mkdir -p $d; " +
      "echo 'import os; os._exit(0)' | tee $d/usercustomize.py > $d/x.pth";
    expect((await play(files, [plant, "python3 -c 'raise SystemExit(1)'", "done"])).last.reward).toBe(0);
  });

  /**
   * These work, as they do with Harbor, where agent and tests share one machine as well; docs/harbor.md says so. If one
   * of them fails to work some day, that page is to be changed.
   */
  const OPEN: readonly (readonly [what: string, command: string])[] = [
    [
      "a reward that is written while the tests run",
      "setsid bash -c 'while :; do echo 1 > /logs/verifier/reward.json; sleep 0.01; done' > /dev/null 2>&1 &",
    ],
    [
      "tests that are changed while they run",
      "echo 'echo 1 > /logs/verifier/reward.txt' > /tmp/t; " +
        "setsid bash -c 'while :; do [ -f /tests/test.sh ] && cp /tmp/t /tests/test.sh; done' > /dev/null 2>&1 &",
    ],
  ];
  it.each(OPEN)(
    "gets one with %s, unless its processes are ended before",
    async (_, command) => {
      const slow = reward(
        "sleep 1\nif grep -qx yes answer.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt",
      );
      expect((await play(slow, [command, "done"])).last.reward).toBe(1);
      expect((await play(slow, [command, "done"], { background: "kill" })).last.reward).toBe(0);
    },
    300_000,
  );

  it("gets one with a module in the directory where the tests run Python", async () => {
    const files = reward(
      "python3 -m json.tool --help > /dev/null; echo $(( $? == 0 ? 0 : 0 )) > /dev/null; python3 -c 'import checker'",
    );
    const plant = 'echo \'open("/logs/verifier/reward.txt", "w").write("1")\' > checker.py';
    expect((await play({ ...files, "tests/checker.py": "" }, [plant, "done"])).last.reward).toBe(1);
  });

  it("is seen if it makes a file that pytest or Python load, whatever time the file shows", async () => {
    const { last } = await play(dockerfile("RUN echo > tox.ini; echo > conftest.py"), [
      "echo 1 > sub.txt; mkdir -p d; echo > d/x.pth; touch -d 2020-01-01 d/x.pth; echo x >> conftest.py; sleep 1",
      "done",
    ]);
    expect(String(last.info["suspects"]).split(", ").sort()).toEqual(["/app/conftest.py", "/app/d/x.pth"]);
    expect((await play({}, ["echo > a.py", "done"])).last.info["suspects"]).toBeUndefined();
  });
});

describe("a whole machine of root's", () => {
  it("has no rights on the host, and nothing of the host's but /usr", async () => {
    const python = (code: string): string => `python3 -c '${code}'`;
    const { steps } = await play({}, [
      "id -u; grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\n'",
      "cat /etc/shadow /etc/hostname; ls /work /boot /home /root /var/log /run",
      "echo x > /proc/sys/kernel/core_pattern; touch /usr/x; mount -t tmpfs x /mnt; mknod /tmp/b b 8 0; " +
        "unshare -U true",
      python(
        "import ctypes; c=ctypes.CDLL(None,use_errno=True); " +
          "print(c.ptrace(16,1,0,0), ctypes.get_errno(), c.syscall(438,0,0,0), ctypes.get_errno())",
      ),
      "cat /proc/1/mem /proc/1/environ /proc/1/fd/0 /proc/1/maps; cat /.bash; : > /.supervisor; " +
        "ls -l /proc/self/fd | grep -c socket",
      "chown 1000 /app; chown 0:0 /app; echo 127.0.0.1 x >> /etc/hosts; mkdir /new; echo $?",
      python('import socket; s=socket.create_connection(("8.8.8.8", 53), 1)') + " 2>&1 | tail -n 1",
      "kill -9 -1; kill -9 1; echo alive",
      "echo alive; rm -rf / 2>/dev/null; echo still",
    ]);
    const said = shown({ steps });
    expect(said[0]).toMatch(/CapBnd:\s0{16}CapEff:\s|CapEff:\s0{16}CapBnd:\s0{16}NoNewPrivs:\s1Seccomp:\s2$/);
    expect(
      said[2]!.match(
        /Read-only file system|Permission denied|permission denied|Operation not permitted|must be superuser/g,
      )!.length,
    ).toBe(5);
    expect(said[1]).toBe(
      "cat: /etc/shadow: No such file or directory\ncat: /etc/hostname: No such file or directory\n" +
        "ls: cannot access '/work': No such file or directory\nls: cannot access '/boot': No such file or directory\n" +
        "/home:\n\n/root:\n\n/run:\n\n/var/log:\n[exit 2]",
    );
    // Neither memory nor descriptors of another process: 438 is pidfd_getfd.
    expect(said[3]).toBe("-1 1 -1 1");
    expect(said[4]!.match(/Permission denied|Read-only file system/g)).toHaveLength(6);
    expect(said[4]).toMatch(/\n0\n\[exit 1\]$/);
    expect(said[5]).toBe("chown: changing ownership of '/app': Invalid argument\n0");
    expect(said[6]).toMatch(/Network is unreachable/);
    expect(said[8]).toBe("alive\nstill");
  });
});

describe("checking tasks", () => {
  it("tells which can be learnt from, and why the others cannot", async () => {
    const path = folderOf({
      good: {},
      "no-solution": { "solution/solve.sh": null },
      unsolved: { "solution/solve.sh": "echo no > answer.txt\n" },
      failing: { "solution/solve.sh": "echo yes > answer.txt; exit 4\n" },
      free: reward("echo 1 > /logs/verifier/reward.txt"),
      silent: reward("echo hello; exit 0"),
      gpu: { "task.toml": "[environment]\ngpus = 1\n" },
    });
    const told: string[] = [];
    const all = await checkTasks({ path }, 2, ({ name }) => told.push(name));
    expect(told.toSorted()).toEqual(all.map(({ name }) => name));
    expect(
      Object.fromEntries(all.map(({ name, solution, empty, verdict }) => [name, [solution, empty, verdict]])),
    ).toEqual({
      good: [1, 0, "ok"],
      "no-solution": [undefined, 0, "no solution to try"],
      unsolved: [0, 0, "solution 0"],
      failing: [1, 0, "ok"],
      free: [1, 1, "empty agent 1"],
      silent: [0, 0, 'solution 0: the verifier has written no reward; "hello"'],
      gpu: [undefined, undefined, "cannot run: [environment] gpus is not supported"],
    });
  });

  it("shows the line about an error, wherever it stands, and why a solution cannot run", async () => {
    const usage = reward("echo 'pytest: error: unrecognized arguments: --ctrf'; echo '  rootdir: /tests'");
    expect((await checked(usage)).verdict).toBe(
      'solution 0: the verifier has written no reward; "pytest: error: unrecognized arguments: --ctrf"',
    );
    const { verdict } = await checked({ "solution/solve.sh": "#!/bin/bash\r\necho yes > answer.txt\r\n" });
    expect(verdict).toContain("solution 0: solution/solve.sh has the line ends of Windows");
  });

  it("is a program with a table, a list of the good ones, and an exit code", () => {
    const path = folderOf({ good: {}, free: reward("echo 1 > /logs/verifier/reward.txt") });
    const run = (...words: readonly string[]): { code: number; out: string } => {
      const root = join(import.meta.dirname, "../..");
      try {
        const out = execFileSync(process.execPath, ["--import", "tsx", "run/cli/harbor.ts", ...words], {
          cwd: root,
          encoding: "utf8",
          stdio: "pipe",
        });
        return { code: 0, out };
      } catch (error) {
        const { status, stdout, stderr } = error as { status: number; stdout: string; stderr: string };
        return { code: status, out: stdout + stderr };
      }
    };
    const list = join(path, "list");
    const { code, out } = run("check", path, "--out", list, "--jobs", "1");
    expect(code).toBe(1);
    expect(out).toMatch(/NAME +SOLUTION +EMPTY +SECONDS +VERDICT\n/);
    expect(out).toMatch(/free +1 +1 +\d+\.\d {2}empty agent 1\n/);
    expect(out).toMatch(/good +1 +0 +\d+\.\d {2}ok\n1 of 2 tasks are ok\n$/);
    expect(readFileSync(list, "utf8")).toBe("good\n");
    expect(run("check", path, "--only", list)).toMatchObject({ code: 0 });
    expect(run("check", path, "--without-solution", "--only", list).out).toContain("1 of 1 tasks are ok");
    expect(run("--help").out).toContain("npm run harbor -- check DIR");
    expect(run("check", "/nowhere")).toEqual({ code: 2, out: expect.stringContaining("path is no folder") as string });
    expect(run("check", path, "--engin", "docker").out).toContain("did you mean --engine?");
    expect(run("check").code).toBe(2);
    expect(existsSync(list)).toBe(true);
  });
});

it("takes the faults of all environments: answers have stamps, and verdicts lie", async () => {
  const faulty = withFaults(harbor);
  const options = { path: folderOf({ one: {} }), noise: 1, falsePositives: 1, falseNegatives: 1 };
  expect(faulty.expert).toBeUndefined();
  expect(await faulty.fingerprint!(options)).toBe(await harbor.fingerprint!({ path: options.path }));
  for (const [action, solved] of [
    ["echo yes > answer.txt", true],
    ["echo no > answer.txt", false],
  ] as const) {
    const env = faulty.make(options);
    await env.reset(0);
    expect((await env.step(action)).observation).toMatch(/\[\d\d:\d\d:\d\d \d{4}\]$/);
    expect(await env.step("done")).toMatchObject({ reward: solved ? 0 : 1, done: true, info: { success: solved } });
    env.close!();
  }
});

it("lies about a partial reward and about tests without one as about failures, however the episode ends", async () => {
  const faulty = withFaults(harbor);
  const partial = reward("[ -f spoil ] || echo 0.5 > /logs/verifier/reward.txt");
  const path = folderOf({ one: partial });
  const after = async (faults: FaultOptions, action: string, isCut: boolean): Promise<unknown[]> => {
    const options: HarborOptions & FaultOptions = { path, ...faults };
    const env = faulty.make(options);
    try {
      await env.reset(0);
      await env.step(action);
      const { reward: paid, info } = isCut ? (await env.end!("max_turns"))! : await env.step("done");
      return [paid, info!["success"], info!["score"], info!["problem"]];
    } finally {
      env.close!();
    }
  };
  const problem = "the verifier has written no reward";
  for (const isCut of [false, true]) {
    expect(await after({ falsePositives: 1 }, "true", isCut)).toEqual([1, false, 0.5, undefined]);
    expect(await after({ falseNegatives: 1 }, "true", isCut)).toEqual([0.5, false, 0.5, undefined]);
    expect(await after({ falsePositives: 1 }, "touch spoil", isCut)).toEqual([1, false, 0, problem]);
    expect(await after({ falseNegatives: 1 }, "touch spoil", isCut)).toEqual([0, false, 0, problem]);
  }
});
