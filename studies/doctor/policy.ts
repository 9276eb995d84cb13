/** Detectors that read entropy and KL: collapse and blow-up of entropy, blow-up of KL. */
import { formatNumber } from "../../run/figures/format.ts";
import { isRecord } from "../../run/records.ts";
import {
  arrow,
  CLEAR,
  type Finding,
  isSolved,
  mean,
  MIN_STEPS,
  outcome,
  percent,
  type RunLog,
  series,
  setting,
  trend,
} from "./run.ts";

/** Nats per sampled token: 0.02 is about one even choice of two (0.69) in 35 tokens, and the others certain. */
const NO_ENTROPY = 0.02;
/** An entropy below this also counts as a collapse if it is less than `SMALL_PART` of what it was. */
const LOW_ENTROPY = 0.1;
const SMALL_PART = 0.2;

/** The policy explores no more: all tries of a task are the same. In a solved run that is as it should be. */
export function entropyCollapse(run: RunLog): Finding | null {
  const entropy = trend(series(run, "entropy"));
  if (entropy === null || isSolved(run)) return null;
  const { early, late } = entropy;
  if (late > NO_ENTROPY && !(late < LOW_ENTROPY && late < SMALL_PART * early)) return null;
  const flat = trend(series(run, "frac_reward_zero_std"));
  return {
    kind: "problem",
    step: entropy.since,
    evidence: [
      `${arrow("entropy", entropy)} nats per sampled token`,
      ...(flat ? [`groups without spread: ${percent(flat.early)} → ${percent(flat.late)}`] : []),
      ...outcomeLine(run),
    ],
    change: [
      isSampledCold(run)
        ? `sample at temperature 1${setting(run, "rollout", "temperature")}: nearly greedy tries of a task are the same`
        : early <= NO_ENTROPY
          ? "it was low from the start: shorten the warm start, or take a lower learning rate there"
          : `a lower learning rate${setting(run, "rl", "lr")}`,
      `clip-higher${setting(run, "rl", "epsilonHigh")}, or a higher ` +
        `temperature${setting(run, "rollout", "temperature")}: rare tokens keep their chance`,
      "an entropy bonus, or a KL penalty towards the warm start",
    ],
  };
}

/** Below this temperature a lead of one nat decides more than nine draws in ten. */
const COLD = 0.4;

function isSampledCold({ config }: RunLog): boolean {
  const preset = config["preset"];
  const rollout = isRecord(preset) ? preset["rollout"] : undefined;
  const temperature = isRecord(rollout) ? rollout["temperature"] : undefined;
  return typeof temperature === "number" && temperature < COLD;
}

/** The entropy doubled and rose by this many nats; noise between steps is a tenth of that. */
const ENTROPY_FACTOR = 2;
const ENTROPY_RISE = 0.5;

/**
 * The entropy of the policy rises, but its outcome does not. The peak is compared with the very first step: a learning
 * rate that is far too high ruins a policy within a few steps, and later the entropy may have collapsed.
 */
export function entropyBlowUp(run: RunLog): Finding | null {
  const points = series(run, "entropy");
  const first = points[0];
  if (first === undefined || points.length < MIN_STEPS) return null;
  const peak = points
    .slice(0, 1 - PEAK_STEPS)
    .map(({ step }, i) => ({ step, value: mean(points.slice(i, i + PEAK_STEPS).map(({ value }) => value)) }))
    .reduce((a, b) => (a.value >= b.value ? a : b));
  if (peak.value < ENTROPY_FACTOR * first.value || peak.value - first.value < ENTROPY_RISE) return null;
  const achieved = trend(outcome(run).points);
  if (achieved !== null && achieved.z >= CLEAR) return null;
  const line =
    `entropy ${formatNumber(first.value)} nats per sampled token on step ${first.step}, ` +
    `${formatNumber(peak.value)} around step ${peak.step}`;
  return blowUp(run, peak.step, line);
}

/** A peak is a mean over this many steps, so that one unusual batch is none. */
const PEAK_STEPS = 4;

/** Nats per token within one step. Implementations of PPO stop a step's passes at 0.01 to 0.05. */
const DRIFT_LIMIT = 0.2;

/**
 * The passes of a step move the policy far away from the episodes that they learn from: later passes push on with
 * advantages of a policy that is gone, and without a clip nothing holds them back.
 */
export function offPolicyDrift(run: RunLog): Finding | null {
  const points = series(run, "ppo_kl/last");
  const far = points.filter(({ value }) => value > DRIFT_LIMIT);
  if (far.length === 0) return null;
  const worst = far.reduce((a, b) => (a.value >= b.value ? a : b));
  const hasClip = series(run, "clip_ratio/region_mean").length > 0;
  return {
    kind: "problem",
    step: far[0]!.step,
    evidence: [
      `in the last pass of a step the sampled tokens are ${formatNumber(worst.value)} nats less likely than when ` +
        `they were sampled (step ${worst.step}); above ${DRIFT_LIMIT} on ${far.length} of ${points.length} steps, ` +
        `first on step ${far[0]!.step}`,
      hasClip ? "the loss has a clip" : "the loss has no clip: no ratio is too large for it",
      ...outcomeLine(run),
    ],
    change: [
      ...(hasClip ? [] : [`a loss with a clip, as PPO's${setting(run, "rl", "loss")}`]),
      `fewer passes over each batch${setting(run, "rl", "iterations")}`,
      `a lower learning rate${setting(run, "rl", "lr")}`,
    ],
  };
}

/** Nats per token. Healthy runs stay below 0.1; at 1 a sampled token is e times as likely as for the reference. */
const KL_LIMIT = 0.5;

/** The policy has moved too far from its reference. */
export function klBlowUp(run: RunLog): Finding | null {
  const points = series(run, "kl");
  const kl = trend(points);
  if (kl === null || kl.late < KL_LIMIT) return null;
  const crossed = points.find(({ value }) => value >= KL_LIMIT)!;
  return blowUp(
    run,
    crossed.step,
    `${arrow("KL to the reference", kl)} nats per token; above ${KL_LIMIT} since step ${crossed.step}`,
  );
}

function blowUp(run: RunLog, step: number, line: string): Finding {
  const gradient = trend(series(run, "grad_norm"));
  const push = pushedDown(run);
  return {
    kind: "problem",
    step,
    evidence: [
      line,
      ...(push === null ? [] : [push]),
      ...(gradient ? [arrow("gradient norm", gradient)] : []),
      ...outcomeLine(run),
    ],
    change: [
      ...(push === null
        ? []
        : [
            `aggregate by seq-mean-token-mean${setting(run, "rl", "aggregation")}: then an episode weighs the ` +
              "same however long it is",
          ]),
      `a lower learning rate${setting(run, "rl", "lr")}, a tenth first; with a warm-up${setting(run, "rl", "warmup")}`,
      `clip the gradient's norm harder${setting(run, "rl", "clipNorm")}`,
      `a smaller weight of the world-model loss${setting(run, "rl", "lambda")}: where its gradient is larger ` +
        "than the policy's, it spoils the policy",
      "a larger coefficient of the KL penalty",
    ],
  };
}

/**
 * On-policy the loss is −(mean advantage over tokens). If it is above this, and above 0 on nearly every step, it is no
 * chance.
 */
const PUSH = 0.01;
const NEARLY_EVERY = 0.9;

/**
 * The evidence that failures are longer than successes, so that more tokens are made less likely than more likely; null
 * if there is none.
 */
function pushedDown(run: RunLog): string | null {
  const losses = series(run, "policy_loss").map(({ value }) => value);
  const above = losses.filter((loss) => loss > 0).length;
  if (losses.length < MIN_STEPS || mean(losses) < PUSH || above < NEARLY_EVERY * losses.length) return null;
  return (
    `policy loss ${formatNumber(mean(losses))} on average, above 0 on ${above} of ${losses.length} steps: ` +
    "failures have more tokens than successes, so more is made less likely than more likely"
  );
}

function outcomeLine(run: RunLog): string[] {
  const { name, points } = outcome(run);
  const result = trend(points);
  return result ? [`${name} ${formatNumber(result.early)} → ${formatNumber(result.late)}`] : [];
}
