/**
 * The catalogue of metrics: the name of each (TRL's), its format, the chart that it belongs to on the page, and an
 * explanation of that chart. Terminal and report both read this list. A metric that is not in it is shown under its own
 * name.
 */
import type { NumberFormat } from "./format.ts";
import { visibleLine } from "../visible.ts";

export interface MetricInfo {
  /** A short name for a narrow column. */
  readonly label: string;
  readonly format: NumberFormat;
}

/** The metrics in the order in which the terminal shows them. */
export const METRICS: Readonly<Record<string, MetricInfo>> = {
  reward: { label: "reward", format: "number" },
  success: { label: "success", format: "percent" },
  "eval/success": { label: "held-out", format: "percent" },
  "eval/world_loss": { label: "held-out wm", format: "number" },
  loss: { label: "loss", format: "number" },
  policy_loss: { label: "policy loss", format: "number" },
  world_loss: { label: "world loss", format: "number" },
  return_prediction_loss: { label: "return loss", format: "number" },
  entropy: { label: "entropy", format: "number" },
  kl: { label: "kl", format: "number" },
  grad_norm: { label: "grad norm", format: "number" },
  frac_reward_zero_std: { label: "flat groups", format: "percent" },
  tokens_per_second: { label: "tokens/s", format: "count" },
  "completions/mean_length": { label: "length", format: "number" },
  "num_turns/mean": { label: "turns", format: "number" },
  learning_rate: { label: "lr", format: "number" },
  step_time: { label: "step time", format: "seconds" },
  reward_std: { label: "reward std", format: "number" },
  step_tokens: { label: "tokens", format: "count" },
  "labels/accuracy": { label: "right labels", format: "percent" },
  "labels/episodes": { label: "labelled episodes", format: "count" },
  // These come last: only one step in many has them, and a display that has to choose should show the newest.
  "grad_cosine/world_policy": { label: "world cosine", format: "number" },
  "grad_ratio/world_policy": { label: "world ratio", format: "number" },
  "grad_share/policy": { label: "policy share", format: "percent" },
  "grad_share/world": { label: "world share", format: "percent" },
};

/**
 * Label and format of any metric. A name that is not in the catalogue is foreign text: it is shown on one line, with
 * nothing hidden.
 */
export function metricInfo(name: string): MetricInfo {
  return isKnownMetric(name) ? METRICS[name]! : { label: visibleLine(name), format: "number" };
}
/** Whether the catalogue has the metric; a key of every object, such as `constructor`, is none. */
export const isKnownMetric = (name: string): boolean => Object.hasOwn(METRICS, name);

export interface ChartSeries {
  /** Name of the metric. */
  readonly name: string;
  readonly label: string;
  /** Whether it is taken from the "eval" lines (held-out tasks) instead of the training lines. */
  readonly heldOut?: boolean;
  /** Whether it is set and not measured, so that smoothing would show what never was. */
  readonly isSetting?: boolean;
}

export interface ChartInfo {
  readonly title: string;
  readonly format: NumberFormat;
  readonly series: readonly ChartSeries[];
  /** An explanation of the curve and of the courses that are a warning, in plain words. */
  readonly about: string;
  /**
   * A band around the first series: plus and minus this metric, or the Wilson interval from the evaluations'
   * `episodes`.
   */
  readonly band?: { readonly plusMinus: string } | "wilson";
  /** Whether the first series' value at the end of the warm start is drawn as a dashed line. */
  readonly baseline?: boolean;
  readonly logScale?: boolean;
}

export const CHARTS: readonly ChartInfo[] = [
  {
    title: "Success",
    format: "percent",
    series: [
      { name: "success", label: "held-out tasks", heldOut: true },
      { name: "success", label: "training tasks" },
    ],
    band: "wilson",
    baseline: true,
    about:
      "Share of episodes that the verifier accepts. The dashed line is the success of the warm start. The " +
      "held-out curve counts: its tasks have other seeds and other names and are never trained on. Its band is " +
      "the 95 % Wilson interval; two curves whose bands overlap much are not yet different.",
  },
  {
    title: "Reward",
    format: "number",
    series: [
      { name: "reward", label: "training tasks" },
      { name: "reward", label: "held-out tasks", heldOut: true },
    ],
    band: { plusMinus: "reward_std" },
    about:
      "Mean return of the sampled episodes ± one standard deviation. It is noisy because batches have different " +
      "tasks; look at the smoothed line. On held-out tasks it is the environment's own reward, without what the run " +
      "adds to it. If reward rises but held-out success does not, the policy exploits a " +
      "gap in the verifier.",
  },
  {
    title: "Groups without a signal",
    format: "percent",
    series: [{ name: "frac_reward_zero_std", label: "all rewards equal" }],
    about:
      "Each task is tried several times, and the group's mean is the baseline. A group that only succeeds or " +
      "only fails has advantage 0 everywhere and teaches the policy nothing; near 100 % the tasks are too easy " +
      "or too hard. The world-model loss still learns from such groups.",
  },
  {
    title: "Policy loss",
    format: "number",
    series: [{ name: "policy_loss", label: "policy loss" }],
    about:
      "It stays around 0, as it should. On fresh samples every ratio is exactly 1, so the loss is −mean(A), and " +
      "advantages are centred to sum to 0 in each group. Its gradient is −mean(A·∇log p), which is not 0: judge " +
      "progress by reward and by the gradient norm, never by this number.",
  },
  {
    title: "World-model loss",
    format: "number",
    series: [
      { name: "world_loss", label: "held-out tasks", heldOut: true },
      { name: "world_loss", label: "training rollouts" },
    ],
    about:
      "Mean −log p, in nats, of what the terminal answered: plain next-token prediction on observation tokens, " +
      "from failed episodes too. When it falls, the model predicts better what its commands will do. 0.69 nats " +
      "is a coin flip per token, 0 is certainty.",
  },
  {
    title: "Facts of the world known",
    format: "count",
    series: [{ name: "facts_known", label: "facts", heldOut: true }],
    about:
      "How many facts of its world the model knows: it finds the right name more probable than all others together, " +
      "where a command needs it, in a question that training never asks.",
  },
  {
    title: "Return prediction",
    format: "number",
    series: [{ name: "return_prediction_loss", label: "c · mean of ½(v − R)²" }],
    about:
      "c · mean of ½(v − R)² over the agent's tokens: a head predicts at each of them, as v, the return R that the " +
      "episode will have earned. It falls as the head learns which episodes go well, and jumps when the policy " +
      "begins to earn something else. The advantages do not read v.",
  },
  {
    title: "Loss",
    format: "number",
    series: [{ name: "loss", label: "loss" }],
    about:
      "The loss that is minimised: cross-entropy on the expert's tokens during the warm start, the weighted sum " +
      "of policy loss, world loss and further terms afterwards.",
  },
  {
    title: "Entropy",
    format: "number",
    series: [{ name: "entropy", label: "entropy of actions" }],
    about:
      "The entropy of the policy per sampled token, in nats. It declines slowly as the policy learns. A fall to " +
      "almost 0 is a collapse: all tries of a task become the same, groups have no spread and learning stops.",
  },
  {
    title: "Gradient norm",
    format: "number",
    series: [{ name: "grad_norm", label: "before clipping" }],
    about:
      "Length of the whole gradient before it is clipped. The clip limits single spikes; steady growth, or NaN, " +
      "means that the learning rate is too high or a loss is broken.",
  },
  {
    title: "World and policy: direction",
    format: "number",
    series: [{ name: "grad_cosine/world_policy", label: "cosine" }],
    about:
      "Cosine of the angle between the gradients of the world-model loss and of the policy loss, before they " +
      "are summed, measured at regular intervals. Above 0 predicting helps acting; below 0 each undoes some of " +
      "the other's work; unrelated directions are near 0.",
  },
  {
    title: "World and policy: length",
    format: "number",
    series: [{ name: "grad_ratio/world_policy", label: "‖world‖ / ‖policy‖" }],
    about:
      "Length of the world-model loss's gradient, including its weight, divided by that of the policy loss's. " +
      "Far above 1 a step mostly learns prediction, and clipping leaves little for the policy; near 0 the world " +
      "model has no effect. A run without a world model is measured as if it had ECHO at weight 1.",
  },
  {
    title: "Clip ratio",
    format: "percent",
    series: [
      { name: "clip_ratio/region_mean", label: "both" },
      { name: "clip_ratio/low_mean", label: "low" },
      { name: "clip_ratio/high_mean", label: "high" },
    ],
    about:
      "Share of sampled tokens whose probability has already moved so far in the wanted direction that the clip " +
      "makes their gradient 0. The clip does not limit the size of a step. With one update per batch the ratio " +
      "is 1 and this is exactly 0.",
  },
  {
    title: "Length of completions",
    format: "number",
    series: [
      { name: "completions/mean_length", label: "mean" },
      { name: "completions/min_length", label: "min" },
      { name: "completions/max_length", label: "max" },
      { name: "completions/mean_thought_length", label: "thoughts" },
    ],
    about:
      "Sampled tokens per episode, and how many of them are thoughts. Growth without growth of reward is length " +
      "explosion; a max that sticks to the limit means that episodes are being cut off.",
  },
  {
    title: "Turns",
    format: "number",
    series: [
      { name: "num_turns/mean", label: "held-out tasks", heldOut: true },
      { name: "num_turns/mean", label: "training tasks" },
    ],
    about:
      "Commands per episode. Failures usually run to the limit, so this falls as success rises; after that it " +
      "shows how direct the solutions are.",
  },
  {
    title: "Cut off and failing calls",
    format: "percent",
    series: [
      { name: "completions/clipped_ratio", label: "cut off by the limit" },
      { name: "num_turns/clipped_ratio", label: "out of turns" },
      { name: "context/clipped_ratio", label: "out of context" },
      { name: "tools/failure_frequency", label: "commands that fail" },
    ],
    about:
      "Episodes whose last action has no end, because no token was left; episodes that used all turns; " +
      "episodes that no longer fitted into the model's positions; and commands that were answered with an error. The " +
      "first should go to 0; some of the last is normal exploration.",
  },
  {
    title: "KL to the reference",
    format: "number",
    series: [{ name: "kl", label: "kl" }],
    about:
      "Distance from the frozen reference policy, in nats per token. A sudden rise, before reward falls, is the " +
      "usual first sign that a run goes wrong.",
  },
  {
    title: "Sampler and trainer",
    format: "number",
    logScale: true,
    series: [
      { name: "sampling/sampling_logp_difference/mean", label: "mean |Δ log p|" },
      { name: "sampling/sampling_logp_difference/max", label: "max |Δ log p|" },
    ],
    about:
      "The sampler (one token at a time, from a cache) and the trainer (whole sequences at once) must give a " +
      "token the same log-probability, or every ratio is wrong. Rounding in 32 bits leaves about 10⁻⁶; above " +
      "10⁻³ something is broken.",
  },
  {
    title: "Learning rate",
    format: "number",
    series: [{ name: "learning_rate", label: "learning rate", isSetting: true }],
    about: "As scheduled. Worth a glance when another curve bends at the same step.",
  },
  {
    title: "Tokens per second",
    format: "count",
    series: [{ name: "tokens_per_second", label: "tokens/s" }],
    about: "Throughput, rollouts and update together. The only curve here that depends on the machine.",
  },
];
