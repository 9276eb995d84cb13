/** `--config`: a file of flags stands for them, those beside it win, and what a run writes gives its settings again. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { parseStart, saidIn } from "../../../run/node/commandLine.ts";
import { flagsText } from "../../../run/node/flagsFile.ts";
import { presetFor } from "../../../run/presets.ts";
import type { StartOptions } from "../../../run/startOptions.ts";
import { UsageError } from "../../../run/usage.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-flags-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The path of a file with this content. */
function file(content: unknown): string {
  const path = join(folder, "flags.json");
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}
const parsed = (...args: string[]): StartOptions => parseStart(args) as StartOptions;

test("a file says what flags say", () => {
  const path = file({
    env: "gridworld",
    method: "grpo+echo",
    steps: 12,
    quick: true,
    "dynamic-sampling": true,
    set: { "rl.lr": 1e-4, "env.levels": "1-2", "rl.gradShares": true },
    "report-to": "csv",
  });
  const flags =
    "--env gridworld --method grpo+echo --steps 12 --quick --dynamic-sampling --report-to csv " +
    "--set rl.lr=0.0001 --set env.levels=1-2 --set rl.gradShares=true";
  expect(parsed("--config", path)).toEqual(parsed(...flags.split(" ")));
});

test("a file in YAML says the same as in JSON", () => {
  const path = join(folder, "flags.yaml");
  const text = `\uFEFF# what was tried first
env: gridworld   # a comment
method: &method grpo+echo
steps: 12
quick: true
dynamic-sampling: yes-not
set: {rl.lr: 1e-4, env.levels: 1-2, "echo.lambda": .5, rl.gradShares: false}
`;
  writeFileSync(path, text);
  expect(() => parsed("--config", path)).toThrow(`${path}: dynamic-sampling: expected true or false, got "yes-not"`);
  writeFileSync(path, text.replace("yes-not", "true"));
  const flags =
    "--env gridworld --method grpo+echo --steps 12 --quick --dynamic-sampling " +
    "--set rl.lr=0.0001 --set env.levels=1-2 --set echo.lambda=0.5 --set rl.gradShares=false";
  expect(parsed("--config", path)).toEqual(parsed(...flags.split(" ")));
  const json = join(folder, "flags.yml"); // JSON is YAML
  writeFileSync(json, JSON.stringify({ env: "castle" }, null, 2));
  expect(parsed("--config", json)).toEqual(parsed("--env", "castle"));
});

test.each([
  ["", "expected an object of flags, got null"],
  ["- env: home", 'expected an object of flags, got [{"env":"home"}]'],
  ["env: home\nenv: castle", "Map keys must be unique at line 2, column 1"],
  ["env: home\n\tsteps: 3", "Tabs are not allowed as indentation at line 2, column 1"],
  [
    "env: [home",
    "Flow sequence in block collection must be sufficiently indented and end with a ] at line 1, column 11",
  ],
  ["env: home\n---\nenv: castle", "Source contains multiple documents at line 2, column 1"],
  ["stepz: 3", 'unknown flag "stepz"; did you mean "steps"?'],
])("%j in YAML is refused in one line", (text, message) => {
  const path = join(folder, "wrong.yaml");
  writeFileSync(path, text);
  expect(() => parsed("--config", path)).toThrow(new UsageError(`--config: ${path}: ${message}`));
});

test("flags beside it win, also where one of them is short for --set", () => {
  const path = file({ env: "gridworld", steps: 12, seed: 3, lambda: 0.5, set: { "rl.lr": 1e-4, "kl.beta": 0.1 } });
  const beside = ["--steps", "20", "--set", "rl.lr=0.01", "--set", "echo.lambda=0.2", "--kl", "0.3", "--env", "castle"];
  const { rl, env, seed } = presetFor(parsed("--quick", "--config", path, ...beside));
  expect({ env, seed, steps: rl.steps, lr: rl.lr }).toEqual({ env: "castle", seed: 3, steps: 20, lr: 0.01 });
  // Also one that says the default.
  expect(parsed("--config", path, "--seed", "0").seed).toBe(0);
  expect([rl.kl, rl.options]).toEqual([{ beta: 0.3 }, { echo: { lambda: 0.2 } }]);
});

test("what a run writes gives the same settings, without its name", () => {
  const flags = ["--quick", "--env", "gridworld", "--kl", "0.1", "--set", "rl.lr=1e-3", "--set", "env.families=field"];
  const text = flagsText(saidIn([...flags, "--name", "mine"]));
  expect(JSON.parse(text)).toEqual({
    quick: true,
    env: "gridworld",
    kl: "0.1",
    set: { "rl.lr": "1e-3", "env.families": "field" },
  });
  const again = ["--config", file(text)];
  expect(presetFor(parsed(...again))).toEqual(presetFor(parsed(...flags)));
  expect(flagsText(saidIn([...again, "--kl", "0.2"]))).toContain('"kl": "0.2"');
  expect(flagsText(saidIn([]))).toBe("{}\n");
});

test.each([
  [{ stepss: 3 }, 'unknown flag "stepss"; did you mean "steps"?'],
  [{ resume: "runs/a" }, 'unknown flag "resume"'],
  [{ config: "a" }, 'unknown flag "config"'],
  [{ steps: [3] }, "steps: expected a text or a number, got [3]"],
  [{ quick: "yes" }, 'quick: expected true or false, got "yes"'],
  [{ set: { rl: { lr: 1 } } }, 'set.rl: expected a text or a number, got {"lr":1}; parts have names with a dot, as in'],
  [{ set: ["rl.lr=1"] }, 'set: expected an object, as in { "rl.lr": 1e-4 }, got ["rl.lr=1"]'],
  [[1], "expected an object of flags, got [1]"],
  ["{", "Expected property name or '}' in JSON"],
])("names the mistake in %j", (content, message) => {
  const path = file(content);
  expect(() => parsed("--config", path)).toThrow(`--config: ${path}: ${message}`);
});

test("names a file that is not there, and goes with no --resume", () => {
  expect(() => parsed("--config", "nowhere.json")).toThrow("--config: nowhere.json: ENOENT");
  expect(() => parsed("--config", file({}), "--resume", "runs/a")).toThrow("remove --config");
  expect(() => parsed("--config", file({ steps: "many" }))).toThrow('--steps must be an integer ≥ 0, got "many"');
});
