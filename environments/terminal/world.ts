/**
 * A small generated home directory, and what a task family needs to furnish it. All chance comes from one `Rng`.
 */
import type { Rng } from "../../engine/index.ts";
import { FileSystem } from "./filesystem.ts";
import { joinLines } from "./process.ts";
import type { Split } from "../selection.ts";
import { EXTENSIONS, listed, nameMaker, NAMES } from "../words.ts";

export class World {
  readonly fs: FileSystem = new FileSystem();
  readonly rng: Rng;
  readonly size: number;
  /** Directories below home, as paths relative to it. The last one has no subdirectory. */
  readonly directories: readonly string[];
  /**
   * A word that is new in this world. None contains another, so a search for one finds only it.
   */
  readonly word: () => string;
  readonly #fillers: readonly string[];
  #files = 0;

  /**
   * @param size 1 is what a very small model can learn; each step adds directories (also nested), files and longer
   * contents
   * @param everyday whether names and words are everyday words
   */
  constructor(rng: Rng, split: Split, size: number, everyday = false) {
    this.rng = rng;
    this.size = size;
    this.word = everyday ? listed(rng, NAMES) : nameMaker(rng, split);
    const directories: string[] = [];
    const count = 2 + rng.int(2) + (size - 1);
    while (directories.length < count) {
      const nested = size > 1 && directories.length > 0 && rng.int(2) === 0;
      directories.push(nested ? `${rng.choice(directories)}/${this.word()}` : this.word());
      this.fs.makeDirectory(directories.at(-1)!);
    }
    this.directories = directories;
    this.#fillers = Array.from({ length: 4 }, () => this.word());
  }

  /** A directory without subdirectories. */
  get leaf(): string {
    return this.directories.at(-1)!;
  }

  /** A word of this world that no task asks for: what unimportant lines say. */
  filler(): string {
    return this.rng.choice(this.#fillers);
  }

  /** A new file name. */
  fileName(extension: string = this.rng.choice(EXTENSIONS)): string {
    return `${this.word()}.${extension}`;
  }

  /** A directory below home; with `except`, another one than that. */
  directory(except?: string): string {
    return this.rng.choice(this.directories.filter((path) => path !== except));
  }

  /** The beginning of a path: "" (home) or "a/". Home is as probable as any directory below it. */
  somewhere(): string {
    return this.rng.choice(["", ...this.directories.map((path) => `${path}/`)]);
  }

  /** Writes a file; the path is relative to home. */
  addFile(path: string, lines: readonly string[]): void {
    this.fs.write(path, joinLines(lines));
    this.#files++;
  }

  /**
   * Adds unimportant files until there are 4 to 6 (more in larger worlds), in home and all directories but `except`.
   */
  addClutter(except?: string): void {
    const total = 4 + this.rng.int(3) + 2 * (this.size - 1);
    const places = ["", ...this.directories.filter((path) => path !== except).map((path) => `${path}/`)];
    while (this.#files < total) {
      const lines = Array.from({ length: 1 + this.rng.int(this.size) }, () => this.filler());
      this.addFile(this.rng.choice(places) + this.fileName(), lines);
    }
  }
}
