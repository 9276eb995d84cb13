/** What stands above the run: what is trained in the page, in which world, and what each agent learns from. */
import { isBaseline } from "../run/baselines.ts";
import { escapeHtml } from "../run/page/frame.ts";
import type { Preset } from "../run/preset.ts";
import type { PageExperiment } from "./experiment.ts";
import { recordedFor } from "./recorded.ts";

/** The worlds with facts that no task states, and what agents learn there. */
const UNKNOWN: Readonly<Record<string, string>> = {
  home: "to use a computer of made-up names that they do not know",
  castle: "to get about in a castle that they do not know",
};

/** What a wrong command comes to. */
const FAILING = "A wrong command earns nothing; its answer says what was right, and who can predict it, knows it.";
/** The same in the page's own experiment: tests/site/lead.test.ts asks its world. */
export const EXAMPLE = {
  task: "Delete kilabu.csv",
  wrong: "delete kilabu.csv in kekeri as bereki",
  right: "kilabu.csv in kebula as ketuku",
} as const;
const FAILING_HERE =
  `They type <code>${EXAMPLE.wrong}</code> (a file, a directory, its owner), earn nothing, and are answered ` +
  `<code>did you mean ${EXAMPLE.right}?</code> To predict such an answer, one has to know what is where, and whose.`;

/** Whether the world has facts to ask an agent for. */
export const hasFacts = ({ env }: Preset): boolean => Object.hasOwn(UNKNOWN, env);

/** What an agent learns from: in a few words, and as the end of a sentence about it. */
export function teachersOf(method: string): readonly [short: string, sentence: string] {
  if (isBaseline(method)) return ["(no rewards)", "learns nothing from rewards"];
  const addOns = method.split("+").slice(1);
  return addOns.some((name) => name === "echo" || name === "paw")
    ? ["(rewards and answers)", "learns from rewards, and to predict such answers"]
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
    ...(isTold ? [recordedFor(experiment) === undefined ? FAILING : FAILING_HERE] : []),
    ...about,
  ];
  return parts.join("\n");
}
