/**
 * The book: each chapter `learn/NN-name.ts` from 01 up is in the form of the book, prints what `learn/output/` keeps
 * (`npx tsx scripts/book/outputs.ts` writes it), also after "Break it", and its exercises accept their solutions and
 * refuse wrong answers with a sentence.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { broken, parseChapter } from "../../scripts/book/chapter.ts";
import { parseExercises, solutionAsAnswer, withAnswer } from "../../scripts/book/exercises.ts";
import { comparable, run } from "../../scripts/book/program.ts";
import { importsOf, readSource } from "../project/sources.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const CHAPTERS = readdirSync(join(ROOT, "learn"))
  .filter((name) => /^\d\d-[\w-]+\.ts$/.test(name) && !name.startsWith("00-"))
  .map((name) => name.replace(/\.ts$/, ""));
/** A chapter has ten seconds on an idle core; these machines are slower and busy. */
const PATIENCE = 300_000;

type Answer = (...args: never[]) => unknown;
type Check = (answer: Answer) => unknown;

/** The error with which a check refuses an answer. @returns undefined if it accepts it */
async function refusal(check: Check, answer: Answer): Promise<unknown> {
  try {
    await check(answer);
  } catch (error) {
    return error;
  }
  return undefined;
}

/** Expects a sentence for the student, not the accident of a check that did not foresee the answer. */
function expectSentence(error: unknown, what: string): void {
  expect(error, `${what} was accepted`).toBeInstanceOf(Error);
  expect(error, what).not.toBeInstanceOf(TypeError);
  expect(error, what).not.toBeInstanceOf(ReferenceError);
  expect((error as Error).message.split(/\s+/).length, `${what}: ${(error as Error).message}`).toBeGreaterThanOrEqual(
    3,
  );
}

it("has chapters, each with a number of its own", () => {
  expect(CHAPTERS.length).toBeGreaterThan(0);
  expect(new Set(CHAPTERS.map((name) => name.slice(0, 2))).size).toBe(CHAPTERS.length);
});

it("has exercises and outputs of its chapters and no others", () => {
  const wanted = CHAPTERS.flatMap((name) => [`${name}.txt`, `${name}.broken.txt`]);
  expect(readdirSync(join(ROOT, "learn/output")).toSorted()).toEqual(wanted.toSorted());
  const exercises = readdirSync(join(ROOT, "learn/exercises")).filter((name) => name !== "expect.ts");
  expect(exercises.toSorted()).toEqual(CHAPTERS.map((name) => `${name}.ts`).toSorted());
});

describe.each(CHAPTERS)("learn/%s.ts", (name) => {
  const path = `learn/${name}.ts`;
  const exercisePath = `learn/exercises/${name}.ts`;

  it("is in the form of the book and names files that exist", () => {
    const { sections } = parseChapter(readSource(path), path);
    const prose = sections.map((section) => section.prose).join("\n\n");
    const named = [...prose.matchAll(/`([\w-]+(?:\/[\w.-]+)+\.(?:ts|md))`/g)].map((found) => found[1]!);
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
  });

  it.each([path, exercisePath])("%s runs in a browser: it imports the project's own files, no package", (file) => {
    const parts = /^(index\.ts|(kernels|engine|nn|environments|rl|job|tools|learn\/exercises)\/.*\.ts)$/;
    expect(importsOf(file, readSource(file)).filter((target) => !parts.test(target))).toEqual([]);
  });

  it(
    "prints what is kept, and after the change of “Break it” what is kept of that",
    { timeout: PATIENCE },
    async () => {
      const chapter = parseChapter(readSource(path), path);
      const whole = await run(chapter.source, path);
      expect(whole.failed, whole.text).toBe(false);
      expect(comparable(whole.text)).toBe(comparable(readSource(`learn/output/${name}.txt`)));
      const changed = await run(broken(chapter), path);
      expect(comparable(changed.text)).toBe(comparable(readSource(`learn/output/${name}.broken.txt`)));
      expect(comparable(changed.text)).not.toBe(comparable(whole.text));
    },
  );

  describe.each(parseExercises(readSource(exercisePath), exercisePath))("exercise $number", (exercise) => {
    const { number } = exercise;
    const part = async (kind: string): Promise<unknown> =>
      ((await import(join(ROOT, exercisePath))) as Record<string, unknown>)[`${kind}${number}`];

    it("accepts the solution and refuses the start and each wrong answer", { timeout: PATIENCE }, async () => {
      const check = (await part("check")) as Check;
      const print = vi.spyOn(console, "log");
      await check((await part("solution")) as Answer);
      expectSentence(await refusal(check, (await part("exercise")) as Answer), "the start");
      const wrong = (await part("wrong")) as Answer[];
      expect(wrong.length).toBeGreaterThan(0);
      for (const [i, answer] of wrong.entries()) expectSentence(await refusal(check, answer), `wrong answer ${i}`);
      expect(print).not.toHaveBeenCalled();
      print.mockRestore();
    });

    it("accepts the solution when it is typed in place of the start", { timeout: PATIENCE }, async () => {
      const source = withAnswer(readSource(exercisePath), exercisePath, number, solutionAsAnswer(exercise));
      const judged = `${source}\nawait check${number}(exercise${number});\nconsole.log("accepted");\n`;
      expect(await run(judged, exercisePath)).toEqual({ text: "accepted\n", failed: false });
    });
  });
});
