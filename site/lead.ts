/** What stands above the run: what is trained in the page, in which world, and what each agent learns from. */
import { isBaseline } from "../run/baselines.ts";
import { escapeHtml } from "../run/page/frame.ts";
import type { Preset } from "../run/preset.ts";
import type { PageExperiment } from "./experiment.ts";
import { isOwn } from "./recorded.ts";

/** The worlds with facts that no task states, and what agents learn there. */
const UNKNOWN: Readonly<Record<string, string>> = {
  home: "to use a computer that they do not know",
  castle: "to get about in a castle that they do not know",
};

/** What a wrong command comes to. */
const FAILING = "A wrong command earns no reward; its answer says what was right, and who can predict it, knows it.";
/** The same in the page's own experiment: tests/site/lead.test.ts asks its world. */
export const EXAMPLE = {
  task: "Delete kilabu.csv",
  wrong: "delete kilabu.csv in kekeri as bereki",
  right: "kilabu.csv in kebula as ketuku",
  fact: "kilabu.csv is in kebula",
} as const;
const FAILING_HERE =
  "To delete a file, say, they must guess its directory and its owner. A wrong guess, " +
  `<code>${EXAMPLE.wrong}</code>, earns no reward and is answered ` +
  `<code>did you mean ${EXAMPLE.right}?</code> To predict that is to know what is where.`;

/** Whether the world has facts to ask an agent for. */
export const hasFacts = ({ env }: Preset): boolean => Object.hasOwn(UNKNOWN, env);

/** What an agent learns from: in a few words, and as the end of a sentence about it. */
export function teachersOf(method: string): readonly [short: string, sentence: string] {
  if (isBaseline(method)) return ["(no rewards)", "learns nothing from rewards"];
  const addOns = method.split("+").slice(1);
  return addOns.some((name) => name === "echo" || name === "paw")
    ? ["(rewards and answers)", "learns from rewards, and to predict these answers"]
    : ["(rewards alone)", "learns from rewards alone"];
}

/** The text, as HTML: of the page's own experiment it is there before any script. */
export function leadHtml(experiment: PageExperiment): string {
  const { warm, agents } = experiment;
  const what = UNKNOWN[warm.env] ?? `to act in the world “${warm.env}”`;
  // Training may be told random facts, or none.
  const isTold =
    hasFacts(warm) && agents.every(({ preset: { trainTasks: own } }) => !own?.["facts"] && !own?.["hints"]);
  const about = agents.map(({ arm, preset }, i) => {
    const name = `<strong class="${i === 0 ? "first" : "second"}">${escapeHtml(arm.label)}</strong>`;
    return `${name} ${teachersOf(preset.rl.method)[1]} (<code>${escapeHtml(preset.rl.method)}</code>).`;
  });
  const parts = [
    `Two small language models learn ${escapeHtml(what)}.`,
    ...(isTold ? [isOwn(experiment) ? FAILING_HERE : FAILING] : []),
    ...about,
  ];
  return parts.join("\n");
}
