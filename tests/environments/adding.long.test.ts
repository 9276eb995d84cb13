/**
 * docs/adding-an-environment.md for real: a copy of the sources with its diffs applied has the environment, plays it
 * and trains in it.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { blocksOf } from "../project/diffs.ts";
import { readSource } from "../project/sources.ts";
import { PatchedCopy } from "../support/patchedCopy.ts";

const PAGE = "docs/adding-an-environment.md";
let copy: PatchedCopy;
beforeAll(() => {
  copy = new PatchedCopy([PAGE]);
});
afterAll(() => copy.remove());

it("changes one folder and the table of names", () => {
  const own = ["episode", "index", "rules"].map((name) => `environments/dial/${name}.ts`);
  expect([...copy.changed].sort()).toEqual([...own, "environments/registry.ts"]);
});

it("type-checks", () => {
  expect(copy.typeErrors("environments/registry.ts")).toBe("");
});

it("is played as the page shows it, and refuses what the page says it refuses", () => {
  copy.write(
    "play.mts",
    `import { ENVIRONMENTS } from "./environments/index.ts";
    const dial = ENVIRONMENTS["dial"]!;
    const env = dial.make({ families: ["stiff"] });
    console.log(await env.reset(4));
    for (let done = false; !done; ) {
      const action = dial.expert(env);
      const result = await env.step(action);
      console.log("$ " + action + "\\n" + result.observation);
      done = result.done;
    }
    for (const options of [{ turns: 0 }, { trns: 3 }, { families: ["stif"] }, { noise: 2 }]) {
      try { dial.make(options); } catch (error) { console.log(error.message); }
    }`,
  );
  const { stdout, stderr } = copy.run("play.mts");
  expect(stderr).toBe("");
  const shown = blocksOf(readSource(PAGE)).find(({ language }) => language === "console")!.text;
  const errors = [
    "dial: turns must be an integer ≥ 1, got 0",
    "dial: unknown option 'trns'; did you mean 'turns'?",
    "dial: unknown family 'stif'; did you mean 'stiff'?",
    "dial: noise must be in [0, 1], got 2",
  ];
  expect(stdout).toBe(`${shown}${errors.join("\n")}\n`);
});

it("is trained in for a step from the command line, which lists it", () => {
  const list = copy.run("run/cli/main.ts", "--list").stdout;
  expect(list).toMatch(/^ {2}dial +turn a dial to the digit that is asked for \(/m);
  const flags = [
    "--quick",
    "--env",
    "dial",
    "--method",
    "grpo+echo",
    "--steps",
    "1",
    "--set",
    "env.turns=6",
    "--device",
    "wasm",
  ];
  const { stdout, stderr, status } = copy.run("run/cli/main.ts", ...flags, "--name", "dial");
  expect(status, stdout + stderr).toBe(0);
  const metrics = copy.read("runs/dial/metrics.jsonl");
  expect(metrics).toContain('"reward"');
  expect(copy.read("runs/dial/report.html")).toContain("<html");
});
