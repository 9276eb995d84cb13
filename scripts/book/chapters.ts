/** Chapters of the book in `learn/`. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../packageFolder.ts";
import { type Chapter, parseChapter } from "./chapter.ts";
import { parseMicro } from "./micro.ts";

/** Names of the chapters, such as `05-grpo`, in order. */
export function chapterNames(): string[] {
  const files = readdirSync(join(packageFolder, "learn")).filter((file) => /^\d\d-[\w-]+\.ts$/.test(file));
  return files.map((file) => file.replace(/\.ts$/, "")).toSorted();
}

export const programOf = (name: string): string => `learn/${name}.ts`;
export const exercisesOf = (name: string): string => `learn/exercises/${name}.ts`;

/** @throws FormError if the chapter breaks the form of the book */
export function readChapter(name: string): Chapter {
  const read = (path: string): string => readFileSync(join(packageFolder, path), "utf8");
  const [path, exercises] = [programOf(name), exercisesOf(name)];
  const source = read(path);
  return name === "00-micro" ? parseMicro(source, path, read(exercises), exercises) : parseChapter(source, path);
}
