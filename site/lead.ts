/** What stands above the run: what is trained in the page, in which world, and what each agent learns from. */
import { isBaseline } from "../run/baselines.ts";
import { escapeHtml } from "../run/page/frame.ts";
import type { Preset } from "../run/preset.ts";
import type { PageExperiment } from "./experiment.ts";

/** The worlds with facts that no task states, and what agents learn there. */
const UNKNOWN: Readonly<Record<string, string>> = {
  home: "to use a simulated computer that they do not know",
  castle: "to get about in a castle that they do not know",
};

/** Whether the world has facts to ask an agent for. */
export const hasFacts = ({ env }: Preset): boolean => Object.hasOwn(UNKNOWN, env);

/** What an agent learns from: in a few words, and as the end of a sentence about it. */
export function teachersOf(method: string): readonly [short: string, sentence: string] {
  if (isBaseline(method)) return ["(no rewards)", "learns nothing from rewards"];
  const addOns = method.split("+").slice(1);
  return addOns.some((name) => name === "echo" || name === "paw")
    ? ["(rewards and answers)", "learns from rewards and by predicting answers"]
    : ["(rewards alone)", "learns from rewards alone"];
}

/** The text, as HTML: of the page's own experiment it is there before any script. */
export function leadHtml({ warm, agents }: PageExperiment): string {
  const what = UNKNOWN[warm.env] ?? `to act in the world “${warm.env}”`;
  // Training may be told random facts, or none.
  const isTold =
    hasFacts(warm) && agents.every(({ preset: { trainTasks: own } }) => !own?.["facts"] && !own?.["hints"]);
  const about = agents.map(({ arm, preset }, i) => {
    const [kind, which] = i === 0 ? ["first", "The first"] : ["second", "The second"];
    const name = `<strong class="${kind}">${which}, ${escapeHtml(arm.label)},</strong>`;
    return `${name} ${teachersOf(preset.rl.method)[1]}.`;
  });
  const failing = "A wrong command earns nothing, but its answer says what was right: who can predict it, knows it.";
  const parts = [
    `Two small language models learn in this page ${escapeHtml(what)}.`,
    ...(isTold ? [failing] : []),
    ...about,
  ];
  return parts.join("\n");
}
