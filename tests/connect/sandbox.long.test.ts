/**
 * The sandbox of `shell` against hostile commands: what docs/security.md says that it holds. Needs bubblewrap. Each
 * case runs in a session of its own, on a machine that may be busy, so times are bounds and no measurements.
 */
import { execFileSync, spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { makeFiles, readFiles } from "../../connect/sandbox/files.ts";
import { type CommandResult, Session } from "../../connect/sandbox/session.ts";
import { supervisor } from "../../connect/sandbox/supervisor.ts";

const LIMITS = { processes: 32, memoryMb: 1024, diskMb: 4 };
const SHORT = { seconds: 1.5, outputBytes: 4000 };

/** Runs commands in one session; its end is waited for. */
async function results(commands: readonly string[], limits = SHORT): Promise<CommandResult[]> {
  const session = new Session(LIMITS);
  try {
    await makeFiles(session, new Map([["note", "hello\n"]]));
    const all: CommandResult[] = [];
    for (const command of commands) all.push(await session.run(command, limits));
    return all;
  } finally {
    session.close();
  }
}

/** The output of one command, without the last line end. */
async function outputOf(command: string): Promise<string> {
  const [result] = await results([command], { ...SHORT, seconds: 20 });
  return result!.output.trimEnd();
}

const python = (code: string): string => `python3 -c '${code.replaceAll("'", `'\\''`)}'`;

/** Processes of the host whose command line has this word. */
function processesWith(word: string): string[] {
  return execFileSync("ps", ["-eo", "args"], { encoding: "utf8" })
    .split("\n")
    .filter((line) => line.includes(word) && !line.startsWith("ps "));
}

describe("a session", () => {
  it("keeps directory, variables, functions, aliases and options; a subshell's stay its own", async () => {
    const all = await results([
      "cd /tmp; x=5; export y='a b'; list=(1 2 3); declare -A map=([k]=v); f() { echo f $1; }; set -u",
      "shopt -s nullglob",
      'pwd; echo "$x $y ${list[1]} ${map[k]}"; f 3; echo nothing*; echo $missing',
      "(cd /; x=6); cd ~; echo $x; cd -",
      'python3 -c \'import os; print(os.environ["y"], os.environ.get("x"))\'',
    ]);
    expect(all.map(({ output, code }) => [output, code])).toEqual([
      ["", 0],
      ["", 0],
      ["/tmp\n5 a b 2 v\nf 3\n\nbash: missing: unbound variable\n", 1],
      ["5\n/tmp\n", 0],
      ["a b None\n", 0],
    ]);
  });

  it("tells exit codes, and the errors of real tools without the line of a script", async () => {
    const all = await results([
      "exit 7",
      "false",
      "nothing",
      "cat missing",
      "kill -9 $BASHPID",
      "echo 'a",
      "exec echo hi",
      "",
    ]);
    expect(all.map(({ code }) => code)).toEqual([7, 1, 127, 1, 137, 2, 0, 0]);
    expect(all[2]!.output).toBe("bash: nothing: command not found\n");
    expect(all[3]!.output).toBe("cat: missing: No such file or directory\n");
    expect(all[5]!.output).toMatch(/^bash: unexpected EOF while looking for matching `''/);
  });

  it.each([
    ["sleep 99"],
    ["while :; do :; done"],
    ["trap '' TERM INT HUP; while :; do :; done"],
    ["vi"],
    ["sleep 99 | cat"],
    ["exec sleep 99"],
  ])("stops %s, and goes on", async (command) => {
    const start = performance.now();
    const [, stopped, next] = await results(["cd /tmp; x=1", command, "pwd; echo $x"]);
    expect(stopped).toMatchObject({ code: undefined, problem: "timeout" });
    expect(next).toEqual({ output: "/tmp\n1\n", code: 0, problem: undefined });
    expect(performance.now() - start).toBeLessThan(10_000);
  });

  it("has no terminal and no input: what would wait for it ends at once", async () => {
    const all = await results([
      "cat",
      "read x; echo $?",
      "cat /dev/tty",
      "less note",
      "tty",
      "sudo -n true; su -c true",
    ]);
    expect(all.map(({ problem }) => problem)).toEqual(Array(6).fill(undefined));
    expect(all.map(({ output }) => output.trim()).slice(0, 5)).toEqual([
      "",
      "1",
      "cat: /dev/tty: No such device or address",
      "hello",
      "not a tty",
    ]);
  });

  it("ends a command that leaves others behind; they are gone with the session", async () => {
    const mark = `${9e6 + Math.floor(Math.random() * 1e5)}`;
    const [one, two, three] = await results([
      `sleep ${mark} &`,
      `setsid sleep ${mark} > /dev/null 2>&1 & disown`,
      "jobs; echo on",
    ]);
    expect([one!.code, two!.code, three!.output]).toEqual([0, 0, "on\n"]);
    await wait(1500);
    expect(processesWith(mark)).toEqual([]);
  });

  it("shows the first and the last bytes of long output, and stops one that does not end", async () => {
    const [long, endless, binary, line] = await results(
      ["seq 100000", "yes", "printf 'a\\0b\\xff\\xfec\\e[2J'", "head -c 3000000 /dev/zero | tr '\\0' x"],
      { seconds: 5, outputBytes: 100 },
    );
    expect(long!.output).toMatch(/^1\n2\n3\n[^]*\n\[\.\.\. 588795 bytes \.\.\.\]\n[^]*99999\n100000\n$/);
    expect(endless).toMatchObject({ code: undefined, problem: "too much output" });
    expect(endless!.output.length).toBeLessThan(200);
    expect(binary!.output).toBe("ab\ufffd\ufffdc\u001b[2J");
    expect(line!.output).toHaveLength(100 + "\n[... 2999900 bytes ...]\n".length);
  });

  it("is given up, and answers so, if process 1 is killed from outside", async () => {
    const session = new Session(LIMITS);
    await makeFiles(session, new Map());
    const running = session.run("sleep 5", { seconds: 10, outputBytes: 100 });
    await wait(200);
    process.kill((await session.pid)!, "SIGKILL");
    expect((await running).problem).toBe("gone");
    expect(await session.run("echo hi", SHORT)).toEqual({ output: "", code: undefined, problem: "gone" });
    session.close();
    session.close();
  });
});

describe("what users of other shells reported", () => {
  /** Sessions: lines, and what the last one shows. docs/reports.md names the reports. */
  const SESSIONS: readonly (readonly [what: string, lines: readonly string[], shown: string])[] = [
    ["a separator of one's own", ["x=1", "IFS=,; y=2", 'echo "$x $y"'], "1 2\n"],
    ["digits as separators", ["x=7; IFS=0123456789", "y=$x", 'echo "$x$y"'], "77\n"],
    ["no overwriting", ["x=1", "set -C; cd /tmp; x=2", "pwd; echo $x; : > note; : > note"], "/tmp\n2\nbash: note: "],
    ["a trap at the end", ["cd /tmp; x=1; trap 'echo bye' EXIT", "pwd; echo $x"], "/tmp\n1\n"],
    ["exit", ["cd /tmp; x=1; exit 3", "echo $?; pwd; echo $x"], "3\n/tmp\n1\n"],
    ["a constant", ["readonly R=5", "echo $R", "R=6"], "bash: R: readonly variable\n"],
    ["an array without elements", ["declare -A m", "m[k]=v; declare -p m"], 'declare -A m=([k]="v" )\n'],
    ["a variable that was taken away", ["unset TZ USER", 'echo "[$TZ][$USER]"'], "[][]\n"],
    ["the last exit code", ["false", "echo $?", "echo $?"], "0\n"],
    [
      "patterns of functions",
      ["shopt -s extglob\nm() { case $1 in +(a|b)) echo ab;; esac; }\nshopt -u extglob", "declare -F m"],
      "m\n",
    ],
    [
      "a full disk",
      ["cd /usr; y=7", "head -c 9M /dev/zero > /tmp/big 2>&1; cd /", "pwd; echo $y; rm /tmp/big"],
      "/usr\n7\n",
    ],
    ["time that is up while much is kept", ["w=1", "x=$(seq 300000); w=2; sleep 9", "echo ${w/2/1}"], "1\n"],
    [
      "names like those of the shell",
      ["EPOCHS=10; BASH_COLOR=red; seconds=3; uid=4", "echo $EPOCHS $BASH_COLOR $seconds $uid"],
      "10 red 3 4\n",
    ],
    [
      "names like those of the supervisor",
      ["mark=1 who=2 job=3 line=4 code=5; printf() { echo no; }", 'echo $mark $who $job $line $code; printf "x\\n"'],
      "1 2 3 4 5\nno\n",
    ],
    ["aliases", ["alias ll='ls -d' set='echo set' cd='cd -P'", "ll /; cd /tmp", "pwd"], "/tmp\n"],
    ["each command shown", ["set -x", "echo hi"], "++ eval 'echo hi'\n+++ echo hi\nhi\n"],
    ["an unknown locale", ["export LC_ALL=xx_XX.UTF-8", "echo hi"], "hi\n"],
    ["errors in functions", ["f() { nosuch; }; f", "f"], "bash: nosuch: command not found\n"],
    ["a directory that is gone", ["mkdir d; cd d; rmdir ../d", "pwd"], "/home/user\n"],
    ["names of groups and hosts", ["groups; getent hosts localhost | cut -c1-9"], "user\n127.0.0.1\n"],
    ["the mask of new files", ["umask 077", "touch new; stat -c %a new"], "600\n"],
    ["a heredoc without an end", ["cat <<END\nhi", "echo on"], "on\n"],
    ["a quote without an end", ["echo 'a", "echo on"], "on\n"],
    ["exclamation marks", ["echo \"a!b\" '!!'"], "a!b !!\n"],
    ["an option against execution", ["x=1", "set -n; x=2", "echo $x"], "1\n"],
  ];
  it.each(SESSIONS)("%s", async (_, lines, shown) => {
    const last = (await results(lines)).at(-1)!;
    expect(last.problem).toBeUndefined();
    expect(last.output.slice(0, shown.length)).toBe(shown);
  });

  it("a time-out ends what has a group or a session of its own, too", async () => {
    const all = await results([
      "timeout 60 sleep 59",
      "setsid -w sleep 57",
      "set -m; sleep 58 | cat",
      python("import os, time; os.fork(); os.setsid() if os.getpid() != os.getpgrp() else 0; time.sleep(56)"),
      "ps ax | grep -c '[s]leep 5'",
    ]);
    expect(all.slice(0, 4).map(({ problem }) => problem)).toEqual(Array(4).fill("timeout"));
    expect(all[4]!.output).toBe("0\n");
  });

  it("a signal that comes just behind the end of a command does not end the next", () => {
    const end = /^_end\(\) \{\n[^]*?^\}/m.exec(supervisor(32, []))![0];
    // Bash 5.2 remembers a signal that comes behind `wait`, before another builtin; its next `wait` is over at once.
    const behind = "trap : USR2; set -m; late=; sleep 0.01 & wait $!; x=$(command kill -USR2 $$)";
    const lines = [end, behind, "(sleep 0.3; exit 5) & _end; echo $code"].join("\n");
    expect(execFileSync("bash", ["-c", lines], { encoding: "utf8", stdio: "pipe" })).toBe("5\n");
  });

  it("a state that was cut off in the middle is not read, also where there is no other", async () => {
    const half = String.raw`printf ': 1
cd -- /tmp
unset -v OLDPWD PATH HOME
x=2
' > /tmp/.state.1; kill -KILL $BASHPID`;
    const [, first, , later] = await results([
      half,
      'echo "${PATH:+path} ${x-none} ${PWD##*/}"; x=1',
      half.replace(": 1", ": 9").replace("state.1", "state.0"),
      'echo "${PATH:+path} $x"; ls /usr > /dev/null && echo found',
    ]);
    expect(first!.output).toMatch(/^path none (?!tmp)/);
    expect(later!.output).toBe("path 1\nfound\n");
  });

  it("a state that is no file is not waited for", async () => {
    const pipes = "rm -f /tmp/.state.*; mkfifo /tmp/.state.0 /tmp/.state.1; kill -KILL $BASHPID";
    const [, next] = await results([pipes, "echo on"]);
    expect(next).toEqual({ output: "on\n", code: 0, problem: undefined });
  });

  it("a command that is stopped is over, and the session goes on", async () => {
    const all = await results(["kill -STOP $BASHPID", "(kill -TSTP $BASHPID) & sleep 0.2", "echo on"]);
    expect(all.map(({ code, problem }) => code ?? problem)).toEqual([147, 0, 0]);
    expect(all[2]!.output).toBe("on\n");
  });

  it("every signal to oneself ends the command at most", async () => {
    for (const signal of ["TSTP", "STOP", "TTIN", "INT", "HUP", "PIPE", "USR1", "USR2", "ABRT", "SEGV"]) {
      const [, hit, next] = await results(["x=1", `kill -${signal} $BASHPID; kill -${signal} 0`, "echo $x"]);
      expect(hit!.problem === undefined || hit!.problem === "timeout", signal).toBe(true);
      expect(next, signal).toEqual({ output: "1\n", code: 0, problem: undefined });
    }
  });

  it("a command that is too long is refused, and the session goes on", async () => {
    const [long, most, next] = await results([`: ${"x".repeat(70_000)}`, `: ${"x".repeat(65_000)}`, "echo on"]);
    expect(long).toEqual({
      output: "bash: a command has at most 65536 letters, and no NUL",
      code: 126,
      problem: undefined,
    });
    expect([most!.code, next!.output]).toEqual([0, "on\n"]);
  });

  it("tools leave nothing behind that is judged, and print at once", async () => {
    const [slow, cache] = await results([
      python("import time; print(1); time.sleep(9)"),
      "echo x=1 > m.py; python3 -c 'import m'; ls",
    ]);
    expect(slow).toMatchObject({ output: "1\n", problem: "timeout" });
    expect(cache!.output).toBe("m.py\nnote\n");
  });
});

describe("commands cannot", () => {
  it("kill, stop or trace process 1, nor read its memory, its program or its channels", async () => {
    const trace = "import ctypes; c=ctypes.CDLL(None,use_errno=True); print(c.ptrace(16,1,0,0), ctypes.get_errno())";
    const all = await results(
      [
        "kill -9 -1; kill -9 1; kill -STOP 1; kill -USR1 1; echo alive",
        "echo alive",
        python(trace),
        "cat /proc/1/mem /proc/1/environ /proc/1/fd/0; ls /proc/1/fd; cat /.bash; chmod 777 /.bash; : > /proc/1/fd/1",
      ],
      { ...SHORT, seconds: 20 },
    );
    expect(all[1]).toEqual({ output: "alive\n", code: 0, problem: undefined });
    expect(all[2]!.output).toBe("-1 1\n");
    expect(all[3]!.output.match(/Permission denied|Read-only file system/g)).toHaveLength(7);
  });

  it("forge the end of a command, its exit code, or the files that are judged", async () => {
    const forged = "import os; b=open('/proc/self/environ','rb').read(); print(':0:'); print('0'*32+':0')";
    const session = new Session(LIMITS);
    try {
      await makeFiles(session, new Map([["note", "hello\n"]]));
      const first = await session.run(`${python(forged)}; exit 3`, { ...SHORT, seconds: 20 });
      expect(first).toMatchObject({ output: `:0:\n${"0".repeat(32)}:0\n`, code: 3 });
      const state =
        "cat > /tmp/.state <<'END'\nprintf() { builtin printf 'f 644 0 forged\\\\0'; }\nfind() { :; }\n" +
        "kill() { :; }\n" +
        "trap 'echo trap' DEBUG\nexit 0\nEND\nwhile :; do printf 'f 644 0 forged\\0\\0'; done &";
      await session.run(state, SHORT);
      const found = await readFiles(session);
      expect([...found!]).toEqual([["note", { kind: "file", mode: 0o644, content: "hello\n" }]]);
    } finally {
      session.close();
    }
  });

  it("change limits and priorities of process 1, signal it, or take from its pipe what is judged", async () => {
    const session = new Session(LIMITS);
    try {
      await makeFiles(session, new Map([["note", "hello\n"]]));
      const tried = `
import resource as r, os
def tried(f):
  try: f(); return "yes"
  except OSError as e: return e.strerror
print(*[tried(f) for f in (
  lambda: r.prlimit(1, r.RLIMIT_NOFILE, (4, 128)), lambda: r.prlimit(1, r.RLIMIT_CPU, (0, 0)),
  lambda: os.sched_setaffinity(1, {0}), lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
  lambda: os.setpriority(os.PRIO_PROCESS, 1, 19), lambda: os.kill(1, 10), lambda: os.kill(1, 12))], sep="\\n")
r.setrlimit(r.RLIMIT_NOFILE, (64, 64)); os.nice(1); os.kill(os.getpid(), 0); print("on oneself")`;
      const { output } = await session.run(python(tried), { ...SHORT, seconds: 20 });
      expect(output).toBe(`${"Operation not permitted\n".repeat(7)}on oneself\n`);
      const thieves =
        "for i in 1 2 3; do setsid cat < /proc/self/fd/1 > /dev/null 2>&1 & done; " +
        "while :; do kill -USR2 1; printf 'f 644 0 forged\\0\\0'; done > /proc/self/fd/1 2>&1 &";
      await session.run(thieves, SHORT);
      expect([...(await readFiles(session))!.keys()]).toEqual(["note"]);
    } finally {
      session.close();
    }
  });

  it("hold memory that belongs to no process", async () => {
    const calls = process.arch === "x64" ? [29, 30, 68, 64, 240, 319, 447] : [194, 196, 186, 190, 180, 279, 447];
    const refused = `
import ctypes
c = ctypes.CDLL(None, use_errno=True)
print([(c.syscall(n, 0, 4096, 0o1600, 0, 0), ctypes.get_errno()) for n in ${JSON.stringify(calls)}] == [(-1, 1)] * 7)`;
    expect(await outputOf(python(refused))).toBe("True");
    expect(await outputOf("cat /proc/self/oom_score_adj")).toBe("1000");
  });

  it("cost the judge more than a moment, by files without number, depth or end", async () => {
    const litter = [
      "truncate -s 4M a; for i in 1 2 3; do cp --sparse=always a b$i 2>&1; done | head -c 100",
      python("for i in range(200000): open(str(i), 'w')"),
      python("import os\nfor i in range(2000): os.mkdir('d' * 100); os.chdir('d' * 100)"),
    ];
    for (const command of litter) {
      const session = new Session(LIMITS);
      try {
        await makeFiles(session, new Map());
        await session.run(command, { ...SHORT, seconds: 10 });
        const before = process.cpuUsage();
        await readFiles(session);
        const { user, system } = process.cpuUsage(before);
        expect((user + system) / 1e6, command).toBeLessThan(1);
      } finally {
        session.close();
      }
    }
  });

  it("break the session by what they leave in the file of its state", async () => {
    for (const state of [
      "exit 0",
      "set -e; false",
      "exec > /dev/null",
      "unset PATH; enable -n printf cd declare",
      "(((",
    ]) {
      const [, , , last] = await results([
        `cat > /tmp/s <<< ${JSON.stringify(state)}; trap 'cp /tmp/s /tmp/.state' EXIT`,
        "echo a",
        "rm -f /tmp/.state; mkdir /tmp/.state",
        "/usr/bin/rm -rf /tmp/.state; /usr/bin/rmdir /tmp/.state; builtin echo fine",
      ]);
      expect(last!.problem, state).toBeUndefined();
    }
  });

  it("fork without end", async () => {
    const commands = [":(){ :|:& };:", "kill -9 -1", "echo next; ps ax | wc -l"];
    // Two dozen processes want the processor beside each command until they are killed.
    const [bomb, cure, next] = await results(commands, { ...SHORT, seconds: 20 });
    expect(bomb!.problem).toBeUndefined();
    expect(cure!.problem).toBeUndefined();
    expect(next!.output).toMatch(/^next\n\d\n$/);
    const counted = `
import os, time
n = 0
try:
  while n < 60:
    if os.fork() == 0:
      time.sleep(3)
      os._exit(0)
    n += 1
except OSError:
  pass
print(n)`;
    expect(Number(await outputOf(python(counted)))).toBeLessThan(24);
  });

  it("take memory, disk or descriptors without end", async () => {
    expect(await outputOf(python("x=bytearray(3*2**30)"))).toContain("MemoryError");
    const [home, tmp, shm, dev] = await results(
      [
        "for i in 1 2 3; do head -c 3M /dev/zero > big$i; done; rm -f big*",
        "head -c 9M /dev/zero > /tmp/big; stat -c %s /tmp/big; rm /tmp/big",
        "for i in 1 2 3; do head -c 3M /dev/zero > /dev/shm/big$i; done",
        "echo x > /dev/file; echo x > /file; echo x > /etc/file",
      ],
      { ...SHORT, seconds: 20 },
    );
    expect(home!.output).toContain("No space left on device");
    expect(Number(/^\d+$/m.exec(tmp!.output)![0])).toBeLessThanOrEqual(4 * 2 ** 20);
    expect(shm!.output).toContain("No space left on device");
    expect(dev!.output.match(/Read-only file system/g)).toHaveLength(3);
    expect(await outputOf("ls /proc/self/fd | wc -l")).toBe("4");
    expect(
      await outputOf('for i in $(seq 3 200); do eval "exec $i</dev/null" || break; done 2>&1 | tail -n 1'),
    ).toContain("Too many open files");
  });

  it("see or change anything of the host", async () => {
    const all = await results([
      "cat /etc/shadow /etc/hostname; ls /root /work /var /run /boot /mnt /srv /opt /media",
      "old=$(cat /proc/sys/kernel/core_pattern); echo x > /proc/sys/kernel/core_pattern",
      "touch /usr/x /usr/bin/x; ln -s /etc/shadow link; cat link; ls /proc | grep -c '^[0-9]'",
      "env | cut -d= -f1 | sort | tr '\\n' ' '",
      "id; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status | tr '\\n' ' '",
      "ls /dev; cat /dev/mem /dev/kmsg /dev/sda; mknod x b 8 0",
    ]);
    expect(all[0]!.output.match(/No such file or directory/g)).toHaveLength(11);
    expect(all[1]!.output).toMatch(/core_pattern: (Read-only file system|Permission denied)/);
    expect(all[2]!.output.match(/Read-only file system|No such file or directory/g)).toHaveLength(3);
    expect(Number(/(\d+)\n$/.exec(all[2]!.output)![1])).toBeLessThan(8);
    expect(all[3]!.output).toBe(
      "HOME LANG LC_ALL PAGER PATH PWD PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED SHLVL TERM TZ USER _ ",
    );
    expect(all[4]!.output).toMatch(
      /uid=1000\(user\) gid=1000\(user\) .*CapEff:\s0000000000000000 NoNewPrivs:\s1 Seccomp:\s2/s,
    );
    expect(all[5]!.output.match(/No such file or directory|Operation not permitted/g)).toHaveLength(4);
  });

  it("reach the network, another session, or the kernel's odd corners", async () => {
    const sockets = `
import socket, ctypes
def tried(f):
  try: f(); return "yes"
  except OSError as e: return e.strerror
connect = lambda: socket.create_connection(("8.8.8.8", 53), 1)
print(tried(connect), *[tried(lambda f=f: socket.socket(f)) for f in (1, 2, 40)], tried(lambda: socket.socket(16, 3)))
c = ctypes.CDLL(None, use_errno=True)
calls = ${process.arch === "x64" ? "[425, 321, 298, 250, 272, 165, 101]" : "[425, 280, 241, 219, 97, 40, 117]"}
print([(c.syscall(n, 0, 0, 0, 0, 0), ctypes.get_errno()) for n in calls] == [(-1, 1)] * 7)`;
    expect(await outputOf(python(sockets))).toBe(
      "Network is unreachable yes yes Operation not permitted Operation not permitted\nTrue",
    );
    const refused = await outputOf(
      "unshare -U true; unshare -m true; mount -t tmpfs x /tmp; /usr/sbin/chroot / true; nsenter -t 1 -a true",
    );
    expect(refused.match(/Operation not permitted|must be superuser|Permission denied/g)).toHaveLength(5);
  });

  it("outlive the program that began them", async () => {
    const mark = `${8e6 + Math.floor(Math.random() * 1e5)}`;
    const session = join(import.meta.dirname, "../../connect/sandbox/session.ts");
    const program = `
      import { Session } from ${JSON.stringify(session)};
      const session = new Session(${JSON.stringify(LIMITS)});
      await session.run("sleep ${mark} & setsid sleep ${mark} &", { seconds: 9, outputBytes: 99 });
      console.log("ready");
      void session.run("while :; do :; done", { seconds: 500, outputBytes: 99 });`;
    for (const name of ["SIGKILL", "SIGINT"] as const) {
      const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", program]);
      let said = "";
      child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
      await new Promise((resolve, reject) => {
        child.stdout.once("data", resolve);
        child.once("exit", () => reject(new Error(said)));
      });
      expect(processesWith(mark)).not.toEqual([]);
      child.kill(name);
      for (let i = 0; i < 50 && processesWith(mark).length > 0; i++) await wait(100);
      expect(processesWith(mark), name).toEqual([]);
    }
  });
});

describe("files", () => {
  it("are made and read as they are: quotes, empty ones, odd names, bytes, links, modes", async () => {
    const session = new Session(LIMITS);
    try {
      await makeFiles(
        session,
        new Map([
          ["a'b", "it's\n"],
          ["d", null],
          ["d/empty", ""],
          ["-x", "$HOME `x` \\n"],
        ]),
      );
      expect((await session.run("stat -c %y a\\'b d d/empty | sort -u", SHORT)).output).toBe(
        "2026-01-01 00:00:00.000000000 +0000\n",
      );
      await session.run(
        "printf 'a\\0b\\xff' > bytes; mkdir $'n\\nl'; ln -s /etc/passwd link; chmod 600 -- -x; mkfifo p",
        SHORT,
      );
      expect(Object.fromEntries((await readFiles(session))!)).toEqual({
        "a'b": { kind: "file", mode: 0o644, content: "it's\n" },
        d: { kind: "directory", mode: 0o755, content: "" },
        "d/empty": { kind: "file", mode: 0o644, content: "" },
        "-x": { kind: "file", mode: 0o600, content: "$HOME `x` \\n" },
        bytes: { kind: "file", mode: 0o644, content: "a\0b\u00ff" },
        "n\nl": { kind: "directory", mode: 0o755, content: "" },
        link: { kind: "l", mode: 0o777, content: "" },
        p: { kind: "p", mode: 0o644, content: "" },
      });
      await session.run("rm -rf -- * ; rm -f -- -x", SHORT);
      expect(await readFiles(session)).toEqual(new Map());
      await session.run("echo x > hidden; chmod 0 hidden", SHORT);
      expect(await readFiles(session)).toBeUndefined();
    } finally {
      session.close();
    }
  });
});
