/**
 * `harbor` without a machine: how tasks, Dockerfiles, rewards and actions are read, what is refused by its name, and
 * how tasks are split.
 */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { actionsOf } from "../../connect/harbor/action.ts";
import { contextPaths, hashOf } from "../../connect/harbor/context.ts";
import { firstFile } from "../../connect/harbor/docker.ts";
import { planOf } from "../../connect/harbor/dockerfile.ts";
import { expand, wordsOf } from "../../connect/harbor/dockerWords.ts";
import { fingerprintOf, playable, splitOf, taskFolders } from "../../connect/harbor/folder.ts";
import { harbor } from "../../connect/harbor/index.ts";
import type { FoundFile } from "../../connect/harbor/machine.ts";
import { type HarborOptions, TABLE } from "../../connect/harbor/options.ts";
import { verdictOf } from "../../connect/harbor/reward.ts";
import { type HarborTask, readTask } from "../../connect/harbor/task.ts";
import { expectBounded, HOSTILE } from "../support/cost.ts";
import { folderOf, type TaskFiles } from "./harborTasks.ts";

const settings = (options: HarborOptions): ReturnType<typeof TABLE.read> => TABLE.read(options);

/** Reads a task with this task.toml, or with these files. */
function read(files: string | TaskFiles, options: Partial<HarborOptions> = {}): HarborTask {
  const path = folderOf({ one: typeof files === "string" ? { "task.toml": files } : files });
  return readTask(join(path, "one"), settings({ path, ...options }));
}

describe("task.toml", () => {
  it("has all fields of schema 1.0, with their old names", () => {
    const toml = `
version = "1.0"
[metadata]
difficulty = "hard"
author_name = "somebody"
[verifier]
timeout_sec = 120.0
[agent]
timeout_sec = 90
[environment]
build_timeout_sec = 300.0
cpus = 2
memory = "4G"
storage = "512M"
allow_internet = false
`;
    expect(read(toml)).toMatchObject({
      name: "one",
      instruction: "Write yes to answer.txt.",
      level: 3,
      agentSeconds: 90,
      verifierSeconds: 120,
      buildSeconds: 300,
      cpus: 2,
      memoryMb: 4096,
      storageMb: 512,
      isPublic: false,
      hasSolution: true,
      reasons: [],
      notes: ["the tools of this machine stand in for ubuntu:24.04"],
    });
  });

  it("has all fields of schema 1.4, and ignores those that nobody knows", () => {
    const toml = `
schema_version = "1.4"
source = "here"
artifacts = ["/app/out"]
later = { x = 1 }
[task]
name = "org/one"
[agent]
user = "root"
[verifier]
user = 0
environment_mode = "shared"
env = { KEY = "literal", NUMBER = 3 }
[solution.env]
WORD = "\${MISSING:-fallback}"
[environment]
memory_mb = 3000
storage_mb = 100
gpus = 0
os = "linux"
network_mode = "public"
workdir = "/srv/work"
mcp_servers = []
skills_dir = "/skills"
env = { MODE = "test" }
`;
    expect(read(toml)).toMatchObject({
      level: 2,
      agentSeconds: undefined,
      verifierSeconds: 600,
      buildSeconds: 600,
      env: { MODE: "test" },
      verifierEnv: { KEY: "literal", NUMBER: "3" },
      solutionEnv: { WORD: "fallback" },
      workdir: "/srv/work",
      memoryMb: 3000,
      storageMb: 100,
      isPublic: true,
      reasons: [],
      notes: [
        "[environment] skills_dir: the agent is not told of skills",
        "artifacts are not collected",
        "there is no network",
        "the tools of this machine stand in for ubuntu:24.04",
      ],
    });
  });

  it.each([
    ['schema_version = "2.0"', "schema_version 2.0 is not known"],
    ['[[steps]]\nname = "a"', "steps is not supported"],
    ['[agent]\nuser = "app"', "[agent] user app is not supported, only root"],
    ["[verifier]\nuser = 1000", "[verifier] user 1000 is not supported, only root"],
    ['[verifier]\nenvironment_mode = "separate"', "[verifier] environment_mode separate is not supported, only shared"],
    [
      "[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]\ncpus = 1",
      "[verifier.environment] means a separate verifier, which is not supported",
    ],
    ['[[verifier.collect]]\ncommand = "true"', "[[verifier.collect]] is not supported"],
    ['[environment]\nos = "windows"', "[environment] os windows is not supported"],
    ["[environment]\ngpus = 1", "[environment] gpus is not supported"],
    ['[environment.tpu]\ntype = "v5"', "[environment] tpu is not supported"],
    ['[[environment.mcp_servers]]\nname = "x"', "[environment] mcp_servers is not supported"],
    ['[environment.healthcheck]\ncommand = "true"', "[environment.healthcheck] is not supported"],
    ['[environment]\nnetwork_mode = "allowlist"', "network_mode allowlist is not supported"],
    ['[agent]\nnetwork_mode = "allowlist"', "network_mode allowlist is not supported"],
    ['[environment]\nworkdir = "app"', "[environment] workdir is no absolute path"],
    ['[environment]\ndocker_image = "x:1"', "[environment] docker_image: x:1 needs env.engine=docker or podman"],
    [
      '[verifier.env]\nKEY = "${OPENAI_API_KEY}"',
      "[verifier] env.KEY: ${OPENAI_API_KEY} needs env.hostEnv=OPENAI_API_KEY",
    ],
  ])("%j is refused by its name", (toml, reason) => {
    expect(read(toml).reasons).toEqual([reason]);
  });

  it.each([
    ["[verifier]\ntimeout_sec = 'soon'", 'task.toml: [verifier] timeout_sec must be a number > 0, got "soon"'],
    ["[agent]\ntimeout_sec = -1", "task.toml: [agent] timeout_sec must be a number > 0, got -1"],
    ["[agent]\ntimeout_sec = nan", "task.toml: [agent] timeout_sec must be a number > 0, got NaN"],
    ["verifier = 3", "task.toml: verifier must be a table, got 3"],
    ["[environment]\nmemory = 'much'", 'task.toml: [environment] memory must be a size, as in "2G", got "much"'],
    ["[environment.env]\nA = [1]", "task.toml: [environment] env.A must be a text, got [1]"],
    ["[environment.env]\n'A B' = 'x'", "task.toml: [environment] env.A B: no name of a variable"],
    ["[environment]\nallow_internet = 'no'", 'task.toml: [environment] allow_internet must be true or false, got "no"'],
    ["a = ", "task.toml: Invalid TOML document"],
  ])("%j is an error with file, field and value", (toml, reason) => {
    expect(read(toml).reasons[0]).toContain(reason);
  });

  it("takes a variable of this machine only if it is named", () => {
    process.env["HARBOR_TEST_KEY"] = "secret";
    const toml = '[verifier.env]\nKEY = "${HARBOR_TEST_KEY}"\nOTHER = "${HARBOR_TEST_KEY:-none}"\n';
    expect(read(toml)).toMatchObject({ verifierEnv: { OTHER: "none" } });
    expect(read(toml, { hostEnv: ["HARBOR_TEST_KEY"] })).toMatchObject({
      verifierEnv: { KEY: "secret", OTHER: "secret" },
      reasons: [],
    });
    delete process.env["HARBOR_TEST_KEY"];
    expect(read(toml, { hostEnv: ["HARBOR_TEST_KEY"] }).reasons).toEqual([
      "[verifier] env.KEY: ${HARBOR_TEST_KEY} is not set",
    ]);
  });

  it("files that are missing are named", () => {
    expect(read({ "instruction.md": null }).reasons).toEqual(["instruction.md is missing"]);
    expect(read({ "instruction.md": " \n" }).reasons).toEqual(["instruction.md is empty"]);
    expect(read({ "tests/test.sh": null }).reasons).toEqual(["tests/test.sh is missing"]);
    expect(read({ "environment/Dockerfile": null }).reasons).toEqual(["environment/Dockerfile is missing"]);
    expect(read({ "environment/docker-compose.yaml": "" }).reasons).toEqual([
      "environment/docker-compose.yaml: compose is not supported",
    ]);
    expect(read({ "solution/solve.sh": null })).toMatchObject({ hasSolution: false, reasons: [] });
  });

  it("files that bash or nobody can read are refused by their names; a byte order mark is no part of a text", () => {
    const windows = "#!/bin/bash\r\necho 1 > /logs/verifier/reward.txt\r\n";
    const told = "has the line ends of Windows, which bash takes for a part of its commands";
    expect(read({ "tests/test.sh": windows }).reasons).toEqual([`tests/test.sh ${told}`]);
    const { reasons, notes } = read({ "solution/solve.sh": windows });
    expect([reasons, notes.at(-1)]).toEqual([[], `solution/solve.sh ${told}`]);
    expect(read({ "tests/test.sh": "#!/usr/bin/env python3\nprint(1)\n" }).reasons).toEqual([
      "tests/test.sh begins with #!/usr/bin/env python3, but bash runs it",
    ]);
    for (const path of ["task.toml", "instruction.md", "environment/Dockerfile"])
      expect(read({ [path]: Buffer.from("a = 'f\xfcr'", "latin1") }).reasons[0]).toBe(`${path} is no text in UTF-8`);
    const marked = read({
      "task.toml": '\ufeff[metadata]\r\ndifficulty = "Hard"\r\n',
      "instruction.md": "\ufeffDo it.",
      "environment/Dockerfile": "\ufeffFROM x\r\n",
    });
    expect(marked).toMatchObject({ level: 3, instruction: "Do it.", reasons: [] });
  });

  it("a test.sh that is a link is one of its own folder", () => {
    const path = folderOf({
      one: { "tests/test.sh": null, "tests/real.sh": "true\n" },
      two: { "tests/test.sh": null, "tests/data": "" },
    });
    symlinkSync("real.sh", join(path, "one/tests/test.sh"));
    symlinkSync("../../one/tests/real.sh", join(path, "two/tests/test.sh"));
    const [one, two] = ["one", "two"].map((name) => readTask(join(path, name), settings({ path })).reasons);
    expect(one).toEqual([]);
    expect(two).toEqual(["tests/test.sh is a link out of tests/, where nothing is when it runs"]);
  });

  it("takes whatever stands in metadata, of which the format says nothing", () => {
    expect(read("[metadata]\ndifficulty = ['hard']\n")).toMatchObject({ level: 2, reasons: [] });
    expect(read("[metadata]\ndifficulty = { a = 1 }\nadded = 2026-01-01\n")).toMatchObject({ level: 2, reasons: [] });
  });

  it("says so where a variable stands in a longer text, which stays as it is", () => {
    const { verifierEnv, notes, reasons } = read("[verifier.env]\nURL = 'http://${HOST:-x}/v1'\nP = 'a$b'\n");
    expect([verifierEnv, reasons]).toEqual([{ URL: "http://${HOST:-x}/v1", P: "a$b" }, []]);
    expect(notes).toContain("[verifier] env.URL: ${…} in a longer text stays as it is");
  });

  it("an image is what docker needs, and no Dockerfile", () => {
    const files = { "task.toml": '[environment]\ndocker_image = "x:1"\n', "environment/Dockerfile": null };
    expect(read(files, { engine: "docker" })).toMatchObject({ image: "x:1", reasons: [] });
  });
});

describe("Dockerfiles", () => {
  const steps = (text: string): unknown[] =>
    planOf(`FROM x\n${text}`).steps.map((step) =>
      step.kind === "run" ? step.command : step.kind === "copy" ? [...step.sources, step.to] : [step.text, step.to],
    );

  it("join lines that go on, leave comments out, and know texts in the file", () => {
    expect(steps("RUN a \\\n  # comment\n  && b\n# no\nrun c")).toEqual(["a   && b", "c"]);
    expect(steps("RUN cat <<EOF > f\n$x\nEOF\nRUN b")).toEqual(["cat <<EOF > f\n$x\nEOF\n", "b"]);
    expect(steps("RUN <<-'E'\n\techo 1\n\tE\nRUN b")).toEqual(["echo 1\n", "b"]);
    expect(steps('RUN ["a", "b c"]')).toEqual(["'a' 'b c'"]);
    expect(steps("COPY <<EOF /f\nhi\nEOF")).toEqual([["hi\n", "/f"]]);
  });

  it("keep directory and variables", () => {
    const plan = planOf(
      'ARG V=1\nFROM x:$V\nARG V\nENV A=1 B="two words"\nENV OLD some text\nENV PATH=/opt/bin:$PATH\n' +
        "WORKDIR /app\nWORKDIR sub\n" +
        'COPY --chmod=755 --chown=a:b a ${A}b ./\nRUN x\nUSER root\nCMD ["x"]\nEXPOSE 1\nLABEL a=b',
    );
    expect(plan).toMatchObject({
      workdir: "/app/sub",
      env: {
        A: "1",
        B: "two words",
        OLD: "some text",
        PATH: "/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      },
      reasons: [],
      notes: ["the tools of this machine stand in for x:1", "line 9: --chown=a:b is ignored"],
    });
    expect(plan.steps[0]).toMatchObject({
      kind: "copy",
      sources: ["a", "1b"],
      to: "/app/sub/./",
      workdir: "/app/sub",
      mode: "755",
    });
    expect(plan.steps[1]).toMatchObject({ kind: "run", env: { V: "1", A: "1" }, shell: ["/bin/sh", "-c"] });
  });

  it("know a text by a word that begins with <<, as Docker does, and leave shifts and quotes alone", () => {
    expect(steps("RUN echo $((1<<BITS))\nRUN b")).toEqual(["echo $((1<<BITS))", "b"]);
    expect(steps("RUN echo $(( 1 << BITS ))\nRUN b")).toEqual(["echo $(( 1 << BITS ))", "b"]);
    expect(steps('RUN echo "see <<EOF here" <<< x\nRUN b')).toEqual(['echo "see <<EOF here" <<< x', "b"]);
    expect(steps("RUN cat << 'EOF' > f\nRUN no\nEOF\nRUN b")).toEqual(["cat << 'EOF' > f\nRUN no\nEOF\n", "b"]);
    expect(steps("RUN cat <<a <<b >f\n1\na\n2\nb\nRUN c")).toEqual(["cat <<a <<b >f\n1\na\n2\nb\n", "c"]);
    expect(steps("COPY <<robots.txt <<b.txt /app/\n1\nrobots.txt\n2\nb.txt\nRUN c")).toEqual([
      ["1\n", "/app/"],
      ["2\n", "/app/"],
      "c",
    ]);
    const { reasons } = planOf("FROM x\nRUN cat <<EOF > f\nhello\nEOF \nRUN b");
    expect(reasons).toEqual(["line 2: RUN: the text <<EOF has no end"]);
  });

  it("put variables into a COPY of a text unless its name is in quotes, and leave those of RUN to the shell", () => {
    expect(steps("ENV A=1\nCOPY <<E /f\n\"$A\" '${A}' \\$A \\n\nE")).toEqual([["\"1\" '1' $A \\n\n", "/f"]]);
    expect(steps("ENV A=1\nCOPY <<'E' /f\n$A\nE")).toEqual([["$A\n", "/f"]]);
    expect(steps("ENV A=1\nRUN <<E\necho $A\nE")).toEqual(["echo $A\n"]);
  });

  it("run a text that begins with #! as a program", () => {
    const [step] = steps("RUN <<E\n#!/usr/bin/env python3\nprint(1)\nE");
    expect(step).toMatch(/^printf %s '#!.*' > (\S+) && exec \/usr\/bin\/env python3 \1$/s);
  });

  it("never split a value, and leave what is in single quotes as it is", () => {
    const { env, reasons, workdir } = planOf(
      `FROM x\nENV B="two words"\nENV C=$B D='$B' E="it's \\"$B\\"" F=a\\ b\nENV OLD $B "and" more\nWORKDIR "/my dir"`,
    );
    expect(env).toEqual({
      B: "two words",
      C: "two words",
      D: "$B",
      E: `it's "two words"`,
      F: "a b",
      OLD: "two words and more",
    });
    expect([reasons, workdir]).toEqual([[], "/my dir"]);
  });

  it("know ARG before FROM only where it is named again, and what BuildKit fills in", () => {
    const envOf = (text: string): unknown => planOf(`ARG V=1\nFROM x:$V\n${text}\nRUN a`).steps[0]!.env;
    expect(envOf("")).toEqual({});
    expect(envOf("ARG V")).toEqual({ V: "1" });
    expect(envOf("ARG V=2")).toEqual({ V: "2" });
    expect(envOf("ARG NONE")).toEqual({});
    expect(envOf("ARG TARGETOS TARGETARCH")).toMatchObject({ TARGETOS: "linux", TARGETARCH: expect.any(String) });
  });

  it.each([
    ["FROM y", "line 2: a second FROM: several stages are not supported"],
    ["USER app", "line 2: USER app: only root is supported"],
    ['ENTRYPOINT ["/start.sh"]', "line 2: ENTRYPOINT is not supported"],
    ["HEALTHCHECK CMD true", "line 2: HEALTHCHECK is not supported"],
    ["VOLUME /data", "line 2: VOLUME is not supported"],
    ["ONBUILD RUN x", "line 2: ONBUILD is not supported"],
    ["ADD https://x.org/a /a", "line 2: ADD https://x.org/a: there is no network"],
    ["ADD a.tar.gz /a", "line 2: ADD a.tar.gz: archives are not supported, only COPY"],
    ["COPY --from=build /a /b", "line 2: COPY --from=build is not supported"],
    ["RUN --mount=type=secret,id=x y", "line 2: RUN --mount=type=secret,id=x is not supported"],
    ["COPY a", "line 2: COPY: expected files and a destination"],
    ["WHATEVER x", "line 2: WHATEVER is not supported"],
    ["COPY --chmod=rx a /b", "line 2: COPY --chmod=rx: expected a mode, as in --chmod=755"],
    ["ENV A", "line 2: ENV A: expected NAME=VALUE"],
    ["ENV A=1 B", "line 2: ENV B: expected NAME=VALUE"],
    ["ARG 1=2", "line 2: ARG 1=2: expected NAME or NAME=VALUE"],
    ["ENV A=${B#x}", "line 2: ENV: ${B#x} is not supported, only :- - :+ + :? ?"],
    ["ENV A=${B:?no}", "line 2: ENV: ${B:?no}: B has no value"],
    ["ENV A=${B", "line 2: ENV: a ${ without its end"],
    ["WORKDIR it's", "line 2: WORKDIR: a ' without its end"],
  ])("%s is refused by its name", (line, reason) => {
    expect(planOf(`FROM x\n${line}`).reasons).toEqual([reason]);
  });

  it("words and variables are those of Docker", () => {
    expect(wordsOf(`a "b c" 'd $e' f\\ g h="i j"`)).toEqual(["a", "b c", "d $e", "f g", "h=i j"]);
    expect(expand("$A ${A} ${B:-x$A} ${A:+y} \\$A ${N}", { A: "1" })).toBe("1 1 x1 y $A ");
    expect(expand("${B-x} ${E-x}${E:-y} ${E+z} ${B:-${A}} $ $1", { A: "1", E: "" })).toBe("x y z 1 $ $1");
    const deep = `${"${A:-".repeat(1e5)}${"}".repeat(1e5)}`;
    expect(planOf(`FROM x\nENV B=${deep}`).reasons).toEqual(["line 2: ENV: more than 20 ${…} in each other"]);
  });
});

describe("the cost of a Dockerfile", () => {
  const texts = {
    ...HOSTILE,
    "texts without an end": (n: number) => "RUN <<E\n".repeat(n / 8),
    "shifts in a row": (n: number) => "<< a ".repeat(n / 5),
    "openings of variables": (n: number) => "${A:-".repeat(n / 5),
    variables: (n: number) => "${A:-$A}".repeat(n / 8),
    "instructions with a quote": (n: number) => `RUN a"\n`.repeat(n / 7),
  };
  it.each(Object.keys(texts))("%s: no more than its length", async (name) => {
    await expectBounded(name, (n) => {
      const text = texts[name as keyof typeof texts](n);
      for (const before of ["", "RUN ", "ENV A=", "ENV A ", "ARG ", "COPY ", "WORKDIR ", "RUN <<E\n", "COPY <<E /x\n"])
        planOf(`FROM x\n${before}${text}\nE\nRUN a`);
    });
  });
});

describe("the context of a build", () => {
  it("leaves out what .dockerignore names, and is hashed with its modes", () => {
    const folder = folderOf({
      one: {
        "environment/.dockerignore": "# no\r\n./secret\r\n/*.log\n! keep.log\n**/cache/\nx[0-9].py\n[z-a]\n",
        "environment/x1.py": "x",
        "environment/xy.py": "x",
        "environment/secret/a": "x",
        "environment/a.log": "x",
        "environment/keep.log": "x",
        "environment/sub/cache/b": "x",
        "environment/sub/c": "x",
      },
    });
    const context = join(folder, "one/environment");
    expect(contextPaths(context)).toEqual([".dockerignore", "Dockerfile", "keep.log", "sub", "sub/c", "xy.py"]);
    const odd = Buffer.concat([Buffer.from(`${join(folder, "one/tests")}/a`), Buffer.from([0xff])]);
    writeFileSync(odd, "x");
    expect(() => hashOf(join(folder, "one"))).toThrow(/tests\/a\ufffd: its name is no UTF-8$/);
    const before = hashOf(context);
    writeFileSync(join(context, "sub/c"), "y");
    expect(hashOf(context)).not.toBe(before);
  });
});

describe("rewards", () => {
  const file = (text: string): FoundFile => ({ bytes: Buffer.from(text) });

  it.each([
    ["1", 1],
    ["0.25\n", 0.25],
    [" -1 ", -1],
    ["2.5", 2.5],
    ["1e-1", 0.1],
    [".5", 0.5],
  ])("reward.txt with %j is a number", (text, reward) => {
    expect(verdictOf(undefined, file(text))).toEqual({ reward, keys: {} });
  });

  it.each(["", " \n", "nan", "NaN", "inf", "-Infinity", "1e999", "yes", "True", "1 1", "0x1", "1,0", "\x001"])(
    "reward.txt with %j is none",
    (text) => {
      const { reward, problem } = verdictOf(undefined, file(text));
      expect([reward, typeof problem]).toEqual([0, "string"]);
    },
  );

  it.each([
    ["0.5", 0.5, {}],
    ['{"reward": 0.75, "style": 1}', 0.75, { reward: 0.75, style: 1 }],
    ['{"correctness": 1, "performance": 0}', 0.5, { correctness: 1, performance: 0 }],
    ['{"reward": -2}', -2, { reward: -2 }],
    ["\ufeff1", 1, {}],
  ])("reward.json with %j is a number", (text, reward, keys) => {
    expect(verdictOf(file(text), undefined)).toEqual({ reward, keys });
  });

  it.each([
    "",
    "{",
    "{}",
    "[1]",
    "null",
    '"1"',
    "true",
    '{"reward": "1"}',
    '{"reward": null}',
    '{"a": {"b": 1}}',
    "1e999",
  ])("reward.json with %j is none, whatever reward.txt says", (text) => {
    const { reward, problem } = verdictOf(file(text), file("1"));
    expect([reward, typeof problem]).toEqual([0, "string"]);
  });

  it("reward.json comes first; a file that is not read, and none at all, are problems", () => {
    expect(verdictOf(file("0.5"), file("1")).reward).toBe(0.5);
    expect(verdictOf({ problem: "is no regular file" }, file("1"))).toEqual({
      reward: 0,
      keys: {},
      problem: "reward.json is no regular file",
    });
    expect(verdictOf(undefined, undefined).problem).toBe("the verifier has written no reward");
    const many = JSON.stringify(Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`k${i}`, 1])));
    expect(verdictOf(file(many), undefined).problem).toBe("reward.json has 200 keys, at most 100");
    const long = JSON.stringify({ ["k".repeat(101)]: 1 });
    expect(verdictOf(file(long), undefined).problem).toBe("reward.json has a key of more than 100 letters");
    expect(verdictOf(file('{"__proto__": 1, "a": 0}'), undefined).reward).toBe(0.5);
  });

  it("a container's file is read from the archive that it comes in, and a link is none", () => {
    const entry = (kind: string, size: number): Buffer => {
      const header = Buffer.alloc(512);
      header.write("reward.txt", 0);
      header.write(size.toString(8).padStart(11, "0"), 124);
      header.write(kind, 156);
      return header;
    };
    const block = (text: string): Buffer => Buffer.concat([Buffer.from(text), Buffer.alloc(512 - text.length)]);
    expect(firstFile(Buffer.concat([entry("x", 9), block("30 mtime="), entry("0", 2), block("1\n")]), 100)).toEqual({
      bytes: Buffer.from("1\n"),
    });
    expect(firstFile(entry("2", 0), 100)).toEqual({ problem: "is no regular file" });
    expect(firstFile(entry("0", 200), 100)).toEqual({ problem: "has 200 bytes, at most 100 are read" });
    expect(firstFile(entry("0", 20), 100)).toEqual({ problem: "is cut off" });
    expect(firstFile(Buffer.from("x"), 100)).toEqual({ problem: "cannot be read" });
  });
});

describe("actions", () => {
  it.each([
    ["ls -l", "ls -l"],
    ["  ls\r\n", "ls"],
    ["I look first.\n```bash\nls\npwd\n```\nthen\n```bash\nrm x\n```", "ls\npwd"],
    ["```\nls\n```", "ls"],
    ["```python\nprint(1)\n```\n```sh\nls\n```", "ls"],
    ["```bash\nls", "ls"],
    ['{"name": "bash", "arguments": {"command": "ls -l"}}', "ls -l"],
    ['{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}', "ls"],
    ['Let me see.\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>', "ls"],
    ["<tool_call>\n<function=bash>\n<parameter=command>\nls -l\n</parameter>\n</function>\n</tool_call>", "ls -l"],
    ['[TOOL_CALLS]bash[ARGS]{"command": "ls"}', "ls"],
    [
      '<think>\nThe tool <tool_call> runs it.\n</think>\n\n<tool_call>{"name": "bash", "arguments": {"command": "ls"}}',
      "ls",
    ],
    ["<think>\nI look.\n</think>\n\nls", "ls"],
    ["I look.\n</think>\n\n```bash\nls\n```", "ls"],
    ['grep "</think>" log', 'grep "</think>" log'],
    ["{ echo a; }", "{ echo a; }"],
    ["echo '{\"a\": 1}' > f", "echo '{\"a\": 1}' > f"],
    ["echo done", "echo done"],
    ["", ""],
  ])("%j is a command", (text, command) => {
    expect(actionsOf(text)).toEqual([{ kind: "command", command }]);
  });

  it.each([
    "done",
    " done\n",
    "```bash\ndone\n```",
    '{"name": "done"}',
    '<tool_call>{"name": "submit", "arguments": {}}',
  ])("%j ends the episode", (text) => {
    expect(actionsOf(text)).toEqual([{ kind: "end" }]);
  });

  it.each([
    ['{"name": "bash", "arguments": {}}', 'bash needs a "command", a text'],
    ['{"name": "bash", "arguments": {"command": 3}}', 'bash needs a "command", a text'],
    ['<tool_call>{"name": "bas", "arguments": {}}</tool_call>', 'unknown tool "bas"; did you mean bash?'],
    ["<tool_call>ls", "unknown tool"],
    ["<think>\nls", "a thought without an end"],
    ['{"name": "bash", "arg', "the tool call is no valid JSON"],
  ])("%j is a mistake that is told", (text, what) => {
    const [action, ...others] = actionsOf(text);
    expect(others).toEqual([]);
    expect(action?.kind === "mistake" && action.what).toContain(what);
  });

  it("several calls are several commands, in their order; one that cannot be read is a mistake among them", () => {
    const call = (name: string, command: string): string =>
      `<tool_call>\n{"name": "${name}", "arguments": {"command": "${command}"}}\n</tool_call>`;
    expect(actionsOf(`Both.\n${call("bash", "ls")}\n${call("bas", "pwd")}\n${call("done", "")}`)).toEqual([
      { kind: "command", command: "ls" },
      { kind: "mistake", what: 'unknown tool "bas"; did you mean bash?' },
      { kind: "end" },
    ]);
  });

  it.each(Object.keys(HOSTILE))("%s cost no more than their length", async (name) => {
    await expectBounded(name, (n) => {
      const text = HOSTILE[name]!(n);
      for (const action of [text, `\`\`\`bash\n${text}`, `<tool_call>${text}`, `{"name": "${text}`]) actionsOf(action);
      verdictOf(undefined, { bytes: Buffer.from(text) });
      verdictOf({ bytes: Buffer.from(text) }, undefined);
    });
  });
});

describe("a folder", () => {
  const names = Array.from({ length: 40 }, (_, i) => `task-${i}`);

  it("is one task, or has tasks one or two levels deep; a link to one counts", () => {
    const path = folderOf({ "group/b": {}, a: {} });
    mkdirSync(join(path, "empty"));
    mkdirSync(join(path, ".git/x"), { recursive: true });
    writeFileSync(join(path, ".git/x/task.toml"), "");
    symlinkSync(join(path, "a"), join(path, "z"));
    expect(taskFolders(path).map((folder) => folder.slice(path.length + 1))).toEqual(["a", "group/b", "z"]);
    expect(taskFolders(join(path, "a"))).toEqual([join(path, "a")]);
    expect(() => taskFolders(join(path, "empty"))).toThrow("has a task.toml");
    expect(() => taskFolders(join(path, "nowhere"))).toThrow("path is no folder");
    mkdirSync(join(path, "empty/old"));
    writeFileSync(join(path, "empty/old/task.yaml"), "");
    expect(() => taskFolders(join(path, "empty"))).toThrow(/old\/task\.yaml is the older format of Terminal-Bench$/);
    expect(basename(taskFolders(`${path}/a/.`)[0]!)).toBe("a");
  });

  it("has a name for each task: its folder's, or its path where two have the same", () => {
    const path = folderOf({ "x/a": {}, "y/a": {}, "y/b": {} });
    expect(playable(settings({ path })).map(({ name }) => name)).toEqual(["x/a", "y/a", "b"]);
  });

  it("is split by the names: every task is in one part, and neither part is empty", () => {
    const path = folderOf(Object.fromEntries(names.map((name) => [name, {}])));
    const [train, heldout] = (["train", "heldout"] as const).map((split) =>
      playable(settings({ path, split })).map(({ name }) => name),
    ) as [string[], string[]];
    expect([...train, ...heldout].sort()).toEqual([...names].sort());
    expect(heldout.length).toBeGreaterThan(3);
    expect(heldout.length).toBeLessThan(18);
    const few = playable(settings({ path })).slice(0, 5);
    for (const heldOut of [0.001, 0.999]) {
      const parts = (["train", "heldout"] as const).map((split) => splitOf(few, { split, heldOut }).length);
      expect(parts.toSorted((a, b) => a - b)).toEqual([1, 4]);
    }
    expect(splitOf(few.slice(0, 4), { split: "heldout", heldOut: 0.25 })).toHaveLength(4);
    expect(splitOf(few, { split: "heldout", heldOut: 0 })).toHaveLength(5);
  });

  it("can be narrowed by a list, by names and by levels; what is wrong is told in one line", async () => {
    const hard = { "task.toml": '[metadata]\ndifficulty = "hard"\n' };
    const path = folderOf({ a: {}, b: hard, c: { "task.toml": "[environment]\ngpus = 1\n" } });
    const list = join(path, "list");
    writeFileSync(list, "# good ones\nb\n\n");
    const names = (options: Partial<HarborOptions>): string[] =>
      playable(settings({ path, ...options })).map(({ name }) => name);
    expect(names({})).toEqual(["a", "b"]);
    expect(names({ only: list })).toEqual(["b"]);
    expect(names({ families: ["a"] })).toEqual(["a"]);
    expect(names({ levels: [2, 3] })).toEqual(["b"]);
    expect(() => names({ families: ["c"] })).toThrow("harbor: families: there is no usable task c");
    expect(() => names({ levels: [2, 2] })).toThrow("harbor: no train task of these families and levels");
    writeFileSync(join(path, "wrong"), "d\n");
    expect(() => names({ only: join(path, "wrong") })).toThrow("harbor: only: there is no task d");
    writeFileSync(join(path, "bad"), "c\n");
    await expect(harbor.check!({ path, only: join(path, "bad") })).rejects.toThrow(
      /^harbor: none of 1 tasks in .* can be played: c: \[environment\] gpus is not supported$/,
    );
    expect(() => harbor.make({} as HarborOptions)).toThrow("harbor: path must be text, got missing");
    expect(() => harbor.make({ path, engine: "vm" } as unknown as HarborOptions)).toThrow("harbor: engine must be");
  });

  it("has a hash that follows every file of its tasks", () => {
    const files = { "tests/data": Buffer.from([0, 255, 1]) };
    const [one, same, other] = [files, files, { "tests/data": Buffer.from([0, 255, 2]) }].map((each) => {
      const path = folderOf({ a: each });
      return fingerprintOf(settings({ path }));
    });
    expect(same).toBe(one);
    expect(other).not.toBe(one);
    expect(one).toMatch(/^[0-9a-f]{64}$/);
  });

  it("gives its limits to calls: the longest build, a command and the longest verifier", () => {
    const toml = "[environment]\nbuild_timeout_sec = 100\n[verifier]\ntimeout_sec = 50\n";
    const path = folderOf({ a: { "task.toml": toml }, b: {} });
    const patience = 120_000;
    expect(harbor.limits!({ path, seconds: 7, timeoutScale: 2 })).toEqual({
      reset: 1_200_000 + patience,
      step: 7000 + 100_000 + patience,
      end: 100_000 + patience,
    });
    expect(harbor.atOnce!({ path, sessions: 3 })).toBe(3);
  });
});
