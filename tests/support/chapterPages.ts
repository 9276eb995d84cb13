/** What a reader does on a page of the book: runs its cells, breaks its program, answers its exercises. */
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";

export const press = (host: Locator, name: string): Promise<void> =>
  host.getByRole("button", { name, exact: true }).click();

/** Waits until a run has ended. @returns what the status says */
export async function ended(host: Locator, timeout: number): Promise<string> {
  const status = host.locator(".status");
  await expect.poll(() => status.innerText(), { timeout }).toMatch(/^(?!Running)./);
  return status.innerText();
}

export async function replace(host: Locator, text: string): Promise<void> {
  await press(host, "Edit");
  await host.locator("textarea").fill(text);
}

/** Fonts of a drawing smaller than this many pixels are not read. */
const LEAST_FONT = 9;
/** Code, also while it is edited, and drawings fit into their boxes, and the texts of drawings can be read. */
export async function expectFits(page: Page): Promise<void> {
  const found = await page.evaluate(() => {
    for (const closed of document.querySelectorAll("details")) closed.open = true;
    const boxes = document.querySelectorAll("pre.code, pre.block, .drawing");
    const wide = [...boxes].filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth);
    const shown = [...document.querySelectorAll(".drawing svg")].flatMap((drawing) => {
      const { left, right, width } = drawing.getBoundingClientRect();
      return [...drawing.querySelectorAll("text")].map((text) => {
        const place = text.getBoundingClientRect();
        const font = (parseFloat(getComputedStyle(text).fontSize) * width) / 560;
        return { text: text.textContent, font, isInside: place.left >= left - 1 && place.right <= right + 1 };
      });
    });
    return { count: boxes.length, wide: wide.map((box) => box.textContent.slice(0, 80)), shown };
  });
  expect(found.count).toBeGreaterThan(4);
  expect(found.wide).toEqual([]);
  expect(found.shown.filter(({ font, isInside }) => font < LEAST_FONT || !isInside)).toEqual([]);
}

/** "Break it" prints what CI's broken run printed; undone, the page is as it was. */
export async function expectBreaks(page: Page, timeout: number): Promise<void> {
  const breaker = page.locator(".breaker");
  const shown = breaker.locator(".output pre");
  const kept = await shown.textContent();
  expect(kept).toMatch(/^\+ .*$/m);
  await press(breaker, "Break it and run");
  expect(await ended(breaker, timeout)).toMatch(/^Ran in [\d.]+ s; the output is the one that CI checked/);
  expect(await breaker.locator(".output").innerText()).toContain("Printed just now");
  await expect.poll(() => shown.textContent()).toMatch(/^- .*\n[^]*^\+ /m); // what changed, as a diff
  expect(await page.locator(".cell textarea").count()).toBeGreaterThan(0);
  await press(breaker, "Break it and run"); // the lines are gone
  expect(await ended(breaker, timeout)).toContain("Undo first");
  await press(breaker, "Undo");
  expect(await page.locator(".cell textarea").count()).toBe(0);
  expect(await shown.textContent()).toBe(kept);
}

/** Each exercise refuses its start, says why, and accepts its solution. */
export async function expectExercises(page: Page, timeout: number): Promise<void> {
  const exercises = await page.locator(".exercise").all();
  expect(exercises.length).toBeGreaterThanOrEqual(2);
  for (const [i, exercise] of exercises.entries()) {
    await press(exercise, "Check");
    expect(await ended(exercise, timeout)).toBe("Not yet.");
    expect((await exercise.locator(".problem").innerText()).length).toBeGreaterThan(15);
    const solution = (await page.locator(`#solution-${i + 1} pre`).textContent())!;
    await replace(exercise, solution.replaceAll(`solution${i + 1}`, `exercise${i + 1}`));
    await press(exercise, "Check");
    expect(await ended(exercise, timeout)).toBe("Right: the check accepts it.");
  }
}
