/** A copy of the sources with the diffs of pages in docs/ applied: what a reader has who does what the page says. */
import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { applied, blocksOf, hunksOf } from "../project/diffs.ts";
import { projectFiles, readSource } from "../project/sources.ts";

/** What the main job consists of, and the formulas of the live page; most tests and programs beside it stay away. */
const ROOMS = "kernels|engine|nn|rl|methods|data|papers|environments|pretrained|math|distribute|tune|compiled|connect";
const COPIED = new RegExp(`^((${ROOMS}|run|studies|tests|site)/|(index|package|tsconfig)\\.\\w+$)`);

export class PatchedCopy {
  readonly folder: string = mkdtempSync(join(tmpdir(), "worldgrad-adding-"));
  /** The files that the diffs change or make, in order. */
  readonly changed: readonly string[];

  constructor(pages: readonly string[]) {
    for (const path of projectFiles()) if (COPIED.test(path)) this.write(path, readSource(path));
    symlinkSync(resolve("node_modules"), join(this.folder, "node_modules"), "junction");
    const diffs = pages.flatMap((page) => blocksOf(readSource(page))).filter(({ language }) => language === "diff");
    this.changed = diffs.map(({ text }) => {
      const hunks = hunksOf(text);
      const { path } = hunks[0]!;
      const file = join(this.folder, path);
      this.write(path, applied(existsSync(file) ? readFileSync(file, "utf8") : undefined, hunks));
      return path;
    });
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    writeFileSync(join(this.folder, path), text);
  }

  read(path: string): string {
    return readFileSync(join(this.folder, path), "utf8");
  }

  /** The names in a folder, sorted. */
  list(path: string): string[] {
    return readdirSync(join(this.folder, path)).toSorted();
  }

  /** Runs a program of the copy in Node, on one thread. */
  run(...args: readonly string[]): SpawnSyncReturns<string> {
    const env = { ...process.env, WORLDGRAD_THREADS: "1", NO_COLOR: "1" };
    return spawnSync(process.execPath, ["--import", "tsx", ...args], { cwd: this.folder, encoding: "utf8", env });
  }

  /** What the compiler says of these files and all that they import; empty if nothing is wrong. */
  typeErrors(...files: readonly string[]): string {
    const compilerOptions = { noEmit: true, types: ["node"] };
    this.write("check.json", JSON.stringify({ extends: "./tsconfig.json", compilerOptions, include: [], files }));
    return spawnSync(resolve("node_modules/.bin/tsc"), ["-p", "check.json"], { cwd: this.folder, encoding: "utf8" })
      .stdout;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
