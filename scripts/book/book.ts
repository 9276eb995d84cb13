/** Makes the book: a page for each chapter in `learn/`, an index, the library as modules for their cells. */
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
  for (const name of names) all.push(await material(name));
  const loaded = await bundlePages(target);
  const needs = all.map((own) => own.needs);
  await bundleLibrary(join(target, "lib"), needs, declarations);
  all.forEach((own, i) => {
    const page = chapterPage({
      chapter: own.chapter,
      exercises: own.exercises,
      imported: {
        chapter: importedNames(own.name, programOf(own.name), own.chapter.source),
        exercises: importedNames(own.name, exercisesOf(own.name), own.exerciseSource),
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

function neighbour(own: Material | undefined): Neighbour | undefined {
  return own && { title: own.chapter.title, address: `${own.name}.html` };
}
