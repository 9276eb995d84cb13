/**
 * docs/adding-an-op.md and docs/adding-a-method.md for real: a copy of the sources with their diffs applied has the op,
 * the estimator, the loss and the option, computes with them, and trains with them from the command line.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { PatchedCopy } from "../support/patchedCopy.ts";

let copy: PatchedCopy;
beforeAll(() => {
  copy = new PatchedCopy(["docs/adding-an-op.md", "docs/adding-a-method.md"]);
});
afterAll(() => copy.remove());

it("each changes a file, or makes one and adds a line; a loss has a line in the tests, a sentence on the page", () => {
  expect(copy.changed).toEqual([
    "engine/ops/pointwise.ts",
    "methods/advantages/group.ts",
    "methods/losses/weighted.ts",
    "methods/turnsLeft.ts",
    "methods/presets.ts",
    "methods/tokenWeights.ts",
    "data/bestEpisodes.ts",
    "run/plugins.ts",
    "methods/zeroAdvantages.ts",
    "run/probes.ts",
    "tests/support/rlMethods.ts",
    "site/lossWords.ts",
  ]);
});

it("type-check", () => {
  expect(copy.typeErrors("index.ts", "run/cli/main.ts", "tests/support/rlMethods.ts", "site/lossWords.ts")).toBe("");
});

it("the op runs on two executors, and its gradient is right", () => {
  copy.write(
    "op.mts",
    `import { checkGradient, device, grad, sum, tensor } from "./engine/index.ts";
    import { hardswish } from "./engine/ops/pointwise.ts";
    const x = [-4, -1, 0, 2, 5];
    for (const kind of ["reference", "wasm"]) {
      const on = await device(kind);
      console.log(kind, ...Array.from(await hardswish(tensor(x, { device: on })).read(), (y) => y.toFixed(4)));
    }
    const on = await device("reference");
    const { compared } = await checkGradient((x) => sum(hardswish(x)), tensor(x, { device: on }));
    console.log(compared, "derivatives");`,
  );
  const { stdout, stderr } = copy.run("op.mts");
  expect(stderr).toBe("");
  const y = "0.0000 -0.3333 0.0000 1.6667 5.0000";
  expect(stdout).toBe(`reference ${y}\nwasm ${y}\n5 derivatives\n`);
});

it("the live page prints the loss's own expression, and that of the term", () => {
  copy.write(
    "formula.mts",
    `import { topr } from "./methods/losses/weighted.ts";
    import { turnsLeft } from "./methods/turnsLeft.ts";
    import { formulaLines } from "./site/mathml.ts";
    import { filledAt, readMath, tracedSteps } from "./tests/support/formulas.ts";
    const token = { masked: false, lp: -2, old: -1, ref: -1, advantage: -0.5 };
    const told = {
      mask: 1, wPolicy: 1, weights: { turns_left: 1 }, predictions: { turns_left: 2 }, more: { "turns_left.left": 3 },
    };
    const steps = await tracedSteps({ policyLoss: topr(), terms: [turnsLeft()] }, [[token]], () => told);
    for (const name of ["policy", "turns_left"]) {
      for (const { left, steps: all } of formulaLines("ℓ", filledAt(steps, name, 0, 0)))
        console.log([left, ...all].map(readMath).join(" = "));
    }
    console.log(steps.tokens[0][0].map(({ gradient }) => gradient.toFixed(3)).join(" "));`,
  );
  const { stdout, stderr } = copy.run("formula.mts");
  expect(stderr).toBe("");
  expect(stdout.trim().split("\n")).toEqual([
    "ℓ = −sg(w)·A·log p = −sg(0.3679)·(−0.5)·(−2) = −0.3679",
    "w = {clip(ρ,0,1) if A<0;1 else; = {clip(0.3679,0,1) if −0.5<0;1 else; = 0.3679",
    "ρ = e^{log p−log p_old} = e^{−2−(−1)} = 0.3679",
    "ℓ = |v−left| = |2−3| = 1",
    "0.184 -1.000",
  ]);
});

it("estimator, loss and option are listed, checked, and trained with", () => {
  const list = copy.run("run/cli/main.ts", "--list").stdout;
  for (const name of [" quantile ", " topr ", "quantile.q ", "top_entropy.floor "]) expect(list).toContain(name);
  const method = ["--method", "grpo+top_entropy", "--advantage", "quantile", "--loss", "topr"];
  const flags = ["--quick", "--env", "gridworld", "--device", "wasm", "--steps", "1", ...method];
  const wrong = copy.run("run/cli/main.ts", ...flags, "--set", "top_entropy.floor=2");
  expect(wrong.status).not.toBe(0);
  expect(wrong.stderr).toContain("--set top_entropy.floor must be in [0, 1], got 2");
  const right = copy.run("run/cli/main.ts", ...flags, "--set", "top_entropy.floor=0.1", "--name", "added");
  expect(right.status, right.stdout + right.stderr).toBe(0);
  expect(copy.read("runs/added/config.json")).toContain('"floor": 0.1');
  expect(copy.read("runs/added/metrics.jsonl")).toContain('"policy_loss"');
});

it("the term is trained with its head, which is saved with the run; the plug-in imitates, the probe measures", () => {
  const method = ["--method", "grpo+turns_left", "--set", "turns_left.coefficient=0.1"];
  const flags = ["--quick", "--env", "gridworld", "--device", "wasm", "--steps", "1", "--name", "term"];
  const plugin = ["--best-episodes", "2", "--set", "best.weight=0.25"];
  const { status, stdout, stderr } = copy.run("run/cli/main.ts", ...flags, ...method, ...plugin);
  expect(status, stdout + stderr).toBe(0);
  expect(copy.read("runs/term/config.json")).toContain('"coefficient": 0.1');
  expect(copy.read("runs/term/metrics.jsonl")).toMatch(/"turns_left_loss":0\.\d/);
  const checkpoint = copy.list("runs/term/checkpoints").at(-1)!;
  const files = copy.list(`runs/term/checkpoints/${checkpoint}`);
  expect(files).toContain("head-turns_left.safetensors");
  // The plug-in and the probe, too.
  expect(
    files.some((file) => file.includes("best")),
    files.join(),
  ).toBe(true);
  expect(copy.read("runs/term/config.json")).toContain('"weight": 0.25');
  expect(copy.read("runs/term/metrics.jsonl")).toMatch(/"zero_advantages":[01]/);
  expect(copy.read("runs/term/metrics.jsonl")).toContain('"best/return"');
});
