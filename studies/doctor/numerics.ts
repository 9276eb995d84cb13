/** Detectors of wrong numbers: masks, log-probabilities of sampler and trainer, NaN, and the loss that is 0. */
import { formatNumber } from "../../run/figures/format.ts";
import { isRecord, type Transcript, type TranscriptToken } from "../../run/records.ts";
import { type Finding, isFresh, mean, percent, quote, rlLines, type RunLog, series, setting } from "./run.ts";

/**
 * A token that nobody sampled has old log-probability 0. If its surprise is above this, in nats, that was not
 * certainty.
 */
const SURPRISED = 0.1;
/** Share of trained tokens from which log-probability 0 with surprise is no accident of one large update. */
const UNSAMPLED_SHARE = 0.02;

/**
 * Tokens that the environment or the template wrote are trained as if the policy had chosen them. Either the mask
 * includes them (role and weight disagree), or their role is wrong: they count as actions, but nobody sampled them.
 */
export function observationsInPolicyMask(run: RunLog): Finding | null {
  const seen = run.transcripts.flatMap((episode) => {
    const trained = episode.tokens.filter(({ wPolicy = 0 }) => wPolicy !== 0);
    return trained.length === 0 ? [] : [{ episode, trained, foreign: trained.filter(isForeign) }];
  });
  const trained = seen.reduce((sum, one) => sum + one.trained.length, 0);
  const foreign = seen.flatMap((one) => one.foreign);
  const byRole = foreign.filter(({ role }) => role !== "action" && role !== "thought");
  if (foreign.length === 0 || (byRole.length === 0 && foreign.length < UNSAMPLED_SHARE * trained)) return null;
  const worst = seen.toSorted((a, b) => b.foreign.length - a.foreign.length)[0]!;
  const text = worst.foreign.map((token) => token.text).join("");
  return {
    kind: "problem",
    step: seen.find((one) => one.foreign.length > 0)!.episode.step,
    evidence: [
      `${foreign.length} of ${trained} tokens with a weight in the policy loss ` +
        `(${percent(foreign.length / trained)}) were not sampled by the policy, in ` +
        `${seen.filter((one) => one.foreign.length > 0).length} of ${seen.length} transcripts`,
      byRole.length > 0
        ? `${byRole.length} of them have the role ${[...new Set(byRole.map(({ role }) => role))].join(", ")}`
        : "their role is action, but they have no log-probability from the sampler, and the model did not expect them",
      `${place(worst.episode)}: ${quote(text)}`,
    ],
    change: [
      "build the policy mask from who wrote each token (roles thought and action), never from the text",
      "give what the environment answers the role observation where it is appended to the stream",
      "keep the ids that were sampled: a text that is tokenised again has other tokens at other places",
    ],
  };
}

function isForeign({ role, oldLogProb = 0, surprise = 0 }: TranscriptToken): boolean {
  if (role !== "action" && role !== "thought") return true;
  return oldLogProb === 0 && surprise > SURPRISED;
}

const place = ({ step, group }: Transcript): string => `episode of step ${step}, group ${group}`;

const MISMATCH = "sampling/sampling_logp_difference/mean";
/**
 * Nats per token. Rounding in 32 bits leaves about 1e-6; half-precision samplers 1e-3 to 1e-2, which need a correction.
 */
const MISMATCH_LIMIT = 1e-3;

/**
 * Sampler and trainer give a token different log-probabilities, so ratios are wrong from the first step on. Only fresh
 * episodes count: an older policy has other log-probabilities, and replay and staleness are weighted by that
 * difference.
 */
export function logProbMismatch(run: RunLog): Finding | null {
  const points = series(run, MISMATCH, isFresh);
  const wrong = points.filter(({ value }) => value > MISMATCH_LIMIT);
  if (wrong.length === 0) return null;
  const worst = wrong.reduce((a, b) => (a.value >= b.value ? a : b));
  const line = rlLines(run).find(({ step }) => step === worst.step);
  const ratio = (end: string): string => {
    const value = line?.[`sampling/importance_sampling_ratio/${end}`];
    return typeof value === "number" ? formatNumber(value) : "unknown";
  };
  return {
    kind: "problem",
    step: wrong[0]!.step,
    evidence: [
      `mean |Δ log p| above ${MISMATCH_LIMIT} nats on ${wrong.length} of ${points.length} ` +
        `steps${points.length < series(run, MISMATCH).length ? " of fresh episodes" : ""}, first on step ` +
        `${wrong[0]!.step}; rounding alone is about 1e-6`,
      `worst on step ${worst.step}: mean ${formatNumber(worst.value)}, ratios from ${ratio("min")} to ` +
        `${ratio("max")} where all should be 1`,
    ],
    change: [
      `score with the temperature that sampled${setting(run, "rollout", "temperature")}, and keep top-k and ` +
        "top-p out of the ratio",
      "check that the trainer scores exactly the sampled ids, with the same positions and the same attention mask",
      "if every token that differs is one that the environment wrote, the policy mask is what is wrong",
      "if the two must differ (another precision, an older policy), correct with truncated importance weights " +
        "(TIS) or masking (IcePop)",
    ],
  };
}

/** Losses of an evaluation that are NaN if the environment answered nothing, which is no fault of the numbers. */
const OF_ANSWERS = ["world_loss/on_policy", "world_loss_excess"];

/** A loss, a reward or a gradient is not finite. */
export function nonFinite(run: RunLog): Finding | null {
  const broken = run.metrics.flatMap((line) => {
    const names = Object.entries(line).flatMap(([name, value]) =>
      typeof value === "number" && !Number.isFinite(value) && !OF_ANSWERS.includes(name) ? [name] : [],
    );
    return names.length > 0 ? [{ line, names }] : [];
  });
  const first = broken[0];
  if (first === undefined) return null;
  const names = [...new Set(broken.flatMap((one) => one.names))];
  const skipped = broken.filter((one) => one.names.includes("grad_norm")).length;
  return {
    kind: "problem",
    step: first.line.step,
    evidence: [
      `${broken.length} of ${run.metrics.length} lines hold NaN or infinity, the first that of step ` +
        `${first.line.step} (${first.line.phase}): ${first.names.join(", ")}`,
      `metrics concerned: ${names.join(", ")}`,
      ...(skipped > 0 ? [`${skipped} updates were skipped, because their gradient was not finite`] : []),
    ],
    change: [
      "find the first operation that is not finite, on the step named above: advantages of a group without spread " +
        "(0/0), exp of a masked token, a log of 0",
      `a lower learning rate${setting(run, "rl", "lr")} if loss and gradient grew before`,
    ],
  };
}

/** Ratio of the gradient's norm to its clip above which the clip is no exception: the loss has another scale. */
const FAR_ABOVE = 10;
/** Least number of steps with a gradient. */
export const SCALE_STEPS = 6;

/**
 * The gradient is far above the norm that it is clipped to, on nearly every step: the loss is a sum where a mean is
 * meant, or its weights are not normalised. The clip hides that from the weights, but a term with a scale of its own,
 * such as a world-model loss or a KL penalty, then weighs next to nothing. Healthy runs of the main job stay below the
 * clip.
 */
export function gradientFarAboveClip(run: RunLog): Finding | null {
  const preset = run.config["preset"];
  const rl = isRecord(preset) ? preset["rl"] : undefined;
  const clip = isRecord(rl) ? rl["clipNorm"] : undefined;
  // Without any spread of reward there is no policy gradient, and the step says nothing.
  const flat = new Set(series(run, "frac_reward_zero_std").flatMap(({ step, value }) => (value === 1 ? [step] : [])));
  const norms = series(run, "grad_norm").filter(({ step, value }) => value > SOME_GRADIENT && !flat.has(step));
  if (typeof clip !== "number" || norms.length < SCALE_STEPS) return null;
  const above = norms.filter(({ value }) => value > FAR_ABOVE * clip);
  if (above.length < NEARLY_EVERY * norms.length) return null;
  const typical = norms.map(({ value }) => value).toSorted((a, b) => a - b)[Math.floor(norms.length / 2)]!;
  return {
    kind: "problem",
    step: above[0]!.step,
    evidence: [
      `gradient norm ${formatNumber(typical)} in the median, clipped to ${formatNumber(clip)}: more than ` +
        `${FAR_ABOVE} times as long on ${above.length} of ${norms.length} steps with a policy gradient`,
      "the clip leaves its direction alone, so every other term of the loss has that much less weight",
    ],
    change: [
      `average over tokens or over episodes, as token-mean does${setting(run, "rl", "aggregation")}: a sum ` +
        "grows with the batch",
      "divide by the denominators of the whole step, not by those of a micro-batch",
      "raise the clip only if the loss is a mean already, and see the largest gradients first",
    ],
  };
}

/** Share of steps that counts as nearly all. */
const NEARLY_EVERY = 0.9;

/** A policy loss below this looks like 0. */
const ZERO_LOSS = 1e-3;
const SOME_GRADIENT = 1e-3;

/**
 * No fault, but a frequent question: Σ A = 0 in every group and ρ = 1, so the loss is 0; its gradient Σ A·∇log p is
 * not.
 */
export function zeroLoss(run: RunLog): Finding | null {
  const losses = series(run, "policy_loss").map(({ value }) => Math.abs(value));
  const gradients = series(run, "grad_norm").map(({ value }) => value);
  if (losses.length === 0 || gradients.length === 0) return null;
  const [loss, gradient] = [mean(losses), mean(gradients)];
  // Without any spread of reward the policy's gradient really is 0, and the gradient is the world-model loss's.
  const flat = series(run, "frac_reward_zero_std").map(({ value }) => value);
  if (flat.length > 0 && mean(flat) === 1) return null;
  if (loss > ZERO_LOSS || gradient < SOME_GRADIENT) return null;
  return {
    kind: "harmless",
    step: series(run, "policy_loss")[0]!.step,
    evidence: [
      `mean |policy loss| ${formatNumber(loss)}, mean gradient norm ${formatNumber(gradient)}`,
      "on fresh samples every ratio is 1 and the advantages of a group sum to 0: the value is 0, its gradient is not",
    ],
    change: ["nothing; judge progress by reward and held-out success"],
  };
}
