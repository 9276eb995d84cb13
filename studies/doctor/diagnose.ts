/**
 * The failure modes of reinforcement learning on language agents that a run's logs can show, and which of them a run
 * has. A diagnosis looks at symptoms: it says what is likely and cannot prove that all is well.
 */
import { repeatedCalls, unknownTools } from "./calls.ts";
import {
  gradientFarAboveClip,
  logProbMismatch,
  nonFinite,
  observationsInPolicyMask,
  SCALE_STEPS,
  zeroLoss,
} from "./numerics.ts";
import { lengthExplosion, rewardHacking, worldModelOverPolicy, zeroVarianceGroups } from "./outcomes.ts";
import { cutOffEpisodes, failingEnvironment, failingReward, unscoredEpisodes } from "./episodes.ts";
import { entropyBlowUp, entropyCollapse, klBlowUp, offPolicyDrift } from "./policy.ts";
import { arrow, type Detector, type Finding, isFresh, MIN_STEPS, type RunLog, series, trend } from "./run.ts";
import { staleSampler, uncentredAdvantages } from "./updates.ts";

export type FailureMode =
  | "failingEnvironment"
  | "failingReward"
  | "unscoredEpisodes"
  | "nonFinite"
  | "observationsInPolicyMask"
  | "logProbMismatch"
  | "gradientFarAboveClip"
  | "offPolicyDrift"
  | "staleSampler"
  | "uncentredAdvantages"
  | "cutOffEpisodes"
  | "rewardHacking"
  | "worldModelOverPolicy"
  | "zeroVarianceGroups"
  | "entropyCollapse"
  | "entropyBlowUp"
  | "klBlowUp"
  | "lengthExplosion"
  | "unknownTools"
  | "repeatedCalls"
  | "zeroLoss";

interface Entry {
  readonly title: string;
  readonly detect: Detector;
  /** The data that the detector needs: metrics of the RL lines, or the transcripts, or all lines. */
  readonly reads: readonly string[] | typeof TRANSCRIPTS | typeof ALL_LINES;
  /** Number of RL steps that must have each metric; default `MIN_STEPS`. */
  readonly steps?: number;
  /** Whether only steps count whose episodes come from the current policy. */
  readonly fresh?: true;
}
const TRANSCRIPTS = "transcripts";
const ALL_LINES = "all lines";

/** Causes come before their consequences: the first in a report should be repaired first. */
export const DETECTORS: Readonly<Record<FailureMode, Entry>> = {
  failingEnvironment: { title: "A failing environment", detect: failingEnvironment, reads: ["masked"], steps: 1 },
  // The metric is there only where a reward can fail.
  failingReward: { title: "Rewards that fail", detect: failingReward, reads: ALL_LINES },
  unscoredEpisodes: { title: "Episodes without a score", detect: unscoredEpisodes, reads: ["unscored"], steps: 1 },
  nonFinite: { title: "NaN, or skipped steps", detect: nonFinite, reads: ALL_LINES },
  observationsInPolicyMask: {
    title: "Observation tokens in the policy mask",
    detect: observationsInPolicyMask,
    reads: TRANSCRIPTS,
  },
  logProbMismatch: {
    title: "Sampler and trainer disagree on log-probabilities",
    detect: logProbMismatch,
    reads: ["sampling/sampling_logp_difference/mean"],
    steps: 1,
    fresh: true,
  },
  gradientFarAboveClip: {
    title: "Wrong normalisation: the gradient is far above its clip",
    detect: gradientFarAboveClip,
    reads: ["grad_norm"],
    steps: SCALE_STEPS,
  },
  offPolicyDrift: {
    title: "Off-policy drift: the passes of a step leave its episodes behind",
    detect: offPolicyDrift,
    // The metric is there only where a step has several passes.
    reads: ALL_LINES,
  },
  staleSampler: {
    title: "The learner has left its sampler",
    detect: staleSampler,
    reads: ["rollout_corr/k3_kl"],
    steps: 4,
  },
  uncentredAdvantages: {
    title: "Advantages that are not centred",
    detect: uncentredAdvantages,
    reads: TRANSCRIPTS,
  },
  unknownTools: { title: "Calls to tools that do not exist", detect: unknownTools, reads: TRANSCRIPTS },
  cutOffEpisodes: {
    title: "Episodes that are cut off",
    detect: cutOffEpisodes,
    reads: ["completions/clipped_ratio"],
    steps: 4,
  },
  rewardHacking: { title: "Reward hacking", detect: rewardHacking, reads: ["reward", "success"] },
  worldModelOverPolicy: {
    title: "The world model learns and the policy forgets",
    detect: worldModelOverPolicy,
    reads: ["world_loss"],
  },
  klBlowUp: { title: "KL blow-up", detect: klBlowUp, reads: ["kl"] },
  entropyBlowUp: { title: "Entropy blow-up", detect: entropyBlowUp, reads: ["entropy"] },
  lengthExplosion: { title: "Length explosion", detect: lengthExplosion, reads: ["completions/mean_length"] },
  entropyCollapse: { title: "Entropy collapse", detect: entropyCollapse, reads: ["entropy"] },
  repeatedCalls: { title: "Repeated calls", detect: repeatedCalls, reads: TRANSCRIPTS },
  zeroVarianceGroups: {
    title: "Zero-variance groups",
    detect: zeroVarianceGroups,
    reads: ["frac_reward_zero_std"],
  },
  zeroLoss: {
    title: "The policy loss is zero although the gradient is not",
    detect: zeroLoss,
    reads: ["policy_loss", "grad_norm"],
    steps: 1,
  },
};

export interface NamedFinding extends Finding {
  readonly mode: FailureMode;
  readonly title: string;
}

export interface Diagnosis {
  readonly findings: readonly NamedFinding[];
  /** Checked modes, and the data that each was checked on. */
  readonly looked: readonly { readonly mode: FailureMode; readonly title: string; readonly at: string }[];
  /** Modes that could not be checked, and why. */
  readonly notChecked: readonly { readonly mode: FailureMode; readonly title: string; readonly why: string }[];
}

/** Runs every detector on one run. Pure. */
export function diagnose(run: RunLog): Diagnosis {
  const modes = (Object.keys(DETECTORS) as FailureMode[]).map((mode) => {
    const entry = DETECTORS[mode];
    return { mode, title: entry.title, entry, ...supply(run, entry) };
  });
  // A finding counts even if there is too little data for an all-clear, for example NaN on the first line.
  const findings = modes.flatMap(({ mode, title, entry }): NamedFinding[] => {
    const finding = entry.detect(run);
    return finding === null ? [] : [{ mode, title, ...finding }];
  });
  const found = new Set(findings.map(({ mode }) => mode));
  return {
    findings,
    looked: modes.flatMap(({ mode, title, at, why }) => (why === "" || found.has(mode) ? [{ mode, title, at }] : [])),
    notChecked: modes.flatMap(({ mode, title, why }) => (why === "" || found.has(mode) ? [] : [{ mode, title, why }])),
  };
}

/** The amount of a detector's data, in words, and `why` it is too little; "" if it is enough. */
function supply(run: RunLog, { reads, steps = MIN_STEPS, fresh }: Entry): { at: string; why: string } {
  if (reads === ALL_LINES) return { at: `${run.metrics.length} lines`, why: "" };
  if (reads === TRANSCRIPTS) {
    const played = run.transcripts.filter(({ phase }) => phase === "rl").length;
    return { at: `${played} transcripts of RL episodes`, why: played > 0 ? "" : "no transcripts of RL episodes" };
  }
  const columns = reads.map((name) => ({ name, points: series(run, name, fresh ? isFresh : undefined) }));
  const least = columns.reduce((a, b) => (b.points.length < a.points.length ? b : a));
  const count = least.points.length;
  const figures = columns.map(({ name, points }) => {
    const change = trend(points);
    return change ? arrow(name, change) : name;
  });
  const older = series(run, least.name).length - count;
  const where = older > 0 ? ` without episodes of an older policy, ${older} have some` : "";
  const why =
    count + older === 0
      ? `no metric ${least.name}`
      : `${least.name} on ${count} RL steps${where}, ${steps} ${steps === 1 ? "is" : "are"} needed`;
  return { at: `${figures.join(", ")} (${count} RL steps${where})`, why: count >= steps ? "" : why };
}
