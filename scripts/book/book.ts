/** Makes the book: a page for each chapter in `learn/`, an index, the library as modules for their cells. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { PageData } from "../../site/book/pageData.ts";
import { packageFolder } from "../packageFolder.ts";
import type { Name } from "./api/reference.ts";
import { bundleLibrary, bundlePages, needsOf, type Needs } from "./bundle.ts";
import { cellOutputs } from "./cellOutputs.ts";
import { type Chapter, parseChapter } from "./chapter.ts";
import { chapterPage, type Neighbour } from "./chapterPage.ts";
import { type Exercise, parseExercises, withAnswer } from "./exercises.ts";
import { indexPage } from "./indexPage.ts";
import type { Links } from "./markdown.ts";
import { parseMicro } from "./micro.ts";

/** A chapter with all that its page needs. */
interface Material {
  /** `05-grpo` */
  readonly name: string;
  readonly chapter: Chapter;
  readonly exercises: readonly Exercise[];
  readonly exerciseSource: string;
  readonly outputs: readonly string[];
  readonly broken: string;
  readonly needs: Needs;
}

const read = (path: string): string => readFileSync(join(packageFolder, path), "utf8");

/** The names of all chapters, in order. */
export function chapterNames(): string[] {
  const files = readdirSync(join(packageFolder, "learn")).filter((file) => /^\d\d-[\w-]+\.ts$/.test(file));
  return files.map((file) => file.replace(/\.ts$/, "")).toSorted();
}

/** What a page weighs, in bytes, gzipped. */
export interface PageSize {
  readonly page: string;
  readonly bytes: number;
}

/**
 * @param target an empty folder, or none yet
 * @param declarations where each name that index.ts exports is declared
 * @param names of the chapters; all unless said
 * @returns what each chapter's page loads before a cell runs
 */
export async function makeBook(
  target: string,
  links: Links,
  declarations: ReadonlyMap<string, Name>,
  names: readonly string[] = chapterNames(),
): Promise<PageSize[]> {
  mkdirSync(target, { recursive: true });
  const all: Material[] = [];
  for (const name of names) all.push(name.startsWith("00-") ? await micro(name) : await material(name));
  const loaded = await bundlePages(target);
  const needs = all.map((own) => own.needs);
  await bundleLibrary(join(target, "lib"), needs, declarations);
  all.forEach((own, i) => {
    const page = chapterPage({
      chapter: own.chapter,
      exercises: own.exercises,
      imported: {
        chapter: importedNames(own.name, `learn/${own.name}.ts`, own.chapter.source),
        exercises: importedNames(own.name, `learn/exercises/${own.name}.ts`, own.exerciseSource),
      },
      data: dataOf(own),
      links,
      previous: neighbour(all[i - 1]),
      next: neighbour(all[i + 1]),
    });
    writeFileSync(join(target, `${own.name}.html`), page);
  });
  const entries = all.map(({ name, chapter }) => ({ chapter, address: `${name}.html` }));
  writeFileSync(join(target, "index.html"), indexPage(entries, links));
  const weigh = (file: string): number => gzipSync(readFileSync(join(target, file))).length;
  return all.map(({ name }) => ({
    page: name,
    bytes: [`${name}.html`, ...loaded].reduce((sum, file) => sum + weigh(file), 0),
  }));
}

/** Names from index.ts. */
function importedNames(name: string, path: string, text: string): readonly string[] {
  return needsOf(name, [[path, text]]).names;
}

async function material(name: string): Promise<Material> {
  const path = `learn/${name}.ts`;
  const exercisePath = `learn/exercises/${name}.ts`;
  const chapter = parseChapter(read(path), path);
  const exerciseSource = existsSync(join(packageFolder, exercisePath)) ? read(exercisePath) : "";
  const programs = [[path, chapter.source] as const, [exercisePath, exerciseSource] as const];
  return {
    name,
    chapter,
    exercises: exerciseSource === "" ? [] : parseExercises(exerciseSource, exercisePath),
    exerciseSource,
    outputs: await cellOutputs(chapter, read(`learn/output/${name}.txt`)),
    broken: read(`learn/output/${name}.broken.txt`),
    needs: needsOf(name, programs),
  };
}

/** learn/00-micro.ts prints at its end; README shows what, and tests/learn/micro.test.ts compares. */
async function micro(name: string): Promise<Material> {
  const path = `learn/${name}.ts`;
  const chapter = parseMicro(read(path), path);
  const printed = /npm run learn\n```\n+```text\n(.*?)```/s.exec(read("README.md"))?.[1];
  if (printed === undefined) throw new Error("README.md: expected the output of npm run learn below it");
  const cells = chapter.sections.filter(({ code }) => code !== "");
  const outputs = cells.map((_, i) => (i === cells.length - 1 ? printed : ""));
  return { name, chapter, exercises: [], exerciseSource: "", outputs, broken: "", needs: needsOf(name, []) };
}

function dataOf({ name, chapter, exercises, exerciseSource, outputs, broken, needs }: Material): PageData {
  const MARK = "\u0001";
  return {
    modules: {
      files: {
        ...(needs.names.length > 0 ? { "index.ts": `lib/${name}.js` } : { "index.ts": "lib/index.js" }),
        ...Object.fromEntries(needs.files.map((path) => [path, `lib/${path.replace(/\.ts$/, ".js")}`])),
      },
      names: needs.names,
      whole: "lib/index.js",
    },
    outputs,
    changes: chapter.changes,
    broken,
    exercises: exercises.map(({ number }) => {
      const text = withAnswer(exerciseSource, `learn/exercises/${name}.ts`, number, MARK);
      const [before, after] = text.split(MARK);
      return { number, before: before!, after: after! };
    }),
  };
}

function neighbour(own: Material | undefined): Neighbour | undefined {
  return own && { title: own.chapter.title, address: `${own.name}.html` };
}
