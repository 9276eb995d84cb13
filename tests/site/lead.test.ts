/** The text above the run speaks of the world that is chosen and of the agents that learn in it. */
import { expect, it } from "vitest";
import type { Environment } from "../../environments/index.ts";
import { environmentOf, taskOptions } from "../../run/worlds.ts";
import { experimentOf } from "../../site/experiment.ts";
import { EXAMPLE, leadHtml } from "../../site/lead.ts";

const textOf = (address: string): string =>
  leadHtml(experimentOf(new URLSearchParams(address)))
    .replace(/<[^>]+>/g, "")
    .replaceAll("\n", " ");

it("of the page's own experiment", () => {
  expect(textOf("")).toBe(
    "Two small language models learn to use a computer that they do not know. " +
      "To delete a file, say, they must guess its directory and its owner. " +
      "A wrong guess, delete kilabu.csv in kekeri as bereki, earns no reward and is answered " +
      "did you mean kilabu.csv in kebula as ketuku? To predict that is to know what is where. " +
      "plain learns from rewards alone (grpo_token). " +
      "predictor learns from rewards, and to predict these answers (grpo_token+echo).",
  );
});

it("its example is what happens in its world", async () => {
  const { warm } = experimentOf(new URLSearchParams());
  const make = (): Environment => environmentOf(warm).make(taskOptions(warm, "heldout"));
  let [seed, env] = [0, make()];
  while ((await env.reset(seed++)) !== EXAMPLE.task) env = make();
  expect((await env.step(EXAMPLE.wrong)).observation).toBe(`No such file or directory; did you mean ${EXAMPLE.right}?`);
  const right = await env.step(`delete ${EXAMPLE.right}`);
  expect([right.observation, right.done]).toEqual(["", false]);
  expect((await env.step("done")).info["success"]).toBe(true);
});

it("of other worlds, and of answers that give no facts away", () => {
  expect(textOf("env=castle&arms=grpo,sft")).toContain("a castle that they do not know. A wrong command");
  expect(textOf("seed=1")).toContain("a computer that they do not know. A wrong command earns no reward; its answer");
  expect(textOf("env=gridworld&arms=grpo,sft")).toMatch(/to act in the world “gridworld”. grpo learns /);
  expect(textOf("set=train.facts=random")).toMatch(/a computer that they do not know. plain learns /);
  expect(textOf("arms=grpo,told=grpo%2Becho[train.hints=none]")).toMatch(/not know. grpo learns .* told learns /);
});

it("a name from an address is text", () => {
  const html = leadHtml(experimentOf(new URLSearchParams("arms=<b>=grpo,sft")));
  expect(html).toContain('<strong class="first">&lt;b&gt;</strong> learns from rewards alone (<code>grpo</code>).');
  expect(html).toContain('<strong class="second">sft</strong> learns nothing from rewards (<code>sft</code>).');
});
