/** The book: a page for each chapter in `learn/`, an index, and the library as modules for the cells. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { PageData } from "../../site/book/pageData.ts";
import { packageFolder } from "../packageFolder.ts";
import type { Name } from "./api/reference.ts";
import { bundleLibrary, bundlePages, needsOf, type Needs } from "./bundle.ts";
import { cellOutputs } from "./cellOutputs.ts";
import type { Chapter } from "./chapter.ts";
import { chapterPage, type Neighbour } from "./chapterPage.ts";
import { chapterNames, exercisesOf, programOf, readChapter } from "./chapters.ts";
import { type Exercise, parseExercises, withAnswer } from "./exercises.ts";
import { indexPage } from "./indexPage.ts";
import type { Links } from "./markdown.ts";

/** A chapter with everything that its page needs. */
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

/** Size of a page in bytes, gzipped. */
export interface PageSize {
  readonly page: string;
  readonly bytes: number;
}

/**
 * @param target an empty or missing folder
 * @param declarations the place of each name that index.ts exports
 * @param names of the chapters; default all
 * @returns the size of what each chapter's page loads before a cell runs
 */
export async function makeBook(
  target: string,
  links: Links,
  declarations: ReadonlyMap<string, Name>,
  names: readonly string[] = chapterNames(),
): Promise<PageSize[]> {
  mkdirSync(target, { recursive: true });
  const all: Material[] = [];
  for (const name of names) all.push(await material(name));
  const loaded = await bundlePages(target);
  const needs = all.map((one) => one.needs);
  await bundleLibrary(join(target, "lib"), needs, declarations);
  all.forEach((current, i) => {
    const page = chapterPage({
      chapter: current.chapter,
      exercises: current.exercises,
      imported: {
        chapter: importedNames(current.name, programOf(current.name), current.chapter.source),
        exercises: importedNames(current.name, exercisesOf(current.name), current.exerciseSource),
      },
      data: dataOf(current),
      links,
      previous: neighbour(all[i - 1]),
      next: neighbour(all[i + 1]),
    });
    writeFileSync(join(target, `${current.name}.html`), page);
  });
  const entries = all.map(({ name, chapter }) => ({ chapter, address: `${name}.html` }));
  writeFileSync(join(target, "index.html"), indexPage(entries, links));
  const weigh = (file: string): number => gzipSync(readFileSync(join(target, file))).length;
  return all.map(({ name }) => ({
    page: name,
    bytes: [`${name}.html`, ...loaded].reduce((sum, file) => sum + weigh(file), 0),
  }));
}

/** Names that a program imports from index.ts. */
function importedNames(name: string, path: string, text: string): readonly string[] {
  return needsOf(name, [[path, text]]).names;
}

async function material(name: string): Promise<Material> {
  const [path, exercisePath] = [programOf(name), exercisesOf(name)];
  const chapter = readChapter(name);
  const exerciseSource = read(exercisePath);
  return {
    name,
    chapter,
    exercises: parseExercises(exerciseSource, exercisePath),
    exerciseSource,
    outputs: await cellOutputs(chapter, read(`learn/output/${name}.txt`)),
    broken: read(`learn/output/${name}.broken.txt`),
    needs: needsOf(name, [
      [path, chapter.source],
      [exercisePath, exerciseSource],
    ]),
  };
}

function dataOf({ name, chapter, exercises, exerciseSource, outputs, broken, needs }: Material): PageData {
  const MARK = "\u0001";
  return {
    chapter: name,
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
      const text = withAnswer(exerciseSource, exercisesOf(name), number, MARK);
      const [before, after] = text.split(MARK);
      return { number, before: before!, after: after! };
    }),
  };
}

function neighbour(other: Material | undefined): Neighbour | undefined {
  return other && { title: other.chapter.title, address: `${other.name}.html` };
}
