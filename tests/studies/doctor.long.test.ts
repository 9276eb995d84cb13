/**
 * The doctor on runs that were broken on purpose: each fault is planted in a tiny experiment that really runs, and the
 * doctor must name it; of the same experiment without a fault it must say nothing. doctorLogs.test.ts plants in a log
 * what would take too long here.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { diagnose, type FailureMode } from "../../studies/doctor/diagnose.ts";
import type { RunLog } from "../../studies/doctor/run.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { moments } from "../../rl/episode/groups.ts";
import type { AdvantageEstimator } from "../../rl/objective/estimator.ts";
import { type Fault, faultyRun } from "../support/faultyRuns.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-doctor-"));
let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => {
  device.dispose();
  rmSync(folder, { recursive: true, force: true });
});

/** Trains with the fault and reads what the run left. */
async function logOf(name: string, fault: Fault): Promise<RunLog> {
  const run = await faultyRun(device, folder, name, fault);
  return { config: run.config, metrics: run.readMetrics(), transcripts: run.readTranscripts() };
}

/** (R − mean)/std with nothing added to std, as the formula is printed: 0/0 in a group without spread. */
const withoutEps: AdvantageEstimator = {
  name: "grpo without eps",
  estimate: (episodes) => {
    const perToken = episodes.map(({ stream: { roles }, group, reward }) => {
      const rewards = episodes.flatMap((other) => (other.group === group ? [other.reward] : []));
      const { mean, std } = moments(rewards, 1);
      return Float64Array.from(roles, (role) => (role === "action" ? (reward - mean) / std : 0));
    });
    return { perToken, fracRewardZeroStd: 0 };
  },
};

/** The reward itself, and one more for having tried: no baseline at all. */
const withoutBaseline: AdvantageEstimator = {
  name: "reward + 1",
  estimate: (episodes) => ({
    perToken: episodes.map(({ stream: { roles }, reward }) =>
      Float64Array.from(roles, (role) => (role === "action" ? reward + 1 : 0)),
    ),
    fracRewardZeroStd: 0,
  }),
};

interface Case {
  readonly fault: Fault;
  /** The failure modes that must be named, in this order; others may come with them. */
  readonly modes: readonly FailureMode[];
  /** What the evidence of the first must say, in this order. */
  readonly says: readonly RegExp[];
}

const CASES: Readonly<Record<string, Case>> = {
  "observation tokens marked as actions": {
    fault: {
      tamper: ({ roles }) => roles.forEach((role, t) => (roles[t] = role === "observation" ? "action" : role)),
    },
    modes: ["observationsInPolicyMask"],
    says: [
      /^\d+ of \d+ tokens /,
      /not sampled by the policy/,
      /their role is action/,
      /episode of step 6\d, group \d: “[a-d]”$/,
    ],
  },
  "a reward that pays for the letter d wherever it stands": {
    fault: {
      warmStart: 40,
      steps: 32,
      reward: (said, right) => (said.includes("d") ? 3 : said.filter((s, i) => s === right[i]).length / 2),
    },
    modes: ["rewardHacking"],
    says: [
      /^reward 1\.\d+ → 2\.\d+, success 0\.[5-9]\d* → 0\.[0-4]/,
      /hold the call “d”/,
      /episode of step \d+, group \d \(reward 3, no success\)/,
    ],
  },
  "a reward that grows with length": {
    fault: { warmStart: 40, reward: (said) => said.join("").length / 10, rollout: { maxActionTokens: 12 } },
    modes: ["lengthExplosion"],
    says: [/^mean length 4\.\d+ → 10\.\d+ tokens, success 0\.6\d+ → 0 /, /last action was cut off: 2 % → 10 %/],
  },
  "demonstrations of a tool that is gone": {
    fault: { expert: () => "z", answer: (said, next) => (/^[a-d]$/.test(said) ? next : `${said}: command not found`) },
    modes: ["unknownTools"],
    says: [/name a tool that does not exist; the most frequent is “z”, \d+ times/, /“z” → “z: command not found”/],
  },
  "an expert that says the same whatever it is answered": {
    fault: { turns: 4, expert: () => "a", answer: () => "e" },
    modes: ["repeatedCalls"],
    says: [
      /repeat an earlier call of the episode and get the same answer; the most frequent is “a”/,
      /“a” → “e”; “a” → “e”/,
    ],
  },
  "a reward that never varies": {
    fault: { warmStart: 30, reward: () => 0 },
    modes: ["zeroVarianceGroups"],
    says: [/^100 % of the groups have no spread of reward, steps 42 to 53/, /the reward is the same on every step/],
  },
  "a warm start on one answer for every task": {
    fault: { warmStart: 150, expert: () => "a" },
    modes: ["entropyCollapse", "zeroVarianceGroups"],
    says: [/^entropy 0\.0\d+ → 0\.0\d+ nats per sampled token/, /groups without spread/],
  },
  "a learning rate a hundred times too high": {
    fault: { lr: 0.3, beta: 1e-3 },
    modes: ["klBlowUp", "entropyBlowUp", "entropyCollapse"],
    says: [/^KL to the reference \d/, / nats per token; above 0\.5 since step 6\d/],
  },
  "one a good ten times too high": {
    fault: { lr: 0.05, beta: 1e-3 },
    modes: ["klBlowUp", "entropyBlowUp"],
    says: [/^KL to the reference \d/],
  },
  "sampled at temperature 1.5, scored at 1": {
    fault: { rollout: { temperature: 1.5 }, tamper: ({ temperatures }) => temperatures.fill(1) },
    modes: ["logProbMismatch"],
    says: [
      /above 0\.001 nats on 24 of 24 steps, first on step 60/,
      /ratios from 0\.0\d+ to \d\.\d+ where all should be 1/,
    ],
  },
  "advantages without a baseline": {
    fault: { advantage: withoutBaseline, warmStart: 40 },
    modes: ["uncentredAdvantages"],
    says: [/^\d+ of \d+ failed episodes in the transcripts have a positive advantage, 1\.\d+ on average/],
  },
  "advantages of 0/0": {
    fault: { advantage: withoutEps },
    modes: ["nonFinite"],
    says: [
      /lines hold NaN or infinity, the first that of step 6\d \(rl\): policy_loss, loss, grad_norm/,
      /updates were skipped/,
    ],
  },
};

describe("runs that were broken on purpose", () => {
  it.each(Object.entries(CASES))("%s", async (name, { fault, modes, says }) => {
    const { findings } = diagnose(await logOf(name.replaceAll("/", " "), fault));
    const problems = findings.filter(({ kind }) => kind === "problem");
    const found = problems.map(({ mode }) => mode);
    expect(found.filter((mode) => modes.includes(mode))).toEqual(modes);
    const first = problems.find(({ mode }) => mode === modes[0])!;
    expect(first.evidence.join(" ")).toMatch(new RegExp(says.map(({ source }) => source).join(".*")));
    expect(Number.isFinite(first.step)).toBe(true);
    expect(problems.every(({ change }) => change.length > 0)).toBe(true);
  });

  it("a loss of zero beside a gradient is explained, and no fault", async () => {
    const run = await logOf("zero loss", { warmStart: 40, aggregation: "seq-mean-token-mean" });
    const { findings } = diagnose(run);
    expect(findings.map(({ mode, kind }) => [mode, kind])).toEqual([["zeroLoss", "harmless"]]);
    expect(findings[0]!.evidence[0]).toMatch(/^mean \|policy loss\| \d\.\de−\d+, mean gradient norm 0\.\d+$/);
  });

  it("replay and several passes are no mismatch of sampler and trainer, and do not hide one", async () => {
    const replayed = { replay: { perStep: 3 }, iterations: 2, steps: 12, lr: 0.02 };
    const healthy = await logOf("replay", replayed);
    // The difference is there: it is what the ratios of old episodes are made of.
    const differences = healthy.metrics.flatMap((line) =>
      line.phase === "rl" && Number(line["replay/groups"]) > 0
        ? [Number(line["sampling/sampling_logp_difference/mean"])]
        : [],
    );
    expect(Math.max(...differences)).toBeGreaterThan(0.01);
    const { findings, looked } = diagnose(healthy);
    expect(findings.map(({ mode }) => mode)).not.toContain("logProbMismatch");
    expect(looked.find(({ mode }) => mode === "logProbMismatch")!.at).toMatch(
      / \(1 RL steps without episodes of an older policy, 11 have some\)$/,
    );
    const { rollout, tamper } = CASES["sampled at temperature 1.5, scored at 1"]!.fault;
    const broken = await logOf("replay broken", { ...replayed, rollout: rollout!, tamper: tamper! });
    const finding = diagnose(broken).findings.find(({ mode }) => mode === "logProbMismatch")!;
    expect(finding.evidence[0]).toMatch(
      /^mean \|Δ log p\| above 0.001 nats on 1 of 1 steps of fresh episodes, first on step 60;/,
    );
  });

  it("and one that was not: nothing found, with what was looked at", async () => {
    const run = await logOf("healthy", { warmStart: 30, steps: 40, beta: 1e-3 });
    const { findings, looked, notChecked } = diagnose(run);
    expect(findings).toEqual([]);
    // There were no old episodes, and no world model.
    expect(notChecked.map(({ mode }) => mode)).toEqual(["staleSampler", "worldModelOverPolicy"]);
    expect(looked.find(({ mode }) => mode === "rewardHacking")!.at).toMatch(
      /^reward 0\.81\d* → 0\.88\d*, success 0\.69\d* → 0\.78\d* \(40 RL steps\)$/,
    );
  });
});
