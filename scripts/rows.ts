/**
 * Rows of docs/rows.md: methods that are more than a loss, each with the promise of its source and the outcome of a
 * small run. scripts/methodTable.ts makes the head of docs/rows.md and a section of docs/methods.md of them; figures of
 * the runs stand below that head, written by hand, under the heading that the row names.
 */

export interface Row {
  readonly name: string;
  /** How to use it: a flag, a setting or an environment. */
  readonly flag: string;
  readonly source: string;
  readonly promise: string;
  /** Outcome of the run, good or bad. */
  readonly outcome: string;
  /** Heading in docs/rows.md with its command and figures, or why it has none. */
  readonly evidence: { readonly run: string } | { readonly why: string };
}

/** A row with a run: name, flag, source, promise, outcome, and heading of the run. */
const ran = (name: string, flag: string, source: string, promise: string, outcome: string, run: string): Row => ({
  name,
  flag,
  source,
  promise,
  outcome,
  evidence: { run },
});

/** A row without a run, and why. */
const unmeasured = (name: string, flag: string, source: string, promise: string, why: string): Row => ({
  name,
  flag,
  source,
  promise,
  outcome: "not measured",
  evidence: { why },
});

/** All rows, in any order. */
export const ROWS: readonly Row[] = [
  ran(
    "Absolute Zero",
    "--self-play absolute-zero",
    "arXiv 2505.03335",
    "a model that proposes its own tasks, rewarded for learnability, improves on other tasks",
    "no gain over random programs in 40 steps from a weak warm start",
    "Self-play: Absolute Zero",
  ),
  ran(
    "WebRL: failed tasks again, replay",
    "--curriculum failed, --replay 2",
    "arXiv 2411.02337",
    "retrying failed tasks and learning again from earlier successes pay",
    "failed tasks: negative, five seeds: −3.9 points [−6.4, −1.7]; replay: no difference, +0.1 [−2.6, +2.9]",
    "Pages: web",
  ),
  ran(
    "R-Zero",
    "--self-play r-zero",
    "arXiv 2508.05004",
    "a model improves on its own questions, without a judge, by uncertainty and majority votes",
    "negative, three seeds: 27.8 %, generator's questions 29.6 %, warm start 30.4 %; most majorities are wrong",
    "Self-play: R-Zero",
  ),
  ran(
    "WebGUM: pages as text",
    "--env web",
    "arXiv 2305.11854",
    "rewards improve an agent that reads pages as text, clicks, types and selects",
    "works, five seeds: 47.6 % to 73.0 % in 60 steps, with ECHO 73.9 %; ECHO without rewards 30.5 %",
    "Pages: web",
  ),
  ran(
    "Computer use: a screen of cells",
    "--env screen",
    "Anthropic, computer use tool of 2025-01-24",
    "rewards improve an agent that sees a screen and acts by coordinates, text and scrolling",
    "a small gain, three seeds: 46.2 % to 48.7 % in 60 steps of 256 episodes; none in 30 steps of 48, 44.0 %",
    "Screens: cells and bins",
  ),
  ran(
    "OpenVLA: binned coordinates",
    "--env screen --set env.coordinates=bins",
    "arXiv 2406.09246",
    "coordinates in bins are as easy to learn as written numbers",
    "negative, three seeds: bins 29.2 %, cells 46.2 %, from equal demonstrations",
    "Screens: cells and bins",
  ),
  ran(
    "VPT: inverse dynamics",
    "--set sft.labelled=N",
    "arXiv 2206.11795",
    "a model of few labelled episodes labels many others, and imitating these beats imitating the few",
    "works with right labels, three seeds: 200 labelled 54.0 %, and 800 by the model 63.0 %, shuffled 0.3 %",
    "Labels: inverse dynamics",
  ),
  ran(
    "CodeRL's reward",
    "--reward coderl",
    "arXiv 2207.01780",
    "graded failures of programs (−1, −0.6, −0.3, 1) teach more than passing tests alone",
    "no difference, three seeds, weak start: 41.3 %, random grades 39.8 %, tests alone 42.0 %",
    "Programs: code",
  ),
  ran(
    "PPOCoder's reward",
    "--reward ppocoder",
    "arXiv 2301.13816",
    "similarity of syntax and data flow to a reference program speeds up learning to write programs",
    "negative, three seeds, weak start: 36.4 %, random similarity 41.6 %, plain PPO 43.1 %",
    "Programs: code",
  ),
  ran(
    "SWE-RL's reward",
    "--reward swerl",
    "arXiv 2502.18449",
    "similarity of a patch to the true one teaches as much as running the tests",
    "no difference, three seeds: 44.8 %, random similarity 45.8 %, tests alone 44.8 %",
    "Repositories: patch",
  ),
  ran(
    "Judges that vote",
    "--reward judges",
    "arXiv 2401.10020",
    "a majority of judges can replace the verifier",
    "negative, three seeds: vote 68.3 %, vote without verifier 68.5 %, verifier 81.5 %, warm start 71.2 %",
    "Programs: code",
  ),
  ran(
    "DAPO with its data",
    "--method dapo_full",
    "arXiv 2503.14476",
    "refilling groups of equal outcomes and penalising long answers make steps more effective",
    "a small gain on DAPO, three seeds: 83.0 %, DAPO 78.7 %, the refills alone 81.7 %; none on GRPO, 81.5 %",
    "Programs: code",
  ),
  ran(
    "StarPO-S",
    "--method starpo_s",
    "RAGEN, arXiv 2504.20073",
    "training on the quarter of groups with the largest spread is more stable than on all",
    "negative, three seeds: largest spread 76.3 %, a random quarter 74.3 %, all groups 78.2 %",
    "Programs: code",
  ),
  ran(
    "VAPO with value pre-training",
    "--method vapo_full",
    "arXiv 2504.05118",
    "a critic that is pre-trained before the policy does not mislead it at first",
    "negative, three seeds: from 71.2 to 16.3 %, with pre-training 13.0 %; with α = 1 82.5 and 81.0 %",
    "Programs: code",
  ),
  ran(
    "BEACON and subgoals",
    "--method beacon, --set env.subgoals=W",
    "arXiv 2605.06078",
    "credit by milestones within an episode beats one return for the whole episode",
    "no gain, five seeds: BEACON −2.9 points [−8.4, +1.8], subgoals as rewards −3.4 [−6.5, −0.3], GRPO 73.0 %",
    "Pages: web",
  ),
  ran(
    "AgentTuning: general texts",
    "--set sft.general=0.8",
    "arXiv 2310.12823",
    "general texts in the warm start keep what an agent knew, at no cost",
    "negative in part: loss on general texts falls from 13.2 to 0.12 nats, success from 31.7 to 6.7 %",
    "AgentTuning: general texts",
  ),
  ran(
    "Agent-FLAN: plain answers",
    "--set env.negatives=0.5 --set demo.negatives=0.3",
    "arXiv 2403.12881",
    "demonstrations without a tool, or without a need for one, end unwanted calls",
    "works: unwanted calls fall from 98 to 13 % of such tasks, after GRPO from 98 to 2 %",
    "Agent-FLAN: plain answers",
  ),
  ran(
    "ToolRL's reward",
    "--env tools --reward toolrl",
    "arXiv 2504.13958",
    "grades for form, names, parameters and values of calls teach more than 0 or 1 for the whole",
    "no difference in 20 steps, three seeds: 66.3 %, with 0 or 1 as reward 65.0 %",
    "Tools: ToolRL's reward and an outcome model",
  ),
  ran(
    "WebRL's outcome reward model",
    "--reward orm",
    "arXiv 2411.02337",
    "a model trained on verified episodes can replace the verifier",
    "works in part: 62.0 %, verifier 65.0 %, warm start 55.3 %, model of shuffled labels 43.7 %",
    "Tools: ToolRL's reward and an outcome model",
  ),
  ran(
    "CodeRL's critic",
    "--method coderl",
    "arXiv 2207.01780",
    "a critic that predicts outcomes gives credit to the decisive tokens",
    "no gain in ten steps, three seeds: 80.7 %, uniform critic 81.0 %, no critic 82.0 %, shuffled outcomes 80.7 %",
    "Programs: CodeRL's critic",
  ),
  ran(
    "CodeRL: cross-entropy on reference programs",
    "--imitate-expert N",
    "arXiv 2207.01780",
    "imitating reference programs beside RL keeps a policy from forgetting how to write programs",
    "a gain from imitation alone: 47.3 %, GRPO 42.0 %, shuffled references 8.7 %, references without RL 49.3 %",
    "Programs: references beside RL",
  ),
  ran(
    "VPT: decaying KL",
    "--kl 0.2 --set kl.decay=0.9995",
    "arXiv 2206.11795",
    "a KL penalty that decays slowly keeps RL from forgetting what was imitated",
    "no gain from the decay, three seeds: 34.7 %, constant 39.5 %, no penalty 16.7 %, warm start 71.2 %",
    "Kept near: a decaying KL",
  ),
  ran(
    "Hindsight: failures as other goals' successes",
    "--hindsight N",
    "HER, arXiv 1707.01495",
    "an episode that failed its task has solved another task, from which the agent can learn",
    "no gain, five seeds: −1.1 points [−3.5, +1.3] from 73.0 %; with shuffled tasks −48.5 [−55.5, −41.9]",
    "Pages: web",
  ),
  ran(
    "Process reward model",
    "--reward prm",
    "Math-Shepherd, arXiv 2312.08935",
    "rewards of steps, learnt from the success rates of completions of each step, beat one reward at the end",
    "no gain, though it judges steps: 44.3 %, outcome model 44.0 %, verifier 49.7 %, shuffled labels 35.3 %",
    "Tools: a process reward model",
  ),
  ran(
    "WebRL: its loss, variants of failed tasks, filtered replay",
    "--method webrl_full",
    "arXiv 2411.02337",
    "its loss, variants of failed tasks, and replay of successes of middling perplexity help",
    "no gain, three seeds: 63.0 %, its loss alone 62.3 %, its data with GRPO 65.0 %, plain GRPO 65.0 %",
    "Tools: WebRL as a whole",
  ),
  ran(
    "Diverse beam search",
    "generate --beams N --beam-groups G --diversity-penalty X",
    "arXiv 1610.02424",
    "groups of beams that are penalised for repeating each other find more distinct answers",
    "works: one of eight tries solves 32.8 % of tasks with eight groups, 4.7 % with one, 18.8 to 27.3 % by sampling",
    "Diverse beams: stories260K",
  ),
  unmeasured(
    "VPT: μ-law bins of mouse movement",
    "no flag",
    "arXiv 2206.11795",
    "bins that are narrow near 0 let a pointer move both far and precisely",
    "no environment could use it: a click in `screen` names one of 12 by 5 cells, and no action moves a pointer",
  ),
  unmeasured(
    "Picture patches as tokens",
    "no flag yet",
    "OpenVLA, arXiv 2406.09246",
    "an agent can act on the picture of a screen instead of its text",
    "left out: the screen is a grid of characters, and a picture of it would add nothing",
  ),
];

/** Rows sorted by name. */
export const sortedRows = (): readonly Row[] => ROWS.toSorted((a, b) => (a.name < b.name ? -1 : 1));

/** Fragment of a heading's address, as GitHub makes it. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s-]/gu, "")
    .replaceAll(" ", "-");

const HEAD = `# Methods in a run

Methods of the literature that are more than a loss: the promise of each, and its outcome in a small run of the main job
beside the plain method and, where there is one, a control that could refute it. Negative results stay.
[methods.md](methods.md) has the formulas, [log.md](log.md) the dates and machines. \`npx tsx scripts/methodTable.ts\`
makes the table of \`scripts/rows.ts\`; the sections below it are written by hand.`;

/** docs/rows.md before formatting: the table, and the existing sections. */
export function rowPage(page: string): string {
  const rows = sortedRows().map(({ name, source, promise, outcome, evidence }) => {
    const command = "run" in evidence ? `[${evidence.run}](#${anchorOf(evidence.run)})` : `none: ${evidence.why}`;
    return `| ${[name, source, promise, outcome, command].join(" | ")} |`;
  });
  const table = ["| Method | Source | Promise | Outcome | Command |", "| - | - | - | - | - |", ...rows];
  const start = page.indexOf("\n## ");
  return `${HEAD}\n\n${table.join("\n")}\n${start === -1 ? "" : page.slice(start)}`;
}
