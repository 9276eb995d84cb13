/** A reward from a file of the user's: what may stand in it, what it is given, what it may answer, what is refused. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { parseStart } from "../../../run/node/commandLine.ts";
import { loadReward, loadRewardOf } from "../../../run/node/rewardFile.ts";
import { withUserFiles } from "../../../run/node/userFiles.ts";
import { ownReward, rewardFunction } from "../../../run/ownReward.ts";
import { presetFor, presetOf } from "../../../run/presets.ts";
import type { StartOptions } from "../../../run/startOptions.ts";
import { UsageError } from "../../../run/usage.ts";
import { append, emptyStream } from "../../../rl/episode/stream.ts";
import { toyTemplate, toyTokenizer, trajectoryOf } from "../../support/rlToy.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-reward-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A file of its own for each text, in a folder of its own: Node loads a module once. */
function fileOf(text: string): string {
  const path = join(mkdtempSync(join(folder, "-")), "polite.mjs");
  writeFileSync(path, text);
  return path;
}

const parsed = (...args: readonly string[]): StartOptions => parseStart(args) as StartOptions;
async function refusal(path: string): Promise<string> {
  const error = await loadReward(path).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UsageError);
  expect((error as UsageError).message).not.toContain("\n");
  return (error as UsageError).message;
}

it("the function gets the episode with its turns as text, and answers at once or later", async () => {
  const stream = emptyStream();
  append(stream, "prompt", 0, toyTokenizer.encode("f"));
  append(stream, "action", 0, toyTokenizer.encode("ab"));
  append(stream, "observation", 0, toyTokenizer.encode("c"));
  const played = trajectoryOf(stream, { reward: 0.5, info: { success: true } });
  const { signal } = new AbortController();
  const scored = async (code: string): Promise<unknown> =>
    ownReward(await loadReward(fileOf(code)), toyTemplate)(played, signal);

  const own = rewardFunction(({ turns, reward }) => turns.length + reward, toyTemplate);
  expect(own(played, signal)).toEqual({ reward: 1.5, parts: { reward: 1.5 } });
  const wrong = rewardFunction(() => "much" as never, toyTemplate, { name: "brief" });
  expect(() => wrong(played, signal)).toThrow('reward answered "much", expected a number or { reward, parts }');

  const reads = `({ turns: [{ action, observation }], reward, info }, signal) =>
    action === "ab" && observation === "c" && info.success && !signal.aborted ? 2 * reward : NaN`;
  expect(await scored(`export default ${reads}`)).toEqual({ reward: 1, parts: { polite: 1 } });
  expect(await scored(`export const polite = ${reads}`)).toEqual({ reward: 1, parts: { polite: 1 } });
  expect(await scored("export default function brief() { return -0; }")).toEqual({ reward: -0, parts: { polite: -0 } });
  expect(await scored("export default async () => NaN")).toEqual({ reward: NaN, parts: { polite: NaN } });
  expect(await scored("export default () => ({ then: (done) => done(3) })")).toEqual({
    reward: 3,
    parts: { polite: 3 },
  });
  expect(await scored("export default () => ({ reward: 1 })")).toEqual({ reward: 1, parts: {} });
  expect(await scored("export default () => ({ reward: 1, parts: { form: 0 }, outcome: 0 })")).toEqual({
    reward: 1,
    parts: { form: 0 },
    outcome: 0,
  });
  for (const wrong of ["undefined", "null", '"1"', "true", "{}", "{ reward: null }"])
    await expect(scored(`export default () => (${wrong})`), wrong).rejects.toThrow(
      /--reward: .* answered .*, expected a number or \{ reward, parts \}/,
    );
  await expect(scored('export default () => { throw new Error("no"); }')).rejects.toThrow("no");
});

it("what is no reward is said in one line", async () => {
  const about = (text: string): Promise<string> => refusal(fileOf(text));
  expect(await refusal(join(folder, "nowhere.ts"))).toBe(`--reward: ${join(folder, "nowhere.ts")} does not exist`);
  expect(await about("export default 1")).toMatch(
    /has no reward: its default export is a number; expected one function/,
  );
  expect(await about("export default null")).toMatch(/its default export is null;/);
  expect(await about("export const weight = 1")).toMatch(/it exports no function;/);
  expect(await about("export const a = () => 1, b = () => 2")).toMatch(/it exports a, b and no default;/);
  expect(await about('throw new Error("no\\nluck")')).toMatch(/cannot be loaded: no luck$/);
});

it("a run keeps the file, and goes on only with what it began with", async () => {
  const path = fileOf("export default () => 1");
  const options = await withUserFiles(parsed("--reward", path, "--method", "grpo"));
  const preset = presetFor(options);
  expect(preset.rl.reward).toEqual({ name: "file" });
  expect(preset.rewardFile).toEqual({ path, sha256: expect.stringMatching(/^\w{64}$/) });
  expect(presetOf({ path: "runs/x", config: { preset } })).toEqual(preset);
  await loadRewardOf(preset.rewardFile);
  await loadRewardOf(undefined);
  writeFileSync(path, "export default () => 2");
  await expect(loadRewardOf(preset.rewardFile)).rejects.toThrow(/^the run's reward: .* is not what the run began with/);
  rmSync(path);
  await expect(loadRewardOf(preset.rewardFile)).rejects.toThrow(/^the run's reward: .* does not exist$/);
  expect(() => ownReward({ path: "elsewhere.ts", sha256: "" }, toyTemplate)).toThrow(
    "the reward of elsewhere.ts has not been loaded",
  );
});

it("the name of the reward needs its file, and its time limit the name", () => {
  for (const words of [
    ["--reward", "file"],
    ["--set", "reward.name=file"],
  ])
    expect(() => presetFor(parsed("--method", "grpo", ...words))).toThrow(/the path of the file is missing/);
  expect(() => presetFor(parsed("--method", "grpo", "--set", "reward.timeout=5"))).toThrow("--reward judges or FILE");
  expect(() => parsed("--method", "grpo", "--reward", "coderll")).toThrow(/^--reward must be coderl \|.*got "coderll"/);
});
