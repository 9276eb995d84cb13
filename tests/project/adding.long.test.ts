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

it("each changes one file, and the tests' table for methods", () => {
  expect(copy.changed).toEqual([
    "engine/ops/pointwise.ts",
    "rl/methods/advantages/group.ts",
    "rl/methods/losses/weighted.ts",
    "rl/methods/tokenWeights.ts",
    "tests/support/rlMethods.ts",
  ]);
});

it("type-check", () => {
  expect(copy.typeErrors("index.ts", "cli/main.ts", "tests/support/rlMethods.ts")).toBe("");
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

it("estimator, loss and option are listed, checked, and trained with", () => {
  const list = copy.run("cli/main.ts", "--list").stdout;
  for (const name of [" quantile ", " topr ", "quantile.q ", "top_entropy.floor "]) expect(list).toContain(name);
  const method = ["--method", "grpo+top_entropy", "--advantage", "quantile", "--loss", "topr"];
  const flags = ["--quick", "--env", "gridworld", "--device", "wasm", "--steps", "1", ...method];
  const wrong = copy.run("cli/main.ts", ...flags, "--set", "top_entropy.floor=2");
  expect(wrong.status).not.toBe(0);
  expect(wrong.stderr).toContain("--set top_entropy.floor must be in [0, 1], got 2");
  const right = copy.run("cli/main.ts", ...flags, "--set", "top_entropy.floor=0.1", "--name", "added");
  expect(right.status, right.stdout + right.stderr).toBe(0);
  expect(copy.read("runs/added/config.json")).toContain('"floor": 0.1');
  expect(copy.read("runs/added/metrics.jsonl")).toContain('"policy_loss"');
}, 120_000);
