/**
 * The lines of the four rooms `kernels engine nn rl`, which are what a reader has to hold in the head. Two more numbers
 * are held elsewhere, and no others: the bytes of a page that trains (`npm run build`), and of the live page before its
 * first step (tests/site/browser/sizes.test.ts).
 */
import { expect, it } from "vitest";
import { isTypeScript, projectFiles, readSource } from "./sources.ts";

/**
 * The four rooms shrink from here; only a commit that says why may raise it. By 50 last, for errors: an id or a world
 * that is none, a model, a device or a file that is not there, an evaluation of which nothing could be played.
 */
const MOST_LINES = 31_030;

it("kernels, engine, nn and rl together", () => {
  const rooms = projectFiles().filter((path) => isTypeScript(path) && /^(kernels|engine|nn|rl)\//.test(path));
  const lines = rooms.reduce((sum, path) => sum + readSource(path).split("\n").length - 1, 0);
  console.info(`kernels, engine, nn, rl: ${lines} lines in ${rooms.length} files, at most ${MOST_LINES}`);
  expect(rooms.length).toBeGreaterThan(100);
  expect(lines).toBeLessThanOrEqual(MOST_LINES);
});
