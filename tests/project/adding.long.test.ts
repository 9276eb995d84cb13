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

it("each changes a file, or makes one and adds a line; a loss has a line in the tests and on the page", () => {
  expect(copy.changed).toEqual([
    "engine/ops/pointwise.ts",
    "methods/advantages/group.ts",
    "methods/losses/weighted.ts",
    "methods/turnsLeft.ts",
    "methods/presets.ts",
    "methods/tokenWeights.ts",
    "tests/support/rlMethods.ts",
    "site/formulas/policy.ts",
  ]);
});

it("type-check", () => {
  expect(copy.typeErrors("index.ts", "run/cli/main.ts", "tests/support/rlMethods.ts", "site/formulas/policy.ts")).toBe(
    "",
  );
}, 60_000);

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
}, 60_000);

it("the live page's formula of the loss has the loss's value and gradient, on either side of a ratio of 1", () => {
  copy.write(
    "formula.mts",
    `import { device, sum, tensor, valueAndGrad } from "./engine/index.ts";
    import { topr } from "./methods/losses/weighted.ts";
    import { POLICY_LOSSES } from "./methods/losses/index.ts";
    import { POLICY_FORMULAS, policyFormula } from "./site/formulas/policy.ts";
    console.log(Object.keys(POLICY_LOSSES).filter((name) => !(name in POLICY_FORMULAS)).length, "without a formula");
    const on = await device("reference");
    const [lps, olds, As] = [[-1, -2, -1, -2], [-2, -1, -2, -1], [0.5, 0.5, -0.5, -0.5]];
    const column = (x) => tensor(x, { device: on });
    const { aux, grads } = valueAndGrad((lp) => {
      const losses = topr().tokenLoss({
        logProbs: lp, oldLogProbs: column(olds), advantages: column(As), mask: column([1, 1, 1, 1]),
      });
      return [sum(losses), losses];
    })(column(lps));
    const [values, slopes] = [await aux.read(), await grads.read()];
    const none = { ref: 0, chosen: 0, H: 0, value: 0, oldValue: 0, target: 0, sideLength: 1 };
    lps.forEach((lp, i) => {
      const shown = policyFormula("topr", {}).at({ ...none, lp, old: olds[i], A: As[i] });
      console.log((shown.value - values[i]).toFixed(9), (shown.slope - slopes[i]).toFixed(9), slopes[i].toFixed(3));
    });`,
  );
  const { stdout, stderr } = copy.run("formula.mts");
  expect(stderr).toBe("");
  const [missing, ...tokens] = stdout.trim().replaceAll("-0.000000000", "0.000000000").split("\n");
  expect(missing).toBe("0 without a formula");
  const slopes = ["-0.500", "-0.500", "0.500", "0.184"]; // the last is 0.5·e⁻¹
  expect(tokens).toEqual(slopes.map((slope) => `0.000000000 0.000000000 ${slope}`));
}, 60_000);

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
}, 120_000);

it("the term is trained with its head, which is saved with the run", () => {
  const method = ["--method", "grpo+turns_left", "--set", "turns_left.coefficient=0.1"];
  const flags = ["--quick", "--env", "gridworld", "--device", "wasm", "--steps", "1", "--name", "term"];
  const { status, stdout, stderr } = copy.run("run/cli/main.ts", ...flags, ...method);
  expect(status, stdout + stderr).toBe(0);
  expect(copy.read("runs/term/config.json")).toContain('"coefficient": 0.1');
  expect(copy.read("runs/term/metrics.jsonl")).toMatch(/"turns_left_loss":0\.\d/);
  const checkpoint = copy.list("runs/term/checkpoints").at(-1)!;
  expect(copy.list(`runs/term/checkpoints/${checkpoint}`)).toContain("head-turns_left.safetensors");
}, 120_000);
