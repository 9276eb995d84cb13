/**
 * The doctor on the lines of a log in which a fault is planted, what its detectors have in common, and the command
 * `npm run doctor`. doctor.long.test.ts plants faults in experiments that really run.
 */
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { DETECTORS, diagnose, type FailureMode } from "../../studies/doctor/diagnose.ts";
import { callsOf, type RunLog, trend } from "../../studies/doctor/run.ts";
import type { MetricsRecord, Transcript } from "../../run/records.ts";
import { createRun } from "../../run/node/runFolder.ts";
import { programAt } from "../support/programs.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-doctor-logs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const modesIn = (run: RunLog): FailureMode[] => diagnose(run).findings.map(({ mode }) => mode);

/** 40 RL steps; each metric a function of the progress from 0 to 1. */
function log(of: Readonly<Record<string, (progress: number) => number>>, more: readonly MetricsRecord[] = []): RunLog {
  const lines = Array.from({ length: 40 }, (_, step): MetricsRecord => {
    const values = Object.entries(of).map(([name, value]) => [name, value(step / 39) + 1e-3 * Math.sin(7 * step)]);
    return { step, phase: "rl", step_tokens: 100, grad_norm: 1, ...Object.fromEntries(values) };
  });
  return { config: {}, metrics: [...lines, ...more], transcripts: [] };
}

describe("faults planted in a log", () => {
  const evaluation = (step: number, success: number): MetricsRecord => {
    return { step, phase: "eval", success, episodes: 300 };
  };

  it("held-out success that stays behind what was trained on", () => {
    const rising = { reward: (p: number) => 0.3 + 0.5 * p, success: (p: number) => 0.3 + 0.5 * p };
    const found = diagnose(log(rising, [evaluation(0, 0.3), evaluation(40, 0.31)])).findings;
    expect(found.map(({ mode }) => mode)).toEqual(["rewardHacking"]);
    expect(found[0]!.evidence.join()).toContain(
      "held-out success 30 % (step 0) → 31 % (step 40), while training success rose by 38 %",
    );
    expect(modesIn(log(rising, [evaluation(0, 0.3), evaluation(40, 0.6)]))).toEqual([]);
    expect(modesIn(log(rising))).toEqual([]);
  });

  it("success that falls while answers are predicted better, and neither of the two alone", () => {
    const run = (success: (p: number) => number, world: (p: number) => number): RunLog =>
      log({ success, world_loss: world });
    const falling = (from: number) => (p: number) => from * (1 - 0.9 * p);
    const [finding] = diagnose(run(falling(0.3), falling(2))).findings;
    expect(finding).toMatchObject({ mode: "worldModelOverPolicy", kind: "problem", step: 30 });
    expect(finding!.evidence[0]).toMatch(/^success 0\.26\d* → 0\.06\d* while world loss 1\.7\d* → 0\.4\d* nats/);
    expect(modesIn(run(falling(0.3), () => 2))).toEqual([]);
    expect(modesIn(run(() => 0.3, falling(2)))).toEqual([]);
    expect(modesIn(run((p) => 0.3 * (1 - 0.2 * p), falling(2)))).toEqual([]); // less, but not by so much
    expect(modesIn(run(() => 0, falling(2)))).toEqual([]); // nothing to lose
    expect(modesIn(log({ success: falling(0.3) }))).toEqual([]); // no world model
    expect(modesIn(log({ reward: falling(0.3), world_loss: falling(2) }))).toEqual(["worldModelOverPolicy"]);
    const short = run(falling(0.3), falling(2));
    expect(modesIn({ ...short, metrics: short.metrics.slice(0, 15) })).toEqual([]);
  });

  const AHEAD =
    "a sampler that is ahead of the learner is no mismatch; without a step of fresh episodes none is looked for";
  it(AHEAD, () => {
    const stale = (age: number): RunLog =>
      log({ "sampling/sampling_logp_difference/mean": () => 0.1, "async/staleness_max": () => age });
    expect(modesIn(log({ "sampling/sampling_logp_difference/mean": () => 0.1 }))).toEqual(["logProbMismatch"]);
    const { findings, notChecked } = diagnose(stale(2));
    expect(findings).toEqual([]);
    expect(notChecked.find(({ mode }) => mode === "logProbMismatch")!.why).toBe(
      "sampling/sampling_logp_difference/mean on 0 RL steps without episodes of an older policy, 40 have some, " +
        "1 is needed",
    );
    const played = stale(2).metrics.map((line) => (line.step === 0 ? { ...line, "async/staleness_max": 0 } : line));
    expect(modesIn({ ...stale(2), metrics: played })).toEqual(["logProbMismatch"]);
  });

  it("a gradient far above its clip on nearly every step, but not on some, and not without a known clip", () => {
    const preset = { rl: { clipNorm: 1, aggregation: "token-sum" } };
    const summed = { ...log({ grad_norm: () => 300 }), config: { preset } };
    const [finding] = diagnose(summed).findings;
    expect(finding).toMatchObject({ mode: "gradientFarAboveClip", kind: "problem", step: 0 });
    expect(finding!.evidence[0]).toMatch(
      /^gradient norm 300\.0 in the median, clipped to 1: more than 10 times as long on 40 of 40 steps with/,
    );
    expect(finding!.change[0]).toContain("(rl.aggregation is token-sum)");
    expect(modesIn({ ...log({ grad_norm: (p) => (p < 0.8 ? 300 : 0.5) }), config: { preset } })).toEqual([]);
    expect(modesIn({ ...log({ grad_norm: () => 5 }), config: { preset } })).toEqual([]);
    expect(modesIn(log({ grad_norm: () => 300 }))).toEqual([]);
    const flat = { ...log({ grad_norm: (p) => (p < 0.5 ? 0 : 300) }), config: { preset } };
    expect(modesIn(flat)).toEqual(["gradientFarAboveClip"]);
    // A world model alone has a gradient where no group has any spread.
    const lines = summed.metrics.map((line) =>
      line.step % 2 === 0 ? line : { ...line, grad_norm: 0.3, frac_reward_zero_std: 1 },
    );
    expect(modesIn({ ...summed, metrics: lines })).toContain("gradientFarAboveClip");
  });

  it("passes that leave the episodes of their step behind, with a clip and without", () => {
    const drift = (value: number, more: Parameters<typeof log>[0] = {}): RunLog =>
      log({ "ppo_kl/last": (p) => (p === 0.5 || p > 0.9 ? value : 0.01), ...more });
    const [finding] = diagnose(drift(1.5)).findings;
    expect(finding).toMatchObject({ mode: "offPolicyDrift", kind: "problem", step: 36 });
    expect(finding!.evidence.join()).toMatch(/1\.50\d* nats less likely .* above 0\.2 on 4 of 40 steps.*has no clip/);
    expect(finding!.change).toHaveLength(3);
    expect(diagnose(drift(1.5, { "clip_ratio/region_mean": () => 0.3 })).findings[0]!.change).toHaveLength(2);
    expect(modesIn(drift(0.05))).toEqual([]);
  });

  it("a learner that has left the older policy that plays, and one that a clip keeps near it", () => {
    const stale = (kl: (progress: number) => number): RunLog =>
      log({ "rollout_corr/k3_kl": kl, "rollout_corr/chi2_seq": () => 9, "async/staleness_max": () => 8 });
    const [finding] = diagnose(stale(() => 0.9)).findings;
    expect(finding).toMatchObject({ mode: "staleSampler", step: 0 });
    expect(finding!.evidence.join("; ")).toMatch(
      /^KL .* 0\.90\d* nats per token on average, above 0\.3 on 40 of 40 steps; .* 8\S* steps old; .* worth 10\.0\d*$/,
    );
    // A few steps at the beginning are no fault, and steps too few are no trend.
    expect(modesIn(stale((p) => 0.9 * Math.exp(-5 * p)))).toEqual([]);
    expect(modesIn({ ...stale(() => 0.9), metrics: stale(() => 0.9).metrics.slice(0, 3) })).toEqual([]);
  });

  it("failures with a positive advantage, unlike failures that nothing is learnt from", () => {
    const failed = (step: number, advantage: number): Transcript => {
      const token = { id: 1, text: "ls", role: "action", turn: 0, oldLogProb: -1, wPolicy: 0.1, advantage } as const;
      const where = { step, phase: "rl", env: "e", family: "f", task: "t", group: 0 } as const;
      return { ...where, reward: 0, success: false, stopReason: "completed", turns: 1, tokens: [token] };
    };
    const of = (advantages: readonly number[]): RunLog => {
      return { config: {}, metrics: [], transcripts: advantages.map((advantage, step) => failed(step, advantage)) };
    };
    const always = new Array<number>(10).fill(1.5);
    expect(diagnose(of(always)).findings[0]).toMatchObject({
      mode: "uncentredAdvantages",
      step: 0,
      evidence: [expect.stringMatching(/^10 of 10 failed episodes .* 1\.500 on average/), expect.any(String)],
    });
    expect(modesIn(of(always.slice(0, 7)))).toEqual([]); // too few
    expect(modesIn(of(always.map(() => 0)))).toEqual([]); // imitation of successes
    expect(modesIn(of(always.map((a, i) => (i % 2 === 0 ? a : -a))))).toEqual([]); // groups
  });

  it("steps on which every episode was masked, unlike steps on which all rewards were equal", () => {
    const run = log({}, [{ step: 40, phase: "rl", masked: 48 }]);
    const [finding] = diagnose(run).findings;
    expect(finding).toMatchObject({ mode: "failingEnvironment", step: 40 });
    expect(finding!.evidence.join()).toContain("1 RL steps without an update, from step 40: every episode was masked");
    // Dynamic sampling drops groups whose rewards are all equal, so that such a step has no update either.
    const equal = Array.from({ length: 4 }, (_, step): MetricsRecord => {
      const played = { masked: 0, reward: 0.5, success: step / 4, "completions/mean_length": 3 };
      return { step, phase: "rl", frac_reward_zero_std: 1, ...played };
    });
    const constant = diagnose({ config: {}, metrics: equal, transcripts: [] }).findings;
    expect(constant.map(({ mode }) => mode)).toEqual(["zeroVarianceGroups"]);
    expect(constant[0]!.evidence.join()).toContain("the reward is the same on every step");
  });

  it("a reward that is always the same, unlike a task that is too hard, that costs, or that is solved", () => {
    const reasonOf = (steps: number, of: Readonly<Record<string, number>>): string => {
      const lines = Array.from({ length: steps }, (_, step): MetricsRecord => {
        return { step, phase: "rl", frac_reward_zero_std: 1, "completions/mean_length": 3, ...of };
      });
      const { findings } = diagnose({ config: {}, metrics: lines, transcripts: [] });
      return findings.find(({ mode }) => mode === "zeroVarianceGroups")?.evidence.at(-1) ?? "";
    };
    // Nobody succeeds, and all are paid: a verifier that asks for a score of 1, and a score of ½ whatever is done.
    for (const reward of [0.5, 0.1 + 0.2, 1])
      expect(reasonOf(4, { reward, success: 0 })).toContain("the same on every step, though no episode succeeds");
    expect(reasonOf(4, { reward: 0.5 })).toContain("the reward is the same on every step");
    for (const reward of [0, -0.6]) {
      expect(reasonOf(20, { reward, success: 0 })).toContain("too hard for this policy");
      expect(reasonOf(4, { reward, success: 0 })).toBe(""); // too few steps to say so
    }
    for (const reward of [1, 0.5]) expect(reasonOf(20, { reward, success: 1 })).toBe(""); // solved
    expect(reasonOf(20, { reward: 0.5, success: 0.5 })).toContain("some tasks succeed in every try");
  });

  /** Settings of 6 groups of 8 episodes. */
  const SIZED = { preset: { rl: { groups: 6, groupSize: 8, truncatedReward: "zero" } } };
  const counted = (of: Parameters<typeof log>[0]): RunLog => ({
    ...log({ "completions/mean_length": () => 5, ...of }),
    config: SIZED,
  });

  it("an environment that loses a quarter of the episodes, unlike one that loses one now and then", () => {
    const [finding] = diagnose(counted({ masked: (p) => (p === 0.5 ? 40 : 12) })).findings;
    expect(finding).toMatchObject({ mode: "failingEnvironment", kind: "problem" });
    expect(finding!.evidence[0]).toMatch(
      / of 1920 episodes \(25 %\), in 40 of 40 steps; most in step \d+: 12\S* of 48$/,
    );
    expect(modesIn(counted({ masked: (p) => Number(p > 0.5) }))).toEqual([]); // one of 96
    expect(modesIn(counted({ masked: () => 0 }))).toEqual([]);
  });

  it("rewards that fail: not the environment's fault, also where both fail, or all in a short run", () => {
    const failed = { "rewards/failed": () => 12 };
    const [finding, ...others] = diagnose(counted({ masked: () => 12, ...failed })).findings;
    expect(finding).toMatchObject({ mode: "failingReward", kind: "problem" });
    expect(finding!.evidence).toEqual([
      expect.stringMatching(/^masked, because their reward failed: 480\S* of 1920 ep/),
    ]);
    expect(others).toEqual([]);
    expect(modesIn(counted({ masked: () => 24, ...failed }))).toEqual(["failingEnvironment", "failingReward"]);
    expect(modesIn(counted({ masked: () => 0, "rewards/failed": () => 0 }))).toEqual([]);
    const lines: MetricsRecord[] = [0, 1].map((step) => ({ step, phase: "rl", masked: 48, "rewards/failed": 48 }));
    const [all] = diagnose({ config: {}, metrics: lines, transcripts: [] }).findings; // of settings that say no size
    expect(all).toMatchObject({ mode: "failingReward", evidence: [expect.stringContaining("2 RL steps without")] });
  });

  it("rewards that are NaN, unlike rewards of 0", () => {
    const [finding] = diagnose(counted({ unscored: () => 24, reward: () => 1 })).findings;
    expect(finding).toMatchObject({ mode: "unscoredEpisodes", kind: "problem" });
    expect(finding!.evidence[0]).toMatch(/^reward NaN: \S+ of 1920 episodes \(50 %\)/);
    expect(modesIn(counted({ unscored: () => 0, reward: () => 0 }))).toEqual([]);
  });

  it("episodes that are cut off more and more, and paid for it; unlike a task that is too hard", () => {
    const flat = { frac_reward_zero_std: () => 1, success: () => 0.001 };
    const babble = { ...flat, "completions/clipped_ratio": (p: number) => 0.1 + 0.9 * p, reward: (p: number) => p - 1 };
    const { findings } = diagnose(counted(babble));
    expect(findings.map(({ mode }) => mode)).toEqual(["cutOffEpisodes", "rewardHacking", "zeroVarianceGroups"]);
    expect(findings[0]!.evidence.join()).toMatch(
      /share of episodes 0\.2\d* → 0\.8\d*,reward −0\.8\d* → −0\.1\d*: what is cut off may be paid better/,
    );
    expect(findings[0]!.change[0]).toContain("(rl.truncatedReward is zero)");
    const learns = { ...babble, success: (p: number) => 0.3 * p, frac_reward_zero_std: () => 0.6 };
    const [failures] = diagnose(counted(learns)).findings;
    expect(failures!.evidence[1]).toMatch(/^success 0\.0\d* → 0\.2\d* all the same: what is cut off are failures/);
    const hard = { ...flat, "completions/clipped_ratio": () => 0.05, reward: () => 0.001 };
    expect(modesIn(counted(hard))).toEqual(["zeroVarianceGroups"]);
    expect(diagnose(counted(hard)).findings[0]!.evidence.join()).toContain("too hard for this policy");
    const always = { ...hard, "completions/clipped_ratio": () => 0.95 };
    const [cut, none] = diagnose(counted(always)).findings;
    expect([cut!.mode, none!.mode]).toEqual(["cutOffEpisodes", "zeroVarianceGroups"]);
    expect(none!.evidence.join()).toContain("most tries are cut off before they end");
    // A warm start that has not learnt how actions end, and does.
    expect(modesIn(counted({ "completions/clipped_ratio": (p) => 0.6 * (1 - p) }))).toEqual([]);
  });

  it("flat groups of a run that is short and has learnt from some, or that is learning, are no fault", () => {
    const rare = { frac_reward_zero_std: () => 0.9, reward: () => 0.02, success: () => 0.02 };
    const long = (run: RunLog): RunLog => {
      const metrics = [0, 1, 2].flatMap((k) => run.metrics.map((line) => ({ ...line, step: line.step + 40 * k })));
      return { ...run, metrics };
    };
    expect(modesIn(log(rare))).toEqual([]); // the first steps of a healthy run
    const first = { ...log({ ...rare, frac_reward_zero_std: () => 1 }) };
    expect(modesIn({ ...first, metrics: first.metrics.slice(0, 12) })).toEqual([]); // all flat by chance
    expect(modesIn(long(log(rare)))).toEqual(["zeroVarianceGroups"]);
    expect(modesIn(log({ ...rare, frac_reward_zero_std: () => 0.99 }))).toEqual(["zeroVarianceGroups"]);
    const learning = long(log(rare)).metrics.map((line, i) => ({ ...line, reward: i / 600, success: i / 600 }));
    const { findings } = diagnose({ config: {}, metrics: learning, transcripts: [] });
    expect(findings.map(({ mode, kind }) => [mode, kind])).toEqual([["zeroVarianceGroups", "harmless"]]);
  });

  it("entropy that is low because tries are sampled nearly greedily: the temperature comes first", () => {
    const low = log({ entropy: () => 0.001, success: () => 0.3 });
    const at = (temperature: number): string =>
      diagnose({ ...low, config: { preset: { rollout: { temperature } } } }).findings[0]!.change[0]!;
    expect(at(0.002)).toBe(
      "sample at temperature 1 (rollout.temperature is 0.002): nearly greedy tries of a task are the same",
    );
    expect(at(1)).toMatch(/^it was low from the start/);
  });

  it("a weight in the policy loss on a token whose role is observation", () => {
    const tokens: Transcript["tokens"] = [
      { id: 1, text: "ls", role: "action", turn: 0, oldLogProb: -1, surprise: 1, wPolicy: 0.1 },
      { id: 2, text: "no such file", role: "observation", turn: 0, surprise: 3, wPolicy: 0.1 },
    ];
    const episode: Transcript = {
      step: 3,
      phase: "rl",
      env: "e",
      family: "f",
      task: "t",
      group: 2,
      reward: 1,
      success: true,
      stopReason: "completed",
      turns: 1,
      tokens,
    };
    const finding = diagnose({ config: {}, metrics: [], transcripts: [episode] }).findings[0]!;
    expect(finding.mode).toBe("observationsInPolicyMask");
    expect(finding.evidence.join()).toMatch(
      /^1 of 2 tokens.*\(50 %\).*have the role observation,episode of step 3, group 2: “no such file”$/,
    );
  });

  it("a solved run may have flat groups and no entropy left; one that is not may not", () => {
    const end = { frac_reward_zero_std: () => 0.98, entropy: (p: number) => 0.3 - 0.295 * p, reward: (p: number) => p };
    expect(modesIn(log({ ...end, success: (p) => 0.3 + 0.69 * Math.min(1, 2 * p) }))).toEqual([]);
    expect(modesIn(log({ ...end, success: () => 0.3 }))).toEqual([
      "rewardHacking",
      "entropyCollapse",
      "zeroVarianceGroups",
    ]);
  });

  it("entropy that rises because long failures weigh more than short successes", () => {
    const rising = { entropy: (p: number) => 0.3 + p, success: () => 0.3 };
    const [finding] = diagnose(log({ ...rising, policy_loss: () => 0.05 })).findings;
    expect(finding!.mode).toBe("entropyBlowUp");
    const evidence = finding!.evidence.join();
    expect(evidence).toMatch(/^entropy 0\.3\d* .* on step 0, 1\.2\d* around step 36,policy loss 0\.05/);
    expect(evidence).toMatch(/ around step 36,policy loss 0\.05\d* on average, above 0 on 40 of 40 steps/);
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
    type Token = Transcript["tokens"][0];
    const token = (text: string, role: Token["role"], turn: number): Token => ({ id: 0, text, role, turn });
    const tokens = [
      token("l", "action", 0),
      token("s<|end|>", "action", 0),
      token("<|obs|>", "scaffold", 0),
      token("a\n", "observation", 0),
      token("cat a", "action", 1),
    ];
    expect(callsOf({ tokens })).toEqual([
      { call: "ls", answer: "a" },
      { call: "cat a", answer: "" },
    ]);
  });

  it("no log makes it throw", () => {
    const names = [
      "reward",
      "success",
      "entropy",
      "kl",
      "grad_norm",
      "policy_loss",
      "frac_reward_zero_std",
      "completions/mean_length",
      "reward_std",
      "episodes",
      "masked",
      "rewards/failed",
      "unscored",
      "completions/clipped_ratio",
      "sampling/sampling_logp_difference/mean",
    ];
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
        expect(looked.length + notChecked.length).toBe(Object.keys(DETECTORS).length);
      }),
    );
  });
});

describe("npm run doctor", () => {
  function doctor(...args: string[]): { code: number | null; out: string; err: string } {
    const command = [programAt("studies/doctor/main.ts"), ...args];
    const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: folder, encoding: "utf8" });
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
    names.push("world_loss", "rollout_corr/k3_kl");
    const fine = doctor(
      written(
        "fine",
        log(Object.fromEntries(names.map((name) => [name, name === "rollout_corr/k3_kl" ? () => 0.1 : half]))),
      ),
    );
    expect(fine).toMatchObject({ code: 0, err: "" });
    expect(fine.out).toMatch(/Nothing found\.\n\nLooked at:\n[^]*Not checked:\n[^]*KL blow-up: no metric kl/);
    expect(fine.out).not.toContain("\u001b");

    const short = doctor(
      written("short", { config: {}, metrics: [{ step: 0, phase: "sft", loss: 1 }], transcripts: [] }),
    );
    expect(short.code).toBe(0);
    expect(short.out).toContain("Nothing found, but only 3 of 21 things could be looked at.");

    const path = written("flat", log({ reward: () => 0.1, frac_reward_zero_std: () => 0.98 }));
    const flat = doctor(path);
    expect(flat.code).toBe(1);
    expect(flat.out).toMatch(/1\. Zero-variance groups\n {3}- 98 %[^]*What to change:\n {3}→ begin with easier tasks/);
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
