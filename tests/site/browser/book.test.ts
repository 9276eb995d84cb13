/** Book, API reference and documents in a real Chromium: cells, “Break it”, exercises, search, who can use them. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chapterNames } from "../../../scripts/book/chapters.ts";
import { makePages } from "../../../scripts/book/pages.ts";
import { serveFolder } from "../../../scripts/sitePage.ts";
import { compare } from "../../../site/book/compare.ts";
import { readSource } from "../../project/sources.ts";
import { launchChromium } from "../../support/browser.ts";
import {
  ended as endedWithin,
  expectBreaks,
  expectExercises,
  expectFits,
  press,
  replace,
} from "../../support/chapterPages.ts";
import { PATIENCE } from "../../support/livePage.ts";
import { violations } from "../../support/sitePages.ts";

const [, MICRO, CHAPTER] = chapterNames() as [string, string, string];

const folder = mkdtempSync(join(tmpdir(), "worldgrad-book-"));
let server: Server;
let address: string;
let browser: Browser;
/** What pages said in their consoles, and what they asked for. */
const problems: string[] = [];
const requests = new Set<string>();

beforeAll(async () => {
  await makePages(folder, [MICRO, CHAPTER]);
  ({ server, address } = await serveFolder(folder, 0));
  browser = await launchChromium();
}, 300_000);
afterAll(async () => {
  await browser.close();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Look {
  readonly width?: number;
  readonly colorScheme?: "light" | "dark";
  readonly javaScriptEnabled?: boolean;
}
async function open(path: string, { width = 1400, ...look }: Look = {}): Promise<Page> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, ...look });
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => requests.add(request.url()));
  await page.goto(address + path);
  return page;
}
const chapter = (): Promise<Page> => open(`book/${CHAPTER}.html`);
/** Waits until a run has ended. @returns what the status says */
const ended = (host: Locator): Promise<string> => endedWithin(host, PATIENCE);

describe("a chapter", () => {
  test(
    "its cells run and print what CI checked; nothing of the library is loaded before",
    { timeout: PATIENCE },
    async () => {
      requests.clear();
      const page = await chapter();
      const cells = page.locator(".cell");
      const count = await cells.count();
      expect(count).toBeGreaterThan(2);
      const own = [...requests].map((url) => url.slice(address.length));
      expect(own.filter((path) => !/^book\/(chunk-\w+\.js|page\.js|book\.css|[\w-]+\.html)$/.test(path))).toEqual([]);

      await press(cells.nth(count - 1), "Run");
      expect(await ended(cells.nth(count - 1))).toMatch(/^Ran in [\d.]+ s; the output is the one that CI checked/);
      const printed = (await cells.locator(".output pre").allTextContents()).join("");
      expect(compare(printed, readSource(`learn/output/${CHAPTER}.txt`))).not.toBe("other");
      expect(await cells.locator(".output:not([hidden]) .label").allInnerTexts()).toContain("Printed just now");
      expect([...requests].filter((url) => /\/lib\//.test(url)).length).toBeGreaterThan(0);
      await page.close();
    },
  );

  test("a cell that prints nothing says so", { timeout: PATIENCE }, async () => {
    const page = await chapter();
    const cell = page.locator(".cell").first();
    await press(cell, "Run");
    expect(await ended(cell)).toMatch(/^Ran in [\d.]+ s; nothing is printed here yet\.$/);
    await page.close();
  });

  test("its names are links where they are the library's; an exercise lists what it can use", async () => {
    const page = await chapter();
    const links = page.locator(".prose a");
    // `grad` of a Value, in the first section, is no function of the library; `checkGradient` is.
    expect(await page.locator(".prose").first().locator("a").allInnerTexts()).not.toContain("grad");
    expect(await links.allInnerTexts()).toContain("checkGradient");
    const tasks = page.locator(".row", { has: page.locator(".exercise") }).locator(".prose");
    expect(await tasks.nth(0).innerText()).toMatch(/names of the library, so you can use them: .*softmax.*sum/s);
    expect(await tasks.nth(1).innerText()).not.toContain("names of the library");
    await page.close();
  });

  test.each([1300, 1400, 1500])("its code fits into a window of %i px", async (width) => {
    for (const name of [MICRO, CHAPTER]) {
      const page = await open(`book/${name}.html`, { width });
      const widths = await page
        .locator(".cell pre.code")
        .evaluateAll((all) => all.map((own) => [own.scrollWidth, own.clientWidth] as const));
      expect(widths.length).toBeGreaterThan(3);
      for (const [needed, has] of widths) expect(needed).toBeLessThanOrEqual(has);
      await page.close();
    }
  });

  test("code and drawings fit into a phone's window; what is edited is as high as the code that wraps", async () => {
    for (const name of [MICRO, CHAPTER]) {
      const page = await open(`book/${name}.html`, { width: 375 });
      await expectFits(page);
      const formulas = page.locator(".formula").filter({ hasText: "over the agent's words" });
      expect(await formulas.count()).toBe(name === MICRO ? 1 : 0);
      for (const formula of await formulas.all())
        expect(await formula.evaluate((own) => own.scrollWidth <= own.clientWidth)).toBe(true);
      const cell = page.locator(".cell").last();
      const { height } = (await cell.locator("pre.code").boundingBox())!;
      await press(cell, "Edit");
      const area = cell.locator("textarea");
      const isWhole = (): Promise<boolean> =>
        area.evaluate((own) => own.scrollHeight <= own.clientHeight && own.scrollWidth <= own.clientWidth);
      expect(await isWhole()).toBe(true);
      expect(Math.abs((await area.boundingBox())!.height - height)).toBeLessThan(60);
      await page.setViewportSize({ width: 330, height: 900 });
      await expect.poll(isWhole).toBe(true);
      await page.close();
    }
  });

  test("an edit changes the output, by keyboard alone; Reset takes it back", { timeout: PATIENCE }, async () => {
    const page = await chapter();
    const cell = page.locator(".cell").first();
    const code = await cell.locator("pre.code").innerText();
    const before = await cell.locator(".output pre").innerText();
    await cell.getByRole("button", { name: "Edit" }).focus();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Control+End");
    await page.keyboard.insertText('\nconst added: number = 6;\nconsole.log("edited", [added * 7]);');
    await page.keyboard.press("Control+Enter");
    expect(await ended(cell)).toContain("the code was edited");
    await expect.poll(() => cell.locator(".output pre").innerText()).toContain("edited [ 42 ]");
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Run");

    await press(cell, "Reset");
    expect(await cell.locator("textarea").count()).toBe(0);
    expect(await cell.locator("pre.code").innerText()).toBe(code);
    expect(await cell.locator(".output pre").innerText()).toBe(before);
    await page.close();
  });

  test(
    "a figure is drawn from what its cell printed just now, and Reset takes it back",
    { timeout: PATIENCE },
    async () => {
      const page = await chapter();
      const row = page.locator(".row", { has: page.locator("[data-figure]") });
      const cell = row.locator(".cell");
      const marks = row.locator("figure circle");
      const before = await row.locator("figure svg").innerHTML();
      expect(await marks.count()).toBe(14);

      await replace(cell, 'console.log("1e-1 4e-3 1e-4 1e-4 2e-15\\n1e-3 4e-5 1e-8 1e-8 2e-13");');
      await press(cell, "Run");
      await ended(cell);
      expect(await marks.count()).toBe(4);

      await replace(cell, 'console.log("none");');
      await press(cell, "Run");
      await ended(cell);
      expect(await row.locator("figure .drawing").innerText()).toBe("What was printed has nothing to draw.");

      await press(cell, "Reset");
      expect(await row.locator("figure svg").innerHTML()).toBe(before);
      await page.close();
    },
  );

  test("an endless loop is stopped, with what it printed before", { timeout: PATIENCE }, async () => {
    const page = await chapter();
    const cell = page.locator(".cell").first();
    await replace(cell, 'console.log("before");\nfor (;;);');
    await press(cell, "Run");
    await expect.poll(() => cell.locator(".output pre").textContent(), { timeout: PATIENCE }).toBe("before\n");
    await press(cell, "Stop");
    expect(await ended(cell)).toBe("Stopped.");

    await replace(cell, 'for (let i = 0; ; i++) console.log("line", i);');
    await press(cell, "Run");
    expect(await ended(cell)).toBe("Ended by an error.");
    expect(await cell.locator(".problem").innerText()).toContain("the program was ended after 10000 lines of output");
    await page.close();
  });

  test.each([
    ["thrown", "type A = number;\nconst a: A = 1;\nthrow new RangeError(`a is ${a}`);", "Line 3: RangeError: a is 1"],
    ["of syntax", "const a = 1;\nconst = 2;", "Line 2: SyntaxError: Unexpected token"],
    ["of a name that is there twice", "const a = 1;\n\nlet a = 2;", "Line 3: SyntaxError: Identifier 'a' has already"],
    ["thrown in a promise", "const no = async () => {\n  null!.x;\n};\nawait no();", "Line 2: TypeError: Cannot read"],
    [
      "of an import",
      'import { x } from "../rl/absent.ts";\nx();',
      'cannot import "../rl/absent.ts" here: this page has',
    ],
  ])("an error says its line: %s", { timeout: PATIENCE }, async (_, code, expected) => {
    const page = await chapter();
    const cell = page.locator(".cell").first();
    await replace(cell, code);
    await press(cell, "Run");
    expect(await ended(cell)).toBe("Ended by an error.");
    expect(await cell.locator(".problem").innerText()).toContain(expected);
    await page.close();
  });

  test("an error in a cell above is shown there", { timeout: PATIENCE }, async () => {
    const page = await chapter();
    const cells = page.locator(".cell");
    await replace(cells.nth(0), "const early = 1;");
    await replace(cells.nth(1), "\nearly.none.x;");
    await press(cells.nth(2), "Run");
    expect(await ended(cells.nth(2))).toBe("Ended by an error in a cell above.");
    expect(await cells.nth(1).locator(".problem").innerText()).toContain("Line 2: TypeError");
    await page.close();
  });

  test("Break it changes the cells and prints what CI's broken run printed", { timeout: PATIENCE }, async () => {
    const page = await chapter();
    await expectBreaks(page, PATIENCE);
    await page.close();
  });

  test("its exercises refuse the start and accept the solution", { timeout: PATIENCE }, async () => {
    const page = await chapter();
    await expectExercises(page, PATIENCE);
    await page.close();
  });

  test("reads without JavaScript: prose, code, outputs, solutions", async () => {
    const page = await open(`book/${CHAPTER}.html`, { javaScriptEnabled: false });
    expect(await page.locator("h1").innerText()).toMatch(/^1 · /);
    expect(await page.locator(".cell pre.code .hljs-keyword").count()).toBeGreaterThan(5);
    const printed = (await page.locator(".cell .output pre").allTextContents()).join("");
    expect(printed).toBe(readSource(`learn/output/${CHAPTER}.txt`));
    expect(await page.locator("figure svg circle").count()).toBe(14);
    expect(await page.locator(".formula math mfrac").count()).toBeGreaterThan(3);
    await page.close();
  });
});

test("the chapters are linked in order, and the first is learn/00-micro.ts, whole", async () => {
  const page = await open("book/index.html");
  expect(await page.locator(".chapters a").first().getAttribute("href")).toBe(`${MICRO}.html`);
  await page.locator(".chapters a").first().click();
  const shown = (await page.locator(".cell pre.code").allTextContents()).join("\n");
  const code = readSource("learn/00-micro.ts").split("*/\n").slice(1).join("*/\n");
  const lines = code.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("// "));
  expect(lines.slice(0, -1).filter((line) => !shown.includes(line))).toEqual([]);
  await page.locator("a[rel=next]").click();
  expect(await page.locator("h1").innerText()).toMatch(/^1 · /);
  await page.close();
});

test("a page scrolls smoothly, unless its reader wants no motion", async () => {
  const page = await open(`book/${CHAPTER}.html`);
  const scrolls = (): Promise<string> => page.evaluate(() => getComputedStyle(document.documentElement).scrollBehavior);
  expect(await scrolls()).toBe("smooth");
  await page.emulateMedia({ reducedMotion: "reduce" });
  expect(await scrolls()).toBe("auto");
  await page.close();
});

describe("the reference", () => {
  test("finds names, and has signature, text, and the source's lines", async () => {
    const page = await open("api/index.html");
    expect(await page.locator("#begin").innerText()).toMatch(/Start here[^]*trainRl[^]*worldgrad\/engine/);
    await page.getByLabel("Search names and texts").fill("valueAndGrad");
    expect(await page.locator("#begin").isHidden()).toBe(true);
    await expect.poll(() => page.locator("[data-name]:not([hidden])").count()).toBeLessThan(12);
    await page.keyboard.press("Enter");
    await page.waitForURL(/engine-gradients\.html#valueAndGrad$/);
    const entry = page.locator("article", { has: page.locator("#valueAndGrad") });
    expect(await entry.innerText()).toMatch(/function valueAndGrad<[\s\S]*lines \d+ to \d+/);
    const link = entry.locator('a[href^="source/"]');
    const [, file, line] = /source\/(.*)\.html#L(\d+)/.exec((await link.getAttribute("href"))!)!;
    await link.click();
    const shown = (await page.locator(`#L${line}`).textContent())!;
    expect(shown).toBe(readSource(file!).split("\n")[Number(line) - 1]);
    await page.close();
  });

  test("no page of it is high", { timeout: PATIENCE }, async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    const high: string[] = [];
    for (const name of readdirSync(join(folder, "api")).filter((name) => name.endsWith(".html"))) {
      await page.goto(`${address}api/${name}`);
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      if (height > 12_000) high.push(`${name}: ${height} px`);
    }
    await page.close();
    expect(high, "divide them by a heading more in the file of the entry point").toEqual([]);
  });

  test("every link of it, of the book and of the documents leads somewhere", { timeout: PATIENCE }, async () => {
    const docs = readdirSync(join(folder, "docs")).filter((name) => name.endsWith(".html"));
    expect(docs.length).toBeGreaterThan(25);
    // tests/site/reference.test.ts follows the links of all pages of the reference.
    const reference = ["index", "engine", "engine-gradients", "rl"].map((name) => `api/${name}.html`);
    const others = [...reference, `book/${CHAPTER}.html`, "book/index.html"];
    const paths = others.concat(docs.map((name) => `docs/${name}`));
    const page = await browser.newPage();
    const broken: string[] = [];
    const seen = new Map<string, string>();
    for (const path of paths) {
      await page.goto(address + path);
      const links = await page.locator("a[href]").evaluateAll((all) => all.map((a) => (a as HTMLAnchorElement).href));
      for (const link of new Set(links)) {
        const [url, hash] = link.split("#") as [string, string?];
        // The live page and that of the exact gradients are made elsewhere.
        if (!url.startsWith(address) || /^(index|exact)\.html/.test(url.slice(address.length))) continue;
        if (!seen.has(url)) seen.set(url, await (await fetch(url)).text());
        const text = seen.get(url)!;
        if (text === "not found\n" || (hash && !text.includes(`id="${decodeURIComponent(hash)}"`))) broken.push(link);
      }
    }
    await page.close();
    expect(seen.size).toBeGreaterThan(50);
    expect(broken).toEqual([]);
  });
});

// Two of the four looks: no style depends on width and colours at once, and axe takes seconds on a page of code.
const LOOKED_AT = ["index.html", "nn.html", "nn-training.html", "source/index.ts.html"].map((page) => `api/${page}`);
test.each([`book/${CHAPTER}.html`, "book/index.html", ...LOOKED_AT, "docs/index.html", "docs/evidence.html"])(
  "%s has nothing that axe finds, on a wide light and on a narrow dark screen",
  { timeout: PATIENCE },
  async (path) => {
    const page = await open(path);
    const width = (): Promise<number> => page.evaluate(() => document.documentElement.scrollWidth);
    expect(await violations(page), "1400 px, light").toEqual([]);
    expect(await width()).toBeLessThanOrEqual(1400);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 375, height: 900 });
    expect(await violations(page), "375 px, dark").toEqual([]);
    expect(await width()).toBeLessThanOrEqual(375);
    await page.close();
  },
);

test("after all that the consoles are empty, and nothing was asked for elsewhere", () => {
  expect(problems).toEqual([]);
  expect(requests.size).toBeGreaterThan(10);
  expect([...requests].filter((url) => !url.startsWith(address) && !/^(blob|data):/.test(url))).toEqual([]);
});
