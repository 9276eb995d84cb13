/**
 * The book: each chapter `learn/NN-name.ts` is in the form of the book, and its exercises accept their
 * solutions and refuse wrong answers with a sentence. Whether a chapter prints what `learn/output/` keeps, also after
 * "Break it", `npm run book -- --check` tells, a step of CI: that takes a minute.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { chapterNames, exercisesOf, programOf, readChapter } from "../../scripts/book/chapters.ts";
import { parseExercises, solutionAsAnswer, withAnswer } from "../../scripts/book/exercises.ts";
import { TRACKS } from "../../scripts/book/indexPage.ts";
import { run } from "../../scripts/book/program.ts";
import { importsOf, readSource } from "../project/sources.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const CHAPTERS = chapterNames();
/** A chapter has ten seconds on an idle core; these machines are slower and busy. */
const PATIENCE = 300_000;

/** What a check says to an answer: undefined if it accepts it, else the error. */
type Verdict = { readonly kind: string; readonly message: string } | null;
interface Judged {
  readonly start: Verdict;
  readonly solution: Verdict;
  readonly wrong: readonly Verdict[];
}

/**
 * Appended to an exercise file: prints the verdicts on exercise, solution and wrong answers as one line. Checks run in
 * a process of their own, as those on the page do; to import the library here would also take longer.
 */
const JUDGE = `
{
  const verdict = async (check, answer) => {
    try {
      await check(answer);
    } catch (error) {
      return { kind: error?.constructor?.name ?? "", message: String(error?.message ?? error) };
    }
    return null;
  };
  const judged = async (check, start, solution, wrong) => {
    const verdicts = { start: await verdict(check, start), solution: await verdict(check, solution), wrong: [] };
    for (const answer of wrong) verdicts.wrong.push(await verdict(check, answer));
    return verdicts;
  };
  const all = [
    await judged(check1, exercise1, solution1, wrong1),
    await judged(check2, exercise2, solution2, wrong2),
  ];
  if (typeof check3 === "function") all.push(await judged(check3, exercise3, solution3, wrong3));
  console.log(JSON.stringify(all));
}
`;

/** The verdicts in an exercise file, exercise by exercise. @throws if the file prints anything else */
async function judgeAll(source: string, path: string): Promise<Judged[]> {
  const { text, failed } = await run(source + JUDGE, path);
  if (failed || text.indexOf("\n") !== text.length - 1) throw new Error(`${path}: expected one line, got ${text}`);
  return JSON.parse(text) as Judged[];
}

/** Expects a sentence for the student, not the accident of a check that did not foresee the answer. */
function expectSentence(verdict: Verdict, what: string): void {
  if (verdict === null) throw new Error(`${what} was accepted`);
  expect(["TypeError", "ReferenceError", ""], `${what}: ${verdict.message}`).not.toContain(verdict.kind);
  expect(verdict.message.split(/\s+/).length, `${what}: ${verdict.message}`).toBeGreaterThanOrEqual(3);
}

it("has a chapter before 0, and chapters 0 to 8 or more, numbered without a gap", () => {
  expect(CHAPTERS.length).toBeGreaterThanOrEqual(9);
  expect(CHAPTERS.map((name) => readChapter(name).number)).toEqual(CHAPTERS.map((_, i) => i - 1));
});

it("has two ways through it, which begin alike and together lead to every chapter", () => {
  const numbers = CHAPTERS.map((name) => readChapter(name).number);
  expect([...new Set(TRACKS.flatMap((track) => track.numbers))].toSorted((a, b) => a - b)).toEqual(numbers);
  expect(new Set(TRACKS.map((track) => track.numbers[0]))).toEqual(new Set([-1]));
});

it("has exercises and outputs of its chapters and no others", () => {
  const wanted = CHAPTERS.flatMap((name) => [`${name}.txt`, `${name}.broken.txt`]);
  expect(readdirSync(join(ROOT, "learn/output")).toSorted()).toEqual(wanted.toSorted());
  const exercises = readdirSync(join(ROOT, "learn/exercises")).filter((name) => name !== "expect.ts");
  expect(exercises.toSorted()).toEqual(CHAPTERS.map((name) => `${name}.ts`).toSorted());
});

describe.each(CHAPTERS)("learn/%s.ts", (name) => {
  const [path, exercisePath] = [programOf(name), exercisesOf(name)];

  it("is in the form of the book and names files that exist", () => {
    const { sections } = readChapter(name);
    const prose = sections.map((section) => section.prose).join("\n\n");
    const named = [...prose.matchAll(/`([\w-]+(?:\/[\w.-]+)+\.(?:ts|md))`/g)].map((found) => found[1]!);
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
  });

  it.each([path, exercisePath])("%s runs in a browser: it imports the project's own files, no package", (file) => {
    const folders = "kernels|engine|nn|rl|environments|distribute|run|studies|learn/exercises";
    const parts = new RegExp(`^(index\\.ts|learn/00-micro\\.ts|(${folders})/.*\\.ts)$`);
    expect(importsOf(file, readSource(file)).filter((target) => !parts.test(target))).toEqual([]);
  });

  it(
    "has exercises that accept their solutions and refuse starts and wrong answers",
    { timeout: PATIENCE },
    async () => {
      for (const [i, { start, solution, wrong }] of (
        await judgeAll(readSource(exercisePath), exercisePath)
      ).entries()) {
        expect(solution, `solution${i + 1}`).toBeNull();
        expectSentence(start, `exercise${i + 1}`);
        expect(wrong.length).toBeGreaterThan(0);
        wrong.forEach((verdict, k) => expectSentence(verdict, `wrong${i + 1}[${k}]`));
      }
    },
  );

  it("has exercises that accept their solutions in place of the starts", { timeout: PATIENCE }, async () => {
    const source = readSource(exercisePath);
    const typed = parseExercises(source, exercisePath).reduce(
      (text, exercise) => withAnswer(text, exercisePath, exercise.number, solutionAsAnswer(exercise)),
      source,
    );
    for (const { start } of await judgeAll(typed, exercisePath)) expect(start).toBeNull();
  });
});
