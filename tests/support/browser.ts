/**
 * Pages of this project, opened from the disk in a real Chromium (vitest.config.ts finds it), and what they said and
 * asked for.
 */
import { type Browser, chromium, type Page } from "playwright-core";

export interface Watched {
  /** Lines of the console, and errors. */
  readonly problems: string[];
  /** Addresses, each once. */
  readonly requests: Set<string>;
}

/** @param args more words of its command line @throws without a Chromium */
export function launchChromium(args: readonly string[] = []): Promise<Browser> {
  const executablePath = process.env["WORLDGRAD_CHROMIUM"];
  if (executablePath === undefined) throw new Error("no Chromium found: set WORLDGRAD_CHROMIUM to one");
  return chromium.launch({ executablePath, args: ["--no-sandbox", ...args] });
}

/** Opens a page with charts and waits for the first; what happens in it is added to `watched`. */
export async function openPage(
  browser: Browser,
  url: string,
  { width, colorScheme }: { readonly width: number; readonly colorScheme: "light" | "dark" },
  { problems, requests }: Watched,
): Promise<Page> {
  const page = await browser.newPage({ viewport: { width, height: 800 }, colorScheme });
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => requests.add(request.url()));
  await page.goto(url);
  await page.locator(".uplot").first().waitFor();
  return page;
}
