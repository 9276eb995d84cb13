/** The shell against recordings of the real one, and against any input at all. */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FileSystem, MAX_FILE, MAX_NODES, MAX_TOTAL, sizeOf } from "../../environments/terminal/filesystem.ts";
import { globMatches } from "../../environments/terminal/glob.ts";
import { compileRegex } from "../../environments/terminal/regex.ts";
import { MAX_LINE, runLine } from "../../environments/terminal/shell.ts";
import { tries } from "../support/tries.ts";

interface Recording {
  files: Record<string, string | null>;
  cases: { command: string; output: string; code: number; tree?: Record<string, string | null> }[];
}
const recording = JSON.parse(readFileSync(new URL("./shell-recorded.json", import.meta.url), "utf8")) as Recording;

function freshTree(): FileSystem {
  const fs = new FileSystem();
  for (const [path, text] of Object.entries(recording.files))
    if (text === null) fs.makeDirectory(path);
    else fs.write(path, text);
  return fs;
}

/** The real find and grep -r list a directory in the order of its entries on disk, which means nothing. */
function comparable(command: string, output: string): string {
  return /find|grep -\w*r/.test(command) ? output.split("\n").sort().join("\n") : output;
}

describe("recorded from bash, coreutils, grep and findutils", () => {
  it.each(recording.cases)("$command", ({ command, output, code, tree }) => {
    const fs = freshTree();
    const result = runLine(command, fs);
    expect(comparable(command, result.output)).toBe(comparable(command, output));
    expect(result.code).toBe(code);
    expect(Object.fromEntries(fs.snapshot())).toEqual(tree ?? recording.files);
  });
});

describe("what is ours", () => {
  it("keeps the working directory between lines", () => {
    const fs = freshTree();
    runLine("cd docs", fs);
    expect(runLine("pwd; ls", fs).output).toBe("/home/user/docs\nc.cfg\nd.log\n");
  });

  it("ends with answer and done, and runs nothing after them", () => {
    const fs = freshTree();
    expect(runLine("answer two  words", fs).ending).toEqual({ kind: "answer", text: "two words" });
    expect(runLine("cat a.txt && done; rm a.txt", fs)).toMatchObject({
      output: "fox\nant\nFox\n",
      ending: { kind: "done" },
    });
    expect(runLine("false && done", fs).ending).toBeUndefined();
    expect(fs.read("a.txt")).toBe("fox\nant\nFox\n");
  });

  it("does not end with an empty answer", () => {
    expect(runLine("answer", freshTree())).toEqual({
      output: "answer: usage: answer TEXT\n",
      code: 2,
      ending: undefined,
    });
  });

  it("refuses to copy a directory into itself before it has copied anything", () => {
    const fs = freshTree();
    const before = fs.snapshot();
    expect(runLine("cp -r docs docs/x", fs).output).toBe(
      "cp: cannot copy a directory, 'docs', into itself, 'docs/x'\n",
    );
    expect(fs.snapshot()).toEqual(before);
  });

  it.each(["(ls)", "ls &", "echo $(ls)", "echo `ls`"])("has no %s", (line) => {
    expect(runLine(line, freshTree())).toMatchObject({
      code: 2,
      output: expect.stringContaining("syntax error near") as string,
    });
  });

  it("does not find commands in the prototype of its table", () => {
    expect(runLine("constructor", freshTree())).toMatchObject({
      output: "constructor: command not found\n",
      code: 127,
    });
    expect(runLine("ls --constructor", freshTree()).code).toBe(2);
  });

  it("survives the removal of the directory it is in, and of everything", () => {
    const fs = freshTree();
    runLine("cd docs && rm -r ../docs", fs);
    expect(runLine("ls", fs)).toMatchObject({ code: 2 });
    expect(runLine("cd; rm -rf ~; ls ~", fs).output).toContain("No such file or directory");
    expect(runLine("rm -rf /", fs).output).toContain("dangerous");
  });
});

describe("limits", () => {
  it("kills a line that does too much, and the shell goes on", () => {
    const fs = freshTree();
    fs.write("big", "a\n".repeat(MAX_FILE / 2));
    const line = `cat ${"big ".repeat(300)} | grep '${"a*".repeat(300)}b'`;
    expect(runLine(line, fs)).toMatchObject({ output: "Killed\n", code: 137 });
    expect(runLine("wc -l big", fs).output).toBe("16384 big\n");
  });

  it("has files and a disk that fill up", () => {
    const fs = freshTree();
    fs.write("big", "a".repeat(MAX_FILE - 1));
    expect(runLine("cat a.txt >> big", fs)).toMatchObject({ output: "cat: a.txt: File too large\n", code: 1 });
    for (let i = 0; i < 10; i++) runLine(`cp big copy${i}`, fs);
    expect(runLine("cp big last", fs).output).toContain("No space left on device");
    for (let i = 0; i < 60; i++) runLine(`mkdir -p ${"d/".repeat(20)}x${i} ${i}/${"e/".repeat(100)}`, fs);
    const size = sizeOf(fs.root);
    expect(size.nodes).toBeLessThanOrEqual(MAX_NODES);
    expect(size.characters).toBeLessThanOrEqual(MAX_TOTAL);
  });

  it("loses messages that cannot be written, as a real shell does, and goes on", () => {
    const fs = freshTree();
    expect(runLine("mkdir d; rm -r d x 2>d/f; echo $?x", fs)).toMatchObject({ code: 0 });
    expect(fs.peek("d")).toBeUndefined();
    fs.write("big", "a".repeat(MAX_FILE - 1));
    expect(runLine("cat big big > f 2>&1", fs)).toMatchObject({ output: "", code: 1 });
    expect(runLine("nothing > f 2>&1", fs)).toMatchObject({ output: "", code: 127 });
    expect(runLine("cat nowhere 2>big; wc -c big", fs).code).toBe(0);
    for (let i = 0; i < 10; i++) runLine(`cp f copy${i}`, fs);
    expect(runLine("cat nowhere 2>>copy1", fs)).toMatchObject({ output: "", code: 1 });
  });

  it("refuses a line that is too long", () => {
    expect(runLine("a".repeat(MAX_LINE + 1), freshTree()).code).toBe(126);
  });
});

describe("any input", () => {
  /** Lines made of pieces that mean something to a shell: they reach much deeper than arbitrary text does. */
  const names = fc.constantFrom(
    "a.txt",
    "docs",
    "docs/c.cfg",
    "logs",
    ".",
    "..",
    "~",
    "/",
    "/dev/null",
    "*",
    "*/*",
    "?.txt",
    "x/y",
    "-n",
    "1",
    "''",
  );
  const commands = fc.constantFrom(
    "ls",
    "cd",
    "pwd",
    "cat",
    "grep",
    "find",
    "head",
    "tail",
    "wc",
    "sort",
    "uniq",
    "cut",
    "echo",
    "mkdir",
    "rmdir",
    "mv",
    "cp",
    "rm",
    "touch",
    "answer",
    "done",
    "true",
    "false",
    "nope",
  );
  const options = fc.constantFrom(
    "-a",
    "-r",
    "-R",
    "-rf",
    "-p",
    "-n",
    "-c",
    "-k2",
    "-t,",
    "-name",
    "-type",
    "-E",
    "-l",
    "-f1",
    "-d",
    "-u",
    "--",
    "-",
  );
  const glue = fc.constantFrom("|", "&&", "||", ";", ">", ">>", "<", "2>", "2>&1", "&", "(", "\n", "'", '"', "\\");
  const piece = fc.oneof(
    { weight: 4, arbitrary: names },
    { weight: 4, arbitrary: commands },
    { weight: 2, arbitrary: options },
    { weight: 2, arbitrary: glue },
    fc.string({ unit: "binary", maxLength: 4 }),
  );
  const line = fc.oneof(
    fc.array(piece, { maxLength: 14 }).map((pieces) => pieces.join(" ")),
    fc.string({ unit: "binary", maxLength: 60 }),
    fc.string({ maxLength: 60 }),
  );

  it("gives an output and an exit code, quickly, and leaves a whole tree inside the limits", () => {
    fc.assert(
      fc.property(fc.array(line, { maxLength: 8 }), (lines) => {
        const fs = freshTree();
        for (const text of lines) {
          const { output, code } = runLine(text, fs);
          expect(typeof output).toBe("string");
          expect(Number.isInteger(code) && code >= 0 && code <= 255).toBe(true);
        }
        const size = sizeOf(fs.root);
        expect(size.nodes <= MAX_NODES && size.characters <= MAX_TOTAL).toBe(true);
        expect(fs.used).toEqual(size);
        expect(fs.cwd.startsWith("/")).toBe(true);
      }),
      { numRuns: tries(1_500), interruptAfterTimeLimit: 20_000, markInterruptAsFailure: true },
    );
  });

  it("runs a line the same way twice", () => {
    fc.assert(
      fc.property(line, (text) => {
        expect(runLine(text, freshTree())).toEqual(runLine(text, freshTree()));
      }),
    );
  });
});

describe("patterns", () => {
  const letters = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 8 });

  it("globs as a regular expression would", () => {
    const pattern = fc.string({ unit: fc.constantFrom("a", "b", "*", "?"), maxLength: 6 });
    fc.assert(
      fc.property(pattern, letters, (glob, text) => {
        const expected = new RegExp(`^${glob.replaceAll("*", ".*").replaceAll("?", ".")}$`, "s").test(text);
        expect(globMatches(glob, text)).toBe(expected);
      }),
      { numRuns: tries(2_000) },
    );
  });

  it("searches as JavaScript's RegExp does, where the syntax is the same", () => {
    const atom = fc.constantFrom("a", "b", ".", "[ab]", "[^a]");
    const { pattern } = fc.letrec<{ pattern: string }>((tie) => ({
      pattern: fc.oneof(
        { maxDepth: 4 },
        atom,
        fc.tuple(atom, fc.constantFrom("*", "+", "?")).map((parts) => parts.join("")),
        fc.tuple(tie("pattern"), tie("pattern")).map((parts) => parts.join("")),
        fc.tuple(tie("pattern"), tie("pattern")).map(([left, right]) => `(${left}|${right})`),
        tie("pattern").map((inner) => `(${inner})*`),
        tie("pattern").map((inner) => `^${inner}$`),
      ),
    }));
    fc.assert(
      fc.property(pattern, letters, (source, text) => {
        expect(compileRegex(source, { extended: true }).test(text)).toBe(new RegExp(source).test(text));
      }),
      { numRuns: tries(2_000) },
    );
  });

  it("does not backtrack: a pattern that is exponential for others is linear here", () => {
    expect(compileRegex("(a*)*b", { extended: true }).test("a".repeat(20_000))).toBe(false);
  });
});
