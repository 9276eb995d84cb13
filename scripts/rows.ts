/**
 * The rows of docs/rows.md: methods that are more than a loss, each with what its source promises and what it did in a
 * small run of ours. scripts/methodTable.ts makes the head of docs/rows.md of them, and a section of docs/methods.md;
 * what a run measured stands below that head by hand, under the heading that the row names.
 */

export interface Row {
  readonly name: string;
  /** What reaches it: a flag, a setting or an environment. */
  readonly flag: string;
  readonly source: string;
  readonly promise: string;
  /** What came out, good or bad. */
  readonly outcome: string;
  /** The heading in docs/rows.md under which its command and figures stand, or why it has none. */
  readonly evidence: { readonly run: string } | { readonly why: string };
}

/** A row: its name, what reaches it, its source, its promise, what came out, and the heading of its run. */
const ran = (name: string, flag: string, source: string, promise: string, outcome: string, run: string): Row => ({
  name,
  flag,
  source,
  promise,
  outcome,
  evidence: { run },
});

/** A row that no run has measured, and why. */
const unmeasured = (name: string, flag: string, source: string, promise: string, why: string): Row => ({
  name,
  flag,
  source,
  promise,
  outcome: "not measured",
  evidence: { why },
});

/** All rows; one line each. Their order here is free. */
export const ROWS: readonly Row[] = [
  ran(
    "Absolute Zero",
    "--self-play absolute-zero",
    "arXiv 2505.03335",
    "a model that proposes its own tasks, paid for learnability, gets better at others",
    "nothing in 40 steps from a weak warm start: no gain over random programs",
    "Self-play: Absolute Zero",
  ),
  ran(
    "WebRL: failed tasks again, replay",
    "--curriculum failed, --replay 2",
    "arXiv 2411.02337",
    "tasks that were failed are worth trying again, and earlier successes worth learning from again",
    "nothing to be seen, three seeds: 28.5 % and 29.5 %, plain GRPO 29.3 %",
    "Pages: web",
  ),
  ran(
    "R-Zero",
    "--self-play r-zero",
    "arXiv 2508.05004",
    "the same without any judge, by uncertainty and majority",
    "negative, three seeds: 27.8 %, the generator's questions 29.6 %, warm start 30.4 %: most majorities are wrong",
    "Self-play: R-Zero",
  ),
  ran(
    "WebGUM: pages as text",
    "--env web",
    "arXiv 2305.11854",
    "an agent that clicks, types and selects on pages that it reads as text gets better by rewards",
    "negative, three seeds: 29.5 % to 29.3 % in 30 steps, with ECHO 26.7 %, ECHO alone 21.8 %",
    "Pages: web",
  ),
  ran(
    "Computer use: a screen of cells",
    "--env screen",
    "Anthropic, computer use tool of 2025-01-24",
    "an agent that sees a screen and acts by coordinates, text and scrolling gets better by rewards",
    "a small gain, three seeds: 46.2 % to 48.7 % in 60 steps of 256 episodes; in 30 steps of 48, 44.0 %: none",
    "Screens: cells and bins",
  ),
  ran(
    "OpenVLA: binned coordinates",
    "--env screen --set env.coordinates=bins",
    "arXiv 2406.09246",
    "coordinates as bins are learnt as well as written numbers",
    "negative, three seeds: 29.2 % where cells have 46.2 %, after the same demonstrations",
    "Screens: cells and bins",
  ),
  ran(
    "VPT: inverse dynamics",
    "--set sft.labelled=N",
    "arXiv 2206.11795",
    "few labelled episodes label many others, and imitating these beats imitating the few",
    "works if labels are right, three seeds: 200 labelled 54.0 %, with 800 by the model 63.0 %, shuffled 0.3 %",
    "Labels: inverse dynamics",
  ),
  ran(
    "CodeRL's reward",
    "--reward coderl",
    "arXiv 2207.01780",
    "−1, −0.6, −0.3 and 1 by how a program fails teach more than whether its tests pass",
    "no difference, three seeds, weak start: 41.3 %, drawn by chance 39.8 %, the tests alone 42.0 %",
    "Programs: code",
  ),
  ran(
    "PPOCoder's reward",
    "--reward ppocoder",
    "arXiv 2301.13816",
    "likeness of syntax and data flow to a reference program speeds up learning to write programs",
    "negative, three seeds, weak start: 36.4 %, by chance 41.6 %, plain PPO 43.1 %",
    "Programs: code",
  ),
  ran(
    "SWE-RL's reward",
    "--reward swerl",
    "arXiv 2502.18449",
    "likeness of a patch to the true one teaches what running tests would",
    "nothing to be seen, three seeds: 44.8 %, by chance 45.8 %, the tests alone 44.8 %",
    "Repositories: patch",
  ),
  ran(
    "Judges that vote",
    "--reward judges",
    "arXiv 2401.10020",
    "a majority of judges can stand in for the verifier",
    "negative, three seeds: the vote 68.3 %, without the verifier 68.5 %, that alone 81.5 %, warm start 71.2 %",
    "Programs: code",
  ),
  ran(
    "DAPO with its data",
    "--method dapo_full",
    "arXiv 2503.14476",
    "groups of equal outcomes refilled, and long answers punished, make steps worth more",
    "a small gain on DAPO, three seeds: 83.0 %, DAPO 78.7 %, the refills alone 81.7 %; none on GRPO, 81.5 %",
    "Programs: code",
  ),
  ran(
    "StarPO-S",
    "--method starpo_s",
    "RAGEN, arXiv 2504.20073",
    "training on the quarter of the groups with the largest spread is stabler than on all",
    "negative, three seeds: the quarter of largest spread 76.3 %, a random one 74.3 %, all groups 78.2 %",
    "Programs: code",
  ),
  ran(
    "VAPO with value pre-training",
    "--method vapo_full",
    "arXiv 2504.05118",
    "a critic that was trained before the policy moves does not lead it astray at first",
    "negative, three seeds: 71.2 to 16.3 %, with pre-training 13.0 %; with α = 1 82.5 and 81.0 %",
    "Programs: code",
  ),
  ran(
    "BEACON and subgoals",
    "--method beacon, --set env.subgoals=W",
    "arXiv 2605.06078",
    "credit by milestones within an episode beats one return for all of it",
    "no gain, three seeds: BEACON 28.7 %, subgoals as rewards 29.0 %, GRPO 29.2 %, warm start 29.5 %",
    "Pages: hindsight and milestones",
  ),
  ran(
    "AgentTuning: general texts",
    "--set sft.general=0.8",
    "arXiv 2310.12823",
    "general texts in the warm start keep what an agent knew, and cost it nothing",
    "negative in part: general texts' loss falls from 13.2 to 0.12 nats, the warm start's success from 31.7 to 6.7 %",
    "AgentTuning: general texts",
  ),
  ran(
    "Agent-FLAN: plain answers",
    "--set env.negatives=0.5 --set demo.negatives=0.3",
    "arXiv 2403.12881",
    "demonstrations without a tool, or without a need for one, end calls that nobody wanted",
    "works: unwanted calls in 98 % of such tasks without, 13 % with them, after GRPO 98 and 2 %",
    "Agent-FLAN: plain answers",
  ),
  ran(
    "ToolRL's reward",
    "--env tools --reward toolrl",
    "arXiv 2504.13958",
    "form and calls, graded by names, parameters and values, teach more than whether all is right",
    "no difference in 20 steps, three seeds: 66.3 % against 65.0 % with 0 or 1 as the reward",
    "Tools: ToolRL's reward and an outcome model",
  ),
  ran(
    "WebRL's outcome reward model",
    "--reward orm",
    "arXiv 2411.02337",
    "a model trained on verified episodes can stand in for the verifier",
    "works, for a part of it: 62.0 %, the verifier 65.0 %, the warm start 55.3 %, a model of shuffled labels 43.7 %",
    "Tools: ToolRL's reward and an outcome model",
  ),
  ran(
    "CodeRL's critic",
    "--method coderl",
    "arXiv 2207.01780",
    "a critic that foretells outcomes gives the tokens that decide the credit",
    "no gain in ten steps, three seeds: 80.7 %, a uniform critic 81.0 %, none 82.0 %, shuffled outcomes 80.7 %",
    "Programs: CodeRL's critic",
  ),
  ran(
    "CodeRL: cross-entropy on reference programs",
    "--imitate-expert N",
    "arXiv 2207.01780",
    "imitating reference programs beside RL keeps a policy from forgetting how to write programs",
    "gain of imitation alone: 47.3 %, GRPO 42.0 %, shuffled references 8.7 %, the references without RL 49.3 %",
    "Programs: references beside RL",
  ),
  ran(
    "VPT: decaying KL",
    "--kl 0.2 --set kl.decay=0.9995",
    "arXiv 2206.11795",
    "a penalty that lets go slowly keeps RL from forgetting what was imitated",
    "a penalty keeps, its decay gains nothing, three seeds: 34.7 %, constant 39.5 %, none 16.7 %, warm start 71.2 %",
    "Kept near: a decaying KL",
  ),
  ran(
    "Hindsight: failures as other goals' successes",
    "--hindsight N",
    "HER, arXiv 1707.01495",
    "an episode that failed its task has solved another one, from which the agent can learn",
    "no gain, three seeds: 28.7 %, GRPO 29.2 %, other episodes' tasks 22.3 %; at weight 1 27.7 and 12.3 %",
    "Pages: hindsight and milestones",
  ),
  ran(
    "Process reward model",
    "--reward prm",
    "Math-Shepherd, arXiv 2312.08935",
    "rewards for steps, learnt from how often completions from each of them succeed, beat one reward at the end",
    "no gain, though it judges steps: 44.3 %, an outcome model 44.0 %, the verifier 49.7 %, shuffled labels 35.3 %",
    "Tools: a process reward model",
  ),
  ran(
    "WebRL: its loss, variants of failed tasks, filtered replay",
    "--method webrl_full",
    "arXiv 2411.02337",
    "regression to the reference, variants of failed tasks, and replay of successes of middling perplexity help",
    "no gain, three seeds: 63.0 %, its loss alone 62.3 %, its data with GRPO 65.0 %, plain GRPO 65.0 %",
    "Tools: WebRL as a whole",
  ),
  ran(
    "Diverse beam search",
    "generate --beams N --beam-groups G --diversity-penalty X",
    "arXiv 1610.02424",
    "groups of beams that are penalised for repeating each other find more different answers",
    "works: of eight tries one solves a task in 32.8 % with eight groups, 4.7 % with one, 18.8 to 27.3 % when sampled",
    "Diverse beams: stories260K",
  ),
  unmeasured(
    "VPT: μ-law bins of mouse movement",
    "no flag",
    "arXiv 2206.11795",
    "bins that are narrow near 0 let a pointer move far and precisely",
    "nothing could use it: a click of screen names a cell of 12 by 5, and nothing moves a pointer by distances",
  ),
  unmeasured(
    "Picture patches as tokens",
    "no flag yet",
    "OpenVLA, arXiv 2406.09246",
    "an agent can act on the picture of a screen in place of its text",
    "it is left out: the screen is a grid of characters, and a picture of it would say nothing more",
  ),
];

/** The rows in the order of their names. */
export const sortedRows = (): readonly Row[] => ROWS.toSorted((a, b) => (a.name < b.name ? -1 : 1));

/** The part of a page's address after `#` that leads to a heading, as GitHub makes it. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s-]/gu, "")
    .replaceAll(" ", "-");

const HEAD = `# What each row of the methods did in a run

Methods of the literature that are more than a loss: what each promises, and what it did in a small run of the main job
against the plain method and, where there is one, a control that could refute it. Negative results stay.
[methods.md](methods.md) has the formulas, [log.md](log.md) the dates and machines. The table is made by
\`npx tsx scripts/methodTable.ts\` of \`scripts/rows.ts\`; the sections below it are written by hand.`;

/** docs/rows.md before it is formatted: the table, and the sections that were there. */
export function rowPage(page: string): string {
  const rows = sortedRows().map(({ name, source, promise, outcome, evidence }) => {
    const command = "run" in evidence ? `[${evidence.run}](#${anchorOf(evidence.run)})` : `none: ${evidence.why}`;
    return `| ${[name, source, promise, outcome, command].join(" | ")} |`;
  });
  const table = ["| Row | Source | What it promises | What came out | Command |", "| - | - | - | - | - |", ...rows];
  const start = page.indexOf("\n## ");
  return `${HEAD}\n\n${table.join("\n")}\n${start === -1 ? "" : page.slice(start)}`;
}
