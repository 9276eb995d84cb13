/**
 * A comparison's page in a real browser, opened from the disk: its numbers, a line for each agent, and how each went
 * through the same task, with an agent that has no world loss and one that wrote nothing down. It asks the network for
 * nothing.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ArmOutcome, Outcome } from "../../run/compare/outcome.ts";
import { renderComparison } from "../../run/compare/render.ts";
import { comparisonOf } from "../../run/compare/settings.ts";
import { parseStart } from "../../run/node/commandLine.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import { bundlePage } from "../../run/page/assets.ts";
import type { Evaluation, Transcript, TranscriptToken } from "../../run/records.ts";
import { launchChromium, openPage } from "../support/browser.ts";

const ARMS = "grpo,told=grpo+echo[lambda=0.2],own successes=rft,demonstrations=sft";
const STEPS = [0, 20, 40, 60];
const comparison = comparisonOf("runs/two agents", parseStart(["--arms", ARMS, "--steps", "60"]) as StartOptions);
const WARM = comparison.warm.preset.sft.steps;

const evaluation = (successes: number, losses: Partial<Evaluation>): Evaluation => {
  const families = { lock: { episodes: 100, successes: 0 }, read: { episodes: 200, successes } };
  return { label: "", episodes: 300, successes, ...losses, families };
};

/**
 * Success rises by (arm + 1) points an evaluation; `own successes` has lost its world model, `demonstrations` play
 * nothing.
 */
const arms = comparison.arms.map(({ arm: { label, method, slug } }, m): ArmOutcome => {
  const isBroken = label === "own successes";
  const plays = label !== "demonstrations";
  const curve = STEPS.map((step, i) => {
    const worldLoss = isBroken ? null : 2 - 0.2 * m * i;
    return { step, success: 0.02 + 0.01 * (m + 1) * i, worldLoss, worldLossOnPolicy: worldLoss, worldLossExcess: null };
  });
  const losses = isBroken ? {} : { worldLoss: 2 - 0.6 * m, worldLossOnPolicy: 1, worldLossExcess: 0.75 - 0.25 * m };
  return {
    label,
    method,
    slug,
    sampling: "temperature 1",
    plays,
    after: evaluation(6 + 30 * m, losses),
    curve,
    trainingSuccess: plays ? 0.1 * (m + 1) : null,
    training: plays ? Array.from({ length: 60 }, (_, i) => [i + 1, (m + 1) * (i % 2 ? 0.2 : 0)] as const) : [],
    steps: 60,
  };
});
const outcome: Outcome = {
  env: "home",
  seed: 0,
  episodesPerStep: 64,
  warm: evaluation(6, { worldLoss: 2 }),
  warmSampling: "temperature 1",
  arms,
};

const TASKS = ["What does kafoke.txt say?", "Lock </script><img src=x onerror=window.hacked=1>.log"];

const token = (text: string, role: TranscriptToken["role"], turn: number, surprise = 0): TranscriptToken => {
  return { id: 1, text, role, turn, surprise, logProb: -surprise, entropy: 1 };
};

function transcript(task: string, step: number, answer: string, expected: string, success: boolean): Transcript {
  return {
    step: WARM + step,
    phase: "eval",
    env: "home",
    family: "read",
    task,
    group: 0,
    reward: Number(success),
    success,
    stopReason: "completed",
    turns: 2,
    expected: [expected],
    tokens: [
      token("<|task|>", "prompt", 0),
      token(task, "prompt", 0, 9),
      token("<|end|>", "scaffold", 0),
      token("read kafoke.txt", "action", 0, 0.25),
      token("<|end|>", "action", 0),
      token("<|obs|>", "scaffold", 0),
      ...answer.split(/(?= )/).map((part) => token(part, "observation", 0, 1.5)),
      token("<|end|>", "scaffold", 0),
      token("<|act|>", "scaffold", 0),
      token("done", "action", 1, 0.25),
      token("<|end|>", "action", 1),
    ],
  };
}

const MISSING = "No such file or directory; did you mean kafoke.txt in labomi with bukeki?";
/** Each agent's way; the last wrote nothing down after the warm start, the one before it nothing of the second task. */
const ways = arms.map(({ label }, m) => ({
  label,
  transcripts: STEPS.filter((step) => step === 0 || m < 3).flatMap((step) =>
    TASKS.slice(0, m === 2 ? 1 : 2).map((task) =>
      transcript(task, step, MISSING, m === 1 && step > 0 ? MISSING : "a b", m === 1 && step === 60),
    ),
  ),
}));

let browser: Browser;
let folder = "";
let url = "";
const problems: string[] = [];
const requests = new Set<string>();

beforeAll(async () => {
  browser = await launchChromium();
  folder = mkdtempSync(join(tmpdir(), "worldgrad-comparison-"));
  const assets = await bundlePage("compare");
  writeFileSync(join(folder, "report.html"), renderComparison(comparison, outcome, ways, assets));
  url = pathToFileURL(join(folder, "report.html")).href;
}, 60_000);

afterAll(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

const visit = (width: number, colorScheme: "light" | "dark"): Promise<Page> =>
  openPage(browser, url, { width, colorScheme }, { problems, requests });

const textOf = async (of: Locator): Promise<string> => (await of.innerText()).replace(/\s+/g, " ").trim();

const rowOf = (page: Page, caption: string, name: string): Promise<string> => {
  const table = page.locator("table", { has: page.locator("caption", { hasText: caption }) });
  return textOf(table.locator("tr", { has: page.getByRole("rowheader", { name, exact: true }) }));
};

const wayOf = (page: Page, agent: string): Locator =>
  page.locator(".way", { has: page.getByRole("heading", { name: agent }) });

test("holds the numbers of every agent, the sentence, what to know, and a link to each one's own report", async () => {
  const page = await visit(1280, "light");
  expect(await page.locator("h1").innerText()).toBe("4 agents in home: two agents");
  expect(await page.locator("main > section").first().innerText()).toContain(
    "3,840 episodes took grpo to 2.0 % and told to 12.0 %: +10 points [+6, +14]; told is ahead",
  );
  expect(await rowOf(page, "Held-out tasks, 300", "grpo")).toBe("grpo 2.0 % [1, 4] 10.0 % 2 1 0.7500");
  expect(await rowOf(page, "Held-out tasks, 300", "told")).toBe(
    "told 12.0 % [9, 16] +10.0 [+6, +14] 20.0 % 1.400 1 0.5000",
  );
  // Without a world loss there is none, and not a number that looks like one.
  expect(await rowOf(page, "Held-out tasks, 300", "own successes")).toMatch(/30\.0 % – – –$/);
  expect(await rowOf(page, "Held-out tasks, 300", "demonstrations")).toMatch(/\] – 0\.2000 1 0$/);
  expect(await rowOf(page, "By family", "told")).toBe("told 0 % [0, 4] 18.0 % [13, 24]");
  await page.getByText("What to know first").click();
  expect(await page.locator(".lessons li").count()).toBe(5);
  expect(await page.getByRole("link", { name: "own successes" }).getAttribute("href")).toBe(
    "own-successes/report.html",
  );
});

test("draws a line for each agent that has a world loss, and reads all of them at the cursor", async () => {
  const page = await visit(1280, "dark");
  const plots = page.locator(".plot");
  expect(await page.locator(".card h3").allTextContents()).toEqual([
    "Success on held-out tasks",
    "Success in training",
    "World-model loss",
  ]);
  const ends = (i: number): Promise<string | null> => plots.nth(i).getAttribute("aria-label");
  expect(await ends(0)).toMatch(/grpo 5\.0 %; told 8\.0 %; own successes 11\.0 %; demonstrations 14\.0 %$/);
  expect(await ends(1)).toMatch(/grpo 10\.0 %; told 20\.0 %; own successes 30\.0 %; demonstrations –$/);
  expect(await ends(2)).toMatch(/grpo 2; told 1\.400; own successes –; demonstrations 0\.2000$/);
  const legend = (i: number): Promise<string> => textOf(page.locator(".u-legend").nth(i));
  expect(await legend(0)).toMatch(
    /^RL steps ?:? ?end ?grpo ?:? ?5\.0 % ?told ?:? ?8\.0 % ?own successes ?:? ?11\.0 % ?demonstrations ?:? ?14\.0 %$/,
  );
  // Every line has its own colour on the canvas.
  const colours = await plots.first().evaluate((host) => {
    const line = (i: number): string =>
      getComputedStyle(document.documentElement).getPropertyValue(`--line-${i}`).trim();
    const canvas = host.querySelector("canvas")!;
    const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
    const drawn = new Set<number>();
    for (let i = 0; i < data.length; i += 4)
      if (data[i + 3] === 255) drawn.add((data[i]! << 16) | (data[i + 1]! << 8) | data[i + 2]!);
    return [1, 2, 3, 4].map((i) => drawn.has(Number.parseInt(line(i).slice(1), 16)));
  });
  expect(colours).toEqual([true, true, true, true]);
  await plots.first().focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  expect(await legend(0)).toMatch(/^RL steps ?:? ?40 ?grpo ?:? ?4\.0 %/);
  expect(await legend(2)).toMatch(/^RL steps ?:? ?40 ?grpo ?:? ?2 ?told ?:? ?1\.600 ?own successes ?:? ?–/);
});

test("shows the same task as each agent played it: typed, expected, answered, and its tokens", async () => {
  const page = await visit(1280, "light");
  const boxes = await Promise.all(["grpo", "told"].map((agent) => wayOf(page, agent).boundingBox()));
  expect(boxes[0]!.y).toBe(boxes[1]!.y); // beside each other
  expect(boxes[0]!.x + boxes[0]!.width).toBeLessThanOrEqual(boxes[1]!.x);
  const [grpo, told] = [wayOf(page, "grpo"), wayOf(page, "told")];
  expect(await textOf(grpo.locator("h3"))).toBe("grpo ✘ failed");
  expect(await textOf(told.locator("h3"))).toBe("told ✔ solved");
  expect(await textOf(grpo.locator("dl.expectations"))).toBe(
    `typed read kafoke.txt expected a b answered ${MISSING} ` +
      "the agent gave this less than one chance in a million typed done",
  );
  expect(await grpo.locator("dd.bad code").innerText()).toBe("a b");
  expect(await told.locator("dd.good code").innerText()).toBe(MISSING);
  for (const way of [grpo, told])
    expect((await way.locator(".token.observation").allTextContents()).join("")).toBe(MISSING);
  expect(await textOf(wayOf(page, "demonstrations").locator("h3"))).toBe("demonstrations at RL step 0 ✘ failed");

  await told.locator(".token.observation").first().hover();
  await told.locator(".tip").waitFor({ state: "visible" });
  expect(await textOf(told.locator(".tip"))).toContain("surprise 1.500 nats");
  const background = (): Promise<string> =>
    told
      .locator(".token.observation")
      .first()
      .evaluate((node) => getComputedStyle(node).backgroundColor);
  const seen = new Set([await background()]);
  for (const mode of ["role", "entropy"]) {
    await page.getByRole("radio", { name: mode }).check({ force: true });
    seen.add(await background());
  }
  expect(seen.size).toBe(3);

  // Back to the warm start, which is everybody's.
  await page.getByRole("slider").focus();
  await page.keyboard.press("Home");
  expect(await page.locator("output").innerText()).toBe("0");
  for (const { label } of arms) expect(await textOf(wayOf(page, label).locator("h3"))).toBe(`${label} ✘ failed`);
  await page.getByRole("combobox").selectOption(TASKS[1]!);
  expect((await grpo.locator(".token.prompt").allTextContents()).join("")).toContain(TASKS[1]!);
  expect(await textOf(wayOf(page, "own successes"))).toBe("own successes not written down");
  expect(await page.evaluate(() => "hacked" in window)).toBe(false);
});

test("a world loss that nobody has is no empty chart", async () => {
  const without = arms.map((arm) => ({ ...arm, curve: arm.curve.map((point) => ({ ...point, worldLoss: null })) }));
  const path = join(folder, "without.html");
  const assets = await bundlePage("compare");
  writeFileSync(path, renderComparison(comparison, { ...outcome, arms: without }, [], assets));
  const page = await browser.newPage();
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(pathToFileURL(path).href);
  await page.locator(".uplot").first().waitFor();
  expect(await page.locator(".card h3").allTextContents()).toEqual([
    "Success on held-out tasks",
    "Success in training",
  ]);
  expect(await page.locator("#viewer").innerText()).toBe("No episodes were written down.");
});

test("fits a phone; no page complained or asked for anything but itself", async () => {
  const page = await visit(360, "dark");
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  // A name that is wider than its column runs into nothing.
  const wide = await page
    .locator("th[scope=row]")
    .evaluateAll((heads) => heads.filter((head) => head.scrollWidth > head.clientWidth).length);
  expect(wide).toBe(0);
  // Names are broken between words: as many lines as words at most, and not a letter in each.
  const broken = await page.locator("th[scope=row]").evaluateAll((heads) =>
    heads.flatMap((head) => {
      const range = document.createRange();
      range.selectNodeContents(head);
      const lines = new Set([...range.getClientRects()].map((box) => box.top)).size;
      const name = head.textContent ?? "";
      return lines > name.split(/[ +]/).length ? [`${name}: ${lines} lines`] : [];
    }),
  );
  expect(broken).toEqual([]);
  const boxes = await Promise.all(["grpo", "told"].map((agent) => wayOf(page, agent).boundingBox()));
  expect(boxes[1]!.y).toBeGreaterThanOrEqual(boxes[0]!.y + boxes[0]!.height); // one below the other
  expect(problems).toEqual([]);
  expect([...requests]).toEqual([url]);
});
