/** Parts of `shell` that need no sandbox: how output, files and archives are read, and what a hostile text costs. */
import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { entriesIn } from "../../connect/sandbox/files.ts";
import { CommandOutput } from "../../connect/sandbox/output.ts";
import { seccompProgram } from "../../connect/sandbox/seccomp.ts";
import { withoutLines } from "../../connect/sandbox/session.ts";
import { endingOf } from "../../connect/shell/bash.ts";
import { FAMILIES } from "../../connect/shell/families.ts";
import type { ShellOptions } from "../../connect/shell/index.ts";
import { SHELL } from "../../connect/shell/options.ts";
import { makeTask, type ShellTask } from "../../connect/shell/tasks.ts";
import { tarEntries } from "../../connect/shell/tar.ts";
import { Rng } from "../../engine/random.ts";
import { settleOptions } from "../../environments/options.ts";
import { isHeldOut, NAMES } from "../../environments/words.ts";
import { expectBounded, HOSTILE } from "../support/cost.ts";

describe("everyday names", () => {
  const task = (family: (typeof FAMILIES)[number], seed: number, options: ShellOptions): ShellTask =>
    makeTask(new Rng(seed).split(family.name), family, settleOptions("shell", SHELL, { everyday: true, ...options }));

  it.each(FAMILIES)("$name: a quarter of the texts is held out, and there are words enough for all sizes", (family) => {
    const texts = (split: "train" | "heldout"): string[] =>
      Array.from({ length: 100 }, (_, seed) => task(family, seed, { split, size: 1 + (seed % 4) }).text);
    const trained = new Set(texts("train"));
    const words = texts("heldout").map((text) => {
      expect(trained.has(text), text).toBe(false);
      return text.match(/\b[a-z]+\b/g) ?? [];
    });
    expect(words.every((said) => said.some((word) => NAMES.includes(word)))).toBe(true);
    expect(words.flat().filter((word) => isHeldOut(word) !== undefined)).toEqual([]);
  });
});

describe("output in pieces", () => {
  it("is found between its marks, wherever the pieces are cut", () => {
    const all = Buffer.from(`late output MARKone\ntwo MAR threeMARK`);
    for (let size = 1; size <= all.length; size++) {
      const output = new CommandOutput("MARK", 100);
      for (let at = 0; at < all.length; at += size) output.add(all.subarray(at, at + size));
      expect(output.text()).toBe("one\ntwo MAR three");
      expect(output.bytes()!.toString()).toBe("one\ntwo MAR three");
    }
  });

  it("of exactly as many bytes as are shown is whole, of one more it is not", () => {
    const shown = (length: number): CommandOutput => {
      const output = new CommandOutput("MARK", 10);
      output.add(Buffer.from(`MARK${"x".repeat(length)}MARKlater`));
      return output;
    };
    expect(shown(0).text()).toBe("");
    expect(shown(10).text()).toBe("x".repeat(10));
    expect(shown(11).text()).toBe("xxxxx\n[... 1 bytes ...]\nxxxxx");
    expect(shown(11).bytes()).toBeUndefined();
    expect(shown(0).hasEnded).toBe(true);
    expect(new CommandOutput("MARK", 10).hasEnded).toBe(false);
  });
});

it("output in many small pieces costs no more than their length", async () => {
  await expectBounded("pieces", (n) => {
    const output = new CommandOutput("MARK", 2 ** 24);
    output.add(Buffer.from("MARK"));
    for (let i = 0; i < n; i++) output.add(Buffer.alloc(64, "x"));
    output.add(Buffer.from("MARK"));
    expect(output.bytes()!.length).toBe(64 * n);
  });
});

describe("the filter of system calls", () => {
  it("is one program for each machine whose numbers are known, and none for another", () => {
    expect(seccompProgram("x64")!.length % 8).toBe(0);
    expect(seccompProgram("x64")!.equals(seccompProgram("arm64")!)).toBe(false);
    expect(seccompProgram("riscv64")).toBeUndefined();
  });
});

describe("tar archives", () => {
  it("that are none, are cut off or hold other things are refused", () => {
    expect(tarEntries("")).toBeUndefined();
    expect(tarEntries("x".repeat(512))).toBeUndefined();
    expect(tarEntries("\0".repeat(1024))).toEqual(new Map());
    const archive = execFileSync("tar", ["cf", "-", "-C", "/etc", "passwd"], { encoding: "latin1" });
    expect([...tarEntries(archive)!.keys()]).toEqual(["passwd"]);
    expect(tarEntries(archive.slice(0, 600))).toBeUndefined();
    // A negative size would be read for ever.
    const header = `a${"\0".repeat(123)}-1000${"\0".repeat(128)}ustar${"\0".repeat(250)}`;
    expect([header.length, tarEntries(header)]).toEqual([512, undefined]);
    const changed = (at: number, byte: string): string => archive.slice(0, at) + byte + archive.slice(at + 1);
    for (const at of [0, 100, 124, 148, 345]) expect(tarEntries(changed(at, "7")), `byte ${at}`).toBeUndefined();
    const link = execFileSync("tar", ["cf", "-", "-C", "/", "bin"], { encoding: "latin1" });
    expect(tarEntries(link)).toBeUndefined();
  });
});

it("an ending is `done`, or `answer` with a text, in quotes or not", () => {
  const endings = ["done", "answer 5", "answer  a b ", "answer 'a b'", "answer \"a'", "answer\n5", "answer ''"].map(
    endingOf,
  );
  expect(endings.map((ending) => ending?.text)).toEqual(["", "5", "a b ", "a b", "\"a'", "5", ""]);
  expect(["", "done now", "Done", "answer", "answers 5", "echo answer 5"].map(endingOf)).toEqual(
    Array(6).fill(undefined),
  );
});

it("errors lose the line of the script, and nothing else does", () => {
  expect(withoutLines("bash: line 33: x: command not found\nbash: eval: line 3: oops\n bash: line 1: x\n")).toBe(
    "bash: x: command not found\nbash: oops\n bash: line 1: x\n",
  );
});

it("files whose contents are longer or shorter than was said are not taken", () => {
  expect(entriesIn("\0")).toEqual(new Map());
  expect(entriesIn("f 644 2 a b\0d 755 9 d\0\0hi")).toEqual(
    new Map([
      ["a b", { kind: "file", mode: 0o644, content: "hi" }],
      ["d", { kind: "directory", mode: 0o755, content: "" }],
    ]),
  );
  for (const text of ["", "x", "f 644 2 a\0\0h", "f 644 2 a\0\0hi!"]) expect(entriesIn(text), text).toBeUndefined();
});

it.each(Object.keys(HOSTILE))("%s cost no more than their length", async (name) => {
  await expectBounded(name, (n) => {
    const text = HOSTILE[name]!(n);
    for (const line of [text, `answer ${text}`, `answer "${text}`, `bash: line ${text}`]) {
      endingOf(line);
      withoutLines(line);
    }
    entriesIn(`f 644 2 ${text}\0\0${text}`);
    tarEntries(text);
  });
});
