/** Experiments that are worth a look, each an address: those that work, and those that a doctor can name. */
import type { FailureMode } from "../studies/doctor/diagnose.ts";
import { escapeHtml } from "../run/page/frame.ts";

export interface PagePreset {
  readonly title: string;
  /** A sentence about what it shows. */
  readonly about: string;
  /** The words of the experiment; "": the page's own. */
  readonly address: string;
}

/** An experiment that breaks: the doctor finds the disease in the first agent, and not in its healthy twin. */
export interface BrokenPreset extends PagePreset {
  readonly disease: FailureMode;
}

/** An address, in the order of `addressOf`: flags, agents, options. */
function address(shared: Readonly<Record<string, string>>, arms: string): string {
  const words = Object.entries(shared);
  const flags = words.filter(([key]) => !key.includes("."));
  const options = words.filter(([key]) => key.includes("."));
  const sets = options.map(([key, value]): [string, string] => ["set", `${key}=${value}`]);
  return new URLSearchParams([...flags, ["arms", arms], ...sets]).toString();
}

export const WORKING: readonly PagePreset[] = [
  {
    title: "The main job",
    about: "an unknown home: GRPO against GRPO + ECHO, as npm start has it; after 60 steps they differ",
    address: "",
  },
  {
    title: "Told random facts",
    about:
      "the control: ECHO on answers that cannot be predicted, with the λ that is best for it, 0.2; after 200 steps " +
      "13 %, against 67 %",
    address: address(
      {},
      "grpo+echo=grpo_token+echo[lambda=0.5,rl.lr=1e-3]," +
        "random facts=grpo_token+echo[lambda=0.2,rl.lr=1e-3,train.facts=random]",
    ),
  },
  {
    title: "Own successes",
    about:
      "imitation of what happened to work (RFT), without and with a world model: 17 % and 33 % after 120 steps, " +
      "39 % and 40 % after 200",
    address: address({}, "own successes=rft,own successes+echo=rft+echo[lambda=0.2,rl.lr=1e-3]"),
  },
  {
    title: "Castle",
    about:
      "chests in a second unknown world: 41 % and, with a world model, 49 % after 200 steps; its warm start is made " +
      "here, in a minute or two",
    address: address(
      { env: "castle", "env.families": "open+seal+take+clean", "env.size": "3" },
      "grpo=grpo_token,grpo+echo=grpo_token+echo[lambda=0.2,rl.lr=1e-3]",
    ),
  },
  {
    title: "A quick look",
    about: "every part in a few seconds; nothing is learnt",
    address: "quick=true&steps=6",
  },
];

/** Sums with a calculator, a tiny model and a warm start after which one sum in fourteen is solved. */
const SUMS = {
  env: "calculator",
  quick: "true",
  steps: "40",
  "env.levels": "1",
  "sft.steps": "800",
  "sft.batchSize": "16",
  "sft.warmup": "10",
  "sft.demonstrations": "1600",
  "tokenizer.corpusEpisodes": "200",
  "rl.groups": "6",
  "rl.groupSize": "8",
};

/** What 80 steps make of the second agent of the main job on held-out tasks, without a change. */
const TWIN = "; its twin comes from 1 to 20 %";

/** The second agent of the main job, with a change. */
function changed(label: string, settings: Readonly<Record<string, string>> = {}): string {
  const all = Object.entries({ lambda: "0.5", "rl.lr": "1e-3", ...settings });
  return `${label}=grpo_token+echo[${all.map(([name, value]) => `${name}=${value}`).join(",")}]`;
}

/** The changed agent beside its healthy twin, from the page's own warm start. */
const sick = (label: string, settings: Readonly<Record<string, string>>): string =>
  address({ steps: "80" }, `${changed(label, settings)},${changed("grpo+echo")}`);

export const BROKEN: readonly BrokenPreset[] = [
  {
    title: "Answers in the policy mask",
    about: `the policy loss also trains what the world said, as if the agent had chosen it${TWIN}`,
    address: sick("answers trained", { "rl.trainObservations": "true" }),
    disease: "observationsInPolicyMask",
  },
  {
    title: "A sum where a mean belongs",
    about: `the gradient is hundreds of times its clip, so that ECHO beside it weighs little${TWIN}`,
    address: sick("sum", { aggregation: "token-sum" }),
    disease: "gradientFarAboveClip",
  },
  {
    title: "A reward with a hole",
    about:
      "every answer is paid, right or wrong, so that answers come at once; the twin, paid for right ones, comes " +
      "from 7 to 20 %; sums with a calculator, whose warm start is made here, in a minute",
    address: address(
      SUMS,
      "paid for any answer=grpo_token[rollout.maxTurns=2,train.falsePositives=1,rl.lr=5e-4]," +
        "paid for the right one=grpo_token[rollout.maxTurns=2,rl.lr=5e-4]",
    ),
    disease: "rewardHacking",
  },
  {
    title: "Off-policy without a clip",
    about: `eight passes over each batch, and no ratio is too large: the policy is gone after a few steps${TWIN}`,
    address: sick("no clip", { loss: "importance_sampling", "rl.iterations": "8", "rl.lr": "3e-3" }),
    disease: "offPolicyDrift",
  },
  {
    title: "Entropy collapse",
    about: `sampled nearly greedily: all tries of a task are the same, and there is nothing to compare${TWIN}`,
    address: sick("cold", { temperature: "0.002" }),
    disease: "entropyCollapse",
  },
];

/** The link to an experiment, relative to the page. */
export const linkTo = ({ address: words }: PagePreset): string => (words === "" ? "./" : `?${words}`);

/** The experiments as items of a list, in HTML: links work before the page's script does. */
export const listHtml = (presets: readonly PagePreset[]): string =>
  presets
    .map((preset) => {
      const link = `<a href="${escapeHtml(linkTo(preset))}">${escapeHtml(preset.title)}</a>`;
      return `<li>${link} <span class="muted">${escapeHtml(preset.about)}</span></li>`;
    })
    .join("\n");
