/**
 * The doctor on runs that were broken on purpose: each fault is planted in a tiny experiment that really runs, and must be named;
 * the same experiment without a fault must not be. Only what would take too long is planted in the lines of a log.
 */
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { diagnose, type FailureMode } from "../../tools/doctor/diagnose.ts";
import { callsOf, type RunLog, trend } from "../../tools/doctor/run.ts";
import type { MetricsRecord, Transcript } from "../../node/records.ts";
import { createRun, type RunFolder } from "../../node/runFolder.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { moments } from "../../rl/episode/groups.ts";
import type { AdvantageEstimator } from "../../rl/methods/advantages/index.ts";
import { type Fault, faultyRun } from "../support/faultyRuns.ts";
import { programAt } from "../support/programs.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-doctor-"));
let device: Device;
beforeAll(async () => {
  device = await makeDevice("wasm");
});
afterAll(() => {
  device.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const logOf = (run: RunFolder): RunLog => ({
  config: run.config,
  metrics: run.readMetrics(),
  transcripts: run.readTranscripts(),
});
const modesIn = (run: RunLog): FailureMode[] => diagnose(run).findings.map(({ mode }) => mode);

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

interface Case {
  readonly fault: Fault;
  /** The failure modes that must be named, in this order; others may come with them. */
  readonly modes: readonly FailureMode[];
  /** What the evidence of the first must say. */
  readonly says: RegExp;
}

const CASES: Readonly<Record<string, Case>> = {
  "observation tokens marked as actions": {
    fault: {
      tamper: ({ roles }) => roles.forEach((role, t) => (roles[t] = role === "observation" ? "action" : role)),
    },
    modes: ["observationsInPolicyMask"],
    says: /^\d+ of \d+ tokens .*not sampled by the policy.*their role is action.*episode of step 6\d, group \d: “[a-d]”$/,
  },
  "a reward that pays for the letter d wherever it stands": {
    fault: {
      warmStart: 40,
      steps: 32,
      reward: (said, right) => (said.includes("d") ? 3 : said.filter((s, i) => s === right[i]).length / 2),
    },
    modes: ["rewardHacking"],
    says: /^reward 1\.\d+ → 2\.\d+, success 0\.[5-9]\d* → 0\.[0-4].*hold the call “d”.*episode of step \d+, group \d \(reward 3, no success\)/,
  },
  "a reward that grows with length": {
    fault: { warmStart: 40, reward: (said) => said.join("").length / 10, rollout: { maxActionTokens: 12 } },
    modes: ["lengthExplosion"],
    says: /^mean length 4\.\d+ → 10\.\d+ tokens, success 0\.6\d+ → 0 .*did not end by themselves: 2 % → 10 %/,
  },
  "demonstrations of a tool that is gone": {
    fault: { expert: () => "z", answer: (said, next) => (/^[a-d]$/.test(said) ? next : `${said}: command not found`) },
    modes: ["unknownTools"],
    says: /name a tool that does not exist; the most frequent is “z”, \d+ times.*“z” → “z: command not found”/,
  },
  "an expert that says the same whatever it is answered": {
    fault: { turns: 4, expert: () => "a", answer: () => "e" },
    modes: ["repeatedCalls"],
    says: /repeat an earlier call of the episode and get the same answer; the most frequent is “a”.*“a” → “e”; “a” → “e”/,
  },
  "a reward that never varies": {
    fault: { warmStart: 30, reward: () => 0 },
    modes: ["zeroVarianceGroups"],
    says: /^100 % of the groups have no spread of reward, steps 42 to 53.*the reward is the same on every step/,
  },
  "a warm start on one answer for every task": {
    fault: { warmStart: 150, expert: () => "a" },
    modes: ["entropyCollapse", "zeroVarianceGroups"],
    says: /^entropy 0\.0\d+ → 0\.0\d+ nats per sampled token.*groups without spread/,
  },
  "a learning rate a hundred times too high": {
    fault: { lr: 0.3, beta: 1e-3 },
    modes: ["klBlowUp", "entropyBlowUp", "entropyCollapse"],
    says: /^KL to the reference \d.* nats per token; above 0\.5 since step 6\d/,
  },
  "one a good ten times too high": {
    fault: { lr: 0.05, beta: 1e-3 },
    modes: ["klBlowUp", "entropyBlowUp"],
    says: /^KL to the reference \d/,
  },
  "sampled at temperature 1.5, scored at 1": {
    fault: { rollout: { temperature: 1.5 }, tamper: ({ temperatures }) => temperatures.fill(1) },
    modes: ["logProbMismatch"],
    says: /above 0\.001 nats on 24 of 24 steps, first on step 60.*ratios from 0\.0\d+ to \d\.\d+ where all should be 1/,
  },
  "advantages of 0/0": {
    fault: { advantage: withoutEps },
    modes: ["nonFinite"],
    says: /lines hold NaN or infinity, the first that of step 6\d \(rl\): policy_loss, loss, grad_norm.*updates were skipped/,
  },
};

describe("runs that were broken on purpose", () => {
  it.each(Object.entries(CASES))("%s", async (name, { fault, modes, says }) => {
    const { findings } = diagnose(logOf(await faultyRun(device, folder, name.replaceAll("/", " "), fault)));
    const problems = findings.filter(({ kind }) => kind === "problem");
    const found = problems.map(({ mode }) => mode);
    expect(found.filter((mode) => modes.includes(mode))).toEqual(modes);
    const first = problems.find(({ mode }) => mode === modes[0])!;
    expect(first.evidence.join(" ")).toMatch(says);
    expect(Number.isFinite(first.step)).toBe(true);
    expect(problems.every(({ change }) => change.length > 0)).toBe(true);
  });

  it("a loss of zero beside a gradient is explained, and no fault", async () => {
    const { findings } = diagnose(logOf(await faultyRun(device, folder, "zero loss", { warmStart: 40, aggregation: "seq-mean-token-mean" }))); // prettier-ignore
    expect(findings.map(({ mode, kind }) => [mode, kind])).toEqual([["zeroLoss", "harmless"]]);
    expect(findings[0]!.evidence[0]).toMatch(/^mean \|policy loss\| \d\.\de−\d+, mean gradient norm 0\.\d+$/);
  });

  it("replay and several passes are no mismatch of sampler and trainer, and do not hide one", async () => {
    const replayed = { replay: { perStep: 3 }, iterations: 2, steps: 12, lr: 0.02 };
    const healthy = logOf(await faultyRun(device, folder, "replay", replayed));
    // The difference is there: it is what the ratios of old episodes are made of.
    const differences = healthy.metrics.flatMap((line) => (line.phase === "rl" && Number(line["replay/groups"]) > 0 ? [Number(line["sampling/sampling_logp_difference/mean"])] : [])); // prettier-ignore
    expect(Math.max(...differences)).toBeGreaterThan(0.01);
    expect(modesIn(healthy)).not.toContain("logProbMismatch");
    expect(diagnose(healthy).looked.find(({ mode }) => mode === "logProbMismatch")!.at).toMatch(/ \(1 RL steps without episodes of an older policy, 11 have some\)$/); // prettier-ignore
    const { rollout, tamper } = CASES["sampled at temperature 1.5, scored at 1"]!.fault;
    const broken = diagnose(logOf(await faultyRun(device, folder, "replay broken", { ...replayed, rollout: rollout!, tamper: tamper! }))); // prettier-ignore
    const finding = broken.findings.find(({ mode }) => mode === "logProbMismatch")!;
    expect(finding.evidence[0]).toMatch(
      /^mean \|Δ log p\| above 0.001 nats on 1 of 1 steps of fresh episodes, first on step 60;/,
    );
  });

  it("and one that was not: nothing found, with what was looked at", async () => {
    const { findings, looked, notChecked } = diagnose(logOf(await faultyRun(device, folder, "healthy", { warmStart: 30, steps: 40, beta: 1e-3 }))); // prettier-ignore
    expect(findings).toEqual([]);
    expect(notChecked).toEqual([]);
    expect(looked.find(({ mode }) => mode === "rewardHacking")!.at).toMatch(
      /^reward 0\.81\d* → 0\.88\d*, success 0\.69\d* → 0\.78\d* \(40 RL steps\)$/,
    );
  });
});

/** 40 RL steps; each metric a function of the progress from 0 to 1. */
function log(of: Readonly<Record<string, (progress: number) => number>>, more: readonly MetricsRecord[] = []): RunLog {
  const lines = Array.from({ length: 40 }, (_, step): MetricsRecord => {
    const values = Object.entries(of).map(([name, value]) => [name, value(step / 39) + 1e-3 * Math.sin(7 * step)]);
    return { step, phase: "rl", num_tokens: 100, grad_norm: 1, ...Object.fromEntries(values) };
  });
  return { config: {}, metrics: [...lines, ...more], transcripts: [] };
}

describe("faults planted in a log", () => {
  const evaluation = (step: number, success: number): MetricsRecord => ({
    step,
    phase: "eval",
    success,
    episodes: 300,
  });

  it("held-out success that stays behind what was trained on", () => {
    const rising = { reward: (p: number) => 0.3 + 0.5 * p, success: (p: number) => 0.3 + 0.5 * p };
    const found = diagnose(log(rising, [evaluation(0, 0.3), evaluation(40, 0.31)])).findings;
    expect(found.map(({ mode }) => mode)).toEqual(["rewardHacking"]);
    expect(found[0]!.evidence.join()).toContain("held-out success 30 % (step 0) → 31 % (step 40), while training success rose by 38 %"); // prettier-ignore
    expect(modesIn(log(rising, [evaluation(0, 0.3), evaluation(40, 0.6)]))).toEqual([]);
    expect(modesIn(log(rising))).toEqual([]);
  });

  it("a sampler that is ahead of the learner is no mismatch; without a step of fresh episodes none is looked for", () => {
    const stale = (age: number): RunLog => log({ "sampling/sampling_logp_difference/mean": () => 0.1, "async/staleness_max": () => age }); // prettier-ignore
    expect(modesIn(log({ "sampling/sampling_logp_difference/mean": () => 0.1 }))).toEqual(["logProbMismatch"]);
    const { findings, notChecked } = diagnose(stale(2));
    expect(findings).toEqual([]);
    expect(notChecked.find(({ mode }) => mode === "logProbMismatch")!.why).toBe("sampling/sampling_logp_difference/mean on 0 RL steps without episodes of an older policy, 40 have some, 1 is needed"); // prettier-ignore
    const played = stale(2).metrics.map((line) => (line.step === 0 ? { ...line, "async/staleness_max": 0 } : line));
    expect(modesIn({ ...stale(2), metrics: played })).toEqual(["logProbMismatch"]);
  });

  it("steps on which every episode was masked", () => {
    const run = log({}, [{ step: 40, phase: "rl", num_tokens: 5, masked: 48 }]);
    expect(diagnose(run).findings[0]).toMatchObject({ mode: "nonFinite", step: 40 });
  });

  it("a weight in the policy loss on a token whose role is observation", () => {
    const tokens: Transcript["tokens"] = [
      { id: 1, text: "ls", role: "action", turn: 0, oldLogProb: -1, surprise: 1, wPolicy: 0.1 },
      { id: 2, text: "no such file", role: "observation", turn: 0, surprise: 3, wPolicy: 0.1 },
    ];
    const episode: Transcript = { step: 3, phase: "rl", env: "e", family: "f", task: "t", group: 2, reward: 1, success: true, stopReason: "completed", turns: 1, tokens }; // prettier-ignore
    const finding = diagnose({ config: {}, metrics: [], transcripts: [episode] }).findings[0]!;
    expect(finding.mode).toBe("observationsInPolicyMask");
    expect(finding.evidence.join()).toMatch(
      /^1 of 2 tokens.*\(50 %\).*have the role observation,episode of step 3, group 2: “no such file”$/,
    );
  });

  it("a solved run may have flat groups and no entropy left; one that is not may not", () => {
    const end = { frac_reward_zero_std: () => 0.98, entropy: (p: number) => 0.3 - 0.295 * p, reward: (p: number) => p };
    expect(modesIn(log({ ...end, success: (p) => 0.3 + 0.69 * Math.min(1, 2 * p) }))).toEqual([]);
    expect(modesIn(log({ ...end, success: () => 0.3 }))).toEqual(["rewardHacking", "entropyCollapse", "zeroVarianceGroups"]); // prettier-ignore
  });

  it("entropy that rises because long failures weigh more than short successes", () => {
    const rising = { entropy: (p: number) => 0.3 + p, success: () => 0.3 };
    const [finding] = diagnose(log({ ...rising, policy_loss: () => 0.05 })).findings;
    expect(finding!.mode).toBe("entropyBlowUp");
    expect(finding!.evidence.join()).toMatch(/^entropy 0\.3\d* .* on step 0, 1\.2\d* around step 36,policy loss 0\.05\d* on average, above 0 on 40 of 40 steps/); // prettier-ignore
    expect(finding!.change[0]).toMatch(/^aggregate by seq-mean-token-mean/);
    expect(diagnose(log({ ...rising, policy_loss: () => 0 })).findings[0]!.change[0]).toMatch(/^a lower learning rate/);
    expect(modesIn(log({ ...rising, success: (p) => 0.3 + 0.5 * p }))).toEqual([]);
  });

  it("longer completions that achieve more are no explosion", () => {
    const longer = { "completions/mean_length": (p: number) => 20 + 40 * p };
    expect(modesIn(log({ ...longer, success: (p) => 0.2 + 0.6 * p }))).toEqual([]);
    expect(modesIn(log({ ...longer, success: () => 0.2 }))).toEqual(["lengthExplosion"]);
  });
});

describe("what detectors share", () => {
  it("a trend compares the first quarter with the last, in standard errors", () => {
    const points = Array.from({ length: 16 }, (_, step) => ({ step, value: step < 8 ? step % 2 : 4 + (step % 2) }));
    const found = trend(points)!;
    expect(found).toMatchObject({ early: 0.5, late: 4.5, change: 4, since: 12 });
    expect(found.z).toBeCloseTo(4 / Math.sqrt((2 * (1 / 3)) / 4), 10);
    expect(trend(points.slice(1))).toBeNull();
    expect(trend(points.map(({ step }) => ({ step, value: 2 })))).toMatchObject({ change: 0, z: 0 });
  });

  it("calls are read from the tokens, without tags", () => {
    const token = (text: string, role: "action" | "observation" | "scaffold", turn: number): Transcript["tokens"][0] => ({ id: 0, text, role, turn }); // prettier-ignore
    const tokens = [token("l", "action", 0), token("s<|end|>", "action", 0), token("<|obs|>", "scaffold", 0), token("a\n", "observation", 0), token("cat a", "action", 1)]; // prettier-ignore
    expect(callsOf({ tokens })).toEqual([
      { call: "ls", answer: "a" },
      { call: "cat a", answer: "" },
    ]);
  });

  it("no log makes it throw", () => {
    const names = ["reward", "success", "entropy", "kl", "grad_norm", "policy_loss", "frac_reward_zero_std", "completions/mean_length", "reward_std", "episodes", "num_tokens", "sampling/sampling_logp_difference/mean"]; // prettier-ignore
    const line = fc
      .record({
        phase: fc.constantFrom("sft", "rl", "eval"),
        values: fc.dictionary(fc.constantFrom(...names), fc.double()),
      })
      .map(({ phase, values }) => ({ phase, values }) as { phase: "rl"; values: Record<string, number> });
    fc.assert(
      fc.property(fc.array(line, { maxLength: 60 }), (lines) => {
        const metrics = lines.map(({ phase, values }, step): MetricsRecord => ({ ...values, step, phase }));
        const { looked, notChecked } = diagnose({ config: {}, metrics, transcripts: [] });
        expect(looked.length + notChecked.length).toBe(12);
      }),
    );
  });
});

describe("npm run doctor", () => {
  function doctor(...args: string[]): { code: number | null; out: string; err: string } {
    const { status, stdout, stderr } = spawnSync(process.execPath, [programAt("tools/doctor/main.ts"), ...args], { cwd: folder, encoding: "utf8" }); // prettier-ignore
    return { code: status, out: stdout, err: stderr };
  }
  const written = (name: string, run: RunLog): string => {
    const made = createRun(join(folder, name), run.config);
    for (const line of run.metrics) made.appendMetrics(line);
    return name;
  };

  it("exits with 0 and says what it looked at, or with 1 and says what to change", () => {
    const half = (): number => 0.5;
    const names = ["reward", "success", "entropy", "frac_reward_zero_std", "completions/mean_length", "policy_loss"];
    const fine = doctor(written("fine", log(Object.fromEntries(names.map((name) => [name, half])))));
    expect(fine).toMatchObject({ code: 0, err: "" });
    expect(fine.out).toMatch(/Nothing found\.\n\nLooked at:\n[^]*Not checked:\n[^]*KL blow-up: no metric kl/);
    expect(fine.out).not.toContain("\u001b");

    const short = doctor(
      written("short", { config: {}, metrics: [{ step: 0, phase: "sft", loss: 1 }], transcripts: [] }),
    );
    expect(short.code).toBe(0);
    expect(short.out).toContain("Nothing found, but only 1 of 12 things could be looked at.");

    const path = written("flat", log({ reward: () => 0.1, frac_reward_zero_std: () => 0.95 }));
    const flat = doctor(path);
    expect(flat.code).toBe(1);
    expect(flat.out).toMatch(/1\. Zero-variance groups\n {3}- 95 %[^]*What to change:\n {3}→ begin with easier tasks/);
    expect(Math.max(...flat.out.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);

    const json = doctor(path, "--json");
    expect(json.code).toBe(1);
    const { run, findings } = JSON.parse(json.out) as { run: string; findings: { mode: string; step: number }[] };
    expect([run, findings[0]]).toMatchObject(["flat", { mode: "zeroVarianceGroups", step: 20 }]);
  });

  it("exits with 2 and one line when there is nothing to read, or on a wrong flag", () => {
    const path = written("damaged", log({}));
    appendFileSync(join(folder, path, "metrics.jsonl"), "nonsense\n");
    written("empty", { config: {}, metrics: [], transcripts: [] });
    writeFileSync(join(folder, "file"), "");
    for (const [args, message] of [
      [[], "expected one run folder"],
      [["a", "b"], "expected one run folder"],
      [["nowhere"], "no folder nowhere"],
      [["file"], "no folder file"],
      [["empty"], "empty: metrics.jsonl has no complete line yet"],
      [["damaged"], "metrics.jsonl:41"],
      [["--jsn", "empty"], "unknown flag --jsn; did you mean --json?"],
    ] as const) {
      const { code, err, out } = doctor(...args);
      expect(err.trim().split("\n"), args.join(" ")).toHaveLength(1);
      expect(err).toContain(message);
      expect([code, out]).toEqual([2, ""]);
    }
  }, 30_000);
});
