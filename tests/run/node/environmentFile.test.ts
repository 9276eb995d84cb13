/** An environment from a file of the user's: what may stand in it, what is refused, and a run that knows its file. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { environmentOf, WORLDS } from "../../../run/worlds.ts";
import { presetFor, presetOf } from "../../../run/presets.ts";
import { UsageError } from "../../../run/usage.ts";
import { parseStart } from "../../../run/node/commandLine.ts";
import { loadEnvironment, loadEnvironmentOf } from "../../../run/node/environmentFile.ts";
import { withUserFiles } from "../../../run/node/userFiles.ts";
import { isUserFile, type StartOptions } from "../../../run/startOptions.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-env-"));
afterAll(() => rmSync(folder, { recursive: true }));

let count = 0;
/** A file of its own for each text: Node loads a module once. */
function fileOf(text: string, name = `env-${count++}.mjs`): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const specOf = (name: string): string => `{
  name: "${name}", description: "say yes", families: [],
  make: () => ({
    name: "${name}",
    reset: async () => "yes or no?",
    step: async (action) => ({ observation: "", reward: action === "yes" ? 1 : 0, done: true, info: {} }),
  }),
  expert: () => "yes", random: () => "no",
}`;

async function refusal(path: string): Promise<string> {
  const error = await loadEnvironment(path).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UsageError);
  expect((error as UsageError).message).not.toContain("\n");
  return (error as UsageError).message;
}

it("a path is a file, a plain word a name", () => {
  for (const path of ["./a.ts", "a.ts", "envs/a", "a.mjs", "C:\\envs\\a"]) expect(isUserFile(path), path).toBe(true);
  for (const name of ["terminal", "my-env", "ts"]) expect(isUserFile(name), name).toBe(false);
});

it("the default export, or the only one of the form, is an environment like those of the library", async () => {
  const path = fileOf(`export const one = 1; export const world = ${specOf("yes-or-no")};`);
  const options = await withUserFiles(parseStart(["--env", path, "--method", "grpo"]) as StartOptions);
  expect(options.env).toBe("yes-or-no");
  const preset = presetFor({ ...options, set: ["env.noise=0.5"] });
  expect(preset).toMatchObject({
    env: "yes-or-no",
    environmentFile: { path, sha256: expect.stringMatching(/^\w{64}$/) },
  });
  expect(preset.tasks).toEqual({ noise: 0.5 });
  expect(environmentOf(preset)).toBe(WORLDS["yes-or-no"]);
  expect(() => presetFor({ ...options, set: ["env.nois=0.5"] })).toThrow("'nois'; did you mean 'noise'?");
  // The same file again is the same environment; another file may not take its name, nor one of the library's.
  expect(await loadEnvironment(path)).toEqual({ env: "yes-or-no", environmentFile: preset.environmentFile });
  for (const name of ["yes-or-no", "terminal"])
    expect(await refusal(fileOf(`export default ${specOf(name)};`))).toMatch(
      `names its environment "${name}", and there is another of that name`,
    );
});

it("what is no environment is said in one line", async () => {
  const about = (text: string): Promise<string> => refusal(fileOf(text));
  expect(await refusal(join(folder, "nowhere.ts"))).toBe(`--env: ${join(folder, "nowhere.ts")} does not exist`);
  expect(await refusal(`${folder}/`)).toBe(`--env: ${folder} is no file`);
  expect(await about("export default {}")).toMatch(/its default export has no text "name"; expected what defineGame/);
  expect(await about("export default class {}")).toMatch(/its default export is a function; expected/);
  expect(await about('export default { name: "a", makeTask() {} }')).toMatch(/is a game: export what defineGame makes/);
  expect(await about(`export default { ...${specOf("b")}, random: undefined }`)).toMatch(/has no function "random"/);
  expect(await about(`export default { ...${specOf("b")}, expert: 5 }`)).toMatch(/has an "expert" that is no function/);
  expect(await about(`export default { ...${specOf("b")}, families: undefined }`)).toMatch(/has no list "families"/);
  expect(await about(`export default ${specOf("a b")}`)).toMatch(/has the name "a b": expected letters/);
  expect(await about("const x = 1;")).toMatch(/exports nothing; expected .* as the default export$/);
  expect(await about('export const game = "x"')).toMatch(/has no default export, and its export "game" is a string;/);
  expect(await about(`export const a = ${specOf("a")}; export const b = a;`)).toMatch(
    /exports a, b: make one of them the default export$/,
  );
  expect(await about('throw new Error("no\\nluck")')).toMatch(/cannot be loaded: no luck$/);
  expect(await about("throw Object.create(null)")).toMatch(/cannot be loaded: a value without words, of type object$/);
  const waits = fileOf("await new Promise(() => {});");
  await expect(loadEnvironment(waits, "--env", 20)).rejects.toThrow(
    `${waits} cannot be loaded: it is not there after 0.02 s; what does it wait for?`,
  );
  expect(await about('import "./not-there.mjs"')).toMatch(/cannot be loaded: .*not-there\.mjs/);
});

it("a run goes on only with the file that it began with", async () => {
  const path = fileOf(`export default ${specOf("kept")};`);
  const options = await withUserFiles(parseStart(["--env", path, "--method", "grpo"]) as StartOptions);
  const preset = presetFor(options);
  await loadEnvironmentOf(preset);
  await expect(loadEnvironmentOf({ ...preset, env: "other" })).rejects.toThrow(
    /^the run's environment: .* has the environment "kept", expected "other"$/,
  );
  writeFileSync(path, `export default ${specOf("kept")}; // changed`);
  await expect(loadEnvironmentOf(preset)).rejects.toThrow(
    /^the run's environment: .* is not what the run began with: its SHA-256 is \w{12}…, expected \w{12}…$/,
  );
  rmSync(path);
  await expect(loadEnvironmentOf(preset)).rejects.toThrow(/^the run's environment: .* does not exist$/);
  // What does not play does without the file; what plays says what is missing.
  const elsewhere = { ...preset, env: "unseen", environmentFile: { path, sha256: "0".repeat(64) } };
  const settings = presetOf({ path: "runs/x", config: { preset: elsewhere } });
  expect(() => environmentOf(settings)).toThrow(/the environment "unseen" of .* has not been loaded/);
});
