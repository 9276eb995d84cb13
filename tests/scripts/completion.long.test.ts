/** `npm run completion` in a real bash: the words that it offers for what stands on the line. */
import { execFileSync, spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
let script: string;
beforeAll(() => {
  script = execFileSync(process.execPath, ["--import", "tsx", "scripts/completion.ts"], {
    cwd: ROOT,
    encoding: "utf8",
  });
}, 600_000);

/** What is offered for the last of the words, as bash splits a line into them. */
function offered(words: readonly string[], cwd = ROOT): string[] {
  const { stdout, stderr } = spawnSync("bash", ["--norc", "-s", "--", ...words], {
    cwd,
    encoding: "utf8",
    input: `${script}
_npm_completion() { COMPREPLY=(npm-s own); }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_worldgrad
printf '%s\\n' "\${COMPREPLY[@]}"`,
  });
  expect(stderr).toBe("");
  return stdout.trim().split("\n");
}

test.each([
  ["npm start -- --thin", ["--thinking"]],
  ["npm start -- --report-", ["--report-to"]],
  ["npm start -- --env cas", ["castle"]],
  ["npm start -- --env = cas", ["castle"]],
  ["npm start -- --method dapo+act", ["dapo+actfocus"]],
  ["npm start -- --arms grpo,dapo", [""]], // file names, which bash adds
  ["npm start -- --loss dual", ["dual_clip"]],
  ["npm start -- --set ppo.epsilonH", ["ppo.epsilonHigh="]],
  ["npm start -- --device w", ["wasm", "webgpu"]],
  ["npm start -- --steps 3 --self-play r", ["r-zero"]],
  ["npm run evaluate -- --split held", ["heldout"]],
  ["npm run export -- --max", ["--max-shard-size"]],
  ["npm run export -- --run lea", ["learn"]],
  ["npm run ablate -- --tune-f", ["--tune-for"]],
  ["npm run no-such -- --e", [""]],
  // Before the two dashes it is npm's.
  ["npm sta", ["npm-s", "own"]],
  ["npm run exp", ["npm-s", "own"]],
])("%s", (line, words) => expect(offered(line.split(" "))).toEqual(words));

test("a flag has one value after = as after a space, and each method is offered", () => {
  expect(offered(["npm", "start", "--", "--storage", "="])).toEqual(["f32", "bf16", "f16", "q8"]);
  const methods = offered(["npm", "start", "--", "--method", ""]);
  expect(methods).toEqual(expect.arrayContaining(["grpo", "dapo", "ppo", "echo", "paw", "actfocus", "sft", "random"]));
  expect(offered(["npm", "start", "--", "--env", ""])).not.toContain("options");
});

test("in the folder of another project npm's own completion goes on", () =>
  expect(offered(["npm", "start", "--", "--e"], "/")).toEqual(["npm-s", "own"]));
