/** The text above the run speaks of the world that is chosen and of the agents that learn in it. */
import { expect, it } from "vitest";
import { experimentOf } from "../../site/experiment.ts";
import { leadHtml } from "../../site/lead.ts";

const textOf = (address: string): string =>
  leadHtml(experimentOf(new URLSearchParams(address)))
    .replace(/<[^>]+>/g, "")
    .replaceAll("\n", " ");

it("of the page's own experiment", () => {
  expect(textOf("")).toBe(
    "Two small language models learn in this page to use a simulated computer that they do not know. " +
      "A wrong command earns nothing, but its answer says what was right: who can predict it, knows it. " +
      "The first, grpo, learns from rewards alone. " +
      "The second, grpo+echo, learns from rewards and by predicting answers.",
  );
});

it("of other worlds, and of answers that give no facts away", () => {
  expect(textOf("env=castle&arms=grpo,sft")).toContain("a castle that they do not know. A wrong command");
  expect(textOf("env=gridworld&arms=grpo,sft")).toMatch(/to act in the world “gridworld”. The first, /);
  expect(textOf("set=train.facts=random")).toMatch(/computer that they do not know. The first, /);
  expect(textOf("arms=grpo,told=grpo%2Becho[train.hints=none]")).toMatch(/not know. The first, .* The second, told, /);
});

it("a name from an address is text", () => {
  const html = leadHtml(experimentOf(new URLSearchParams("arms=<b>=grpo,sft")));
  expect(html).toContain('<strong class="first">The first, &lt;b&gt;,</strong> learns from rewards alone.');
  expect(html).toContain('<strong class="second">The second, sft,</strong> learns nothing from rewards.');
});
