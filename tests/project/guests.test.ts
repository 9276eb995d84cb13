/** The four rooms know no guest: no method, world, plug-in, op from outside or form of weights by its name. */
import { describe, expect, it } from "vitest";
import { ADVANTAGES } from "../../methods/advantages/index.ts";
import { METHODS } from "../../methods/choice.ts";
import { POLICY_LOSSES } from "../../methods/losses/index.ts";
import { TERMS, TOKEN_WEIGHTS, WORLD } from "../../methods/presets.ts";
import { ENVIRONMENTS } from "../../environments/index.ts";
import * as packedOps from "../../pretrained/packed/ops.ts";
import { PLUGINS } from "../../run/plugins.ts";
import { isTypeScript, projectFiles, readSource } from "./sources.ts";

const ROOMS = /^(?:kernels|engine|nn|rl)\//;
/** Names that the rooms themselves have: GRPO's advantages, PPO's clip, ECHO. */
const OWN = ["grpo", "ppo", "none", "echo", "dual_clip", "centred"];
/** Words that mean something else there. */
const WORDS = ["code", "predictions", "replay", "tools"];

const tables = [ADVANTAGES, METHODS, POLICY_LOSSES, TERMS, TOKEN_WEIGHTS, WORLD, ENVIRONMENTS];
const guests = new Set([...tables.flatMap((table) => Object.keys(table)), ...PLUGINS.map(({ name }) => name)]);
// WGSL has a type f16, too.
for (const name of [...Object.keys(packedOps), "packedMatrix", "PackedMatrix", "bf16", "q8"]) guests.add(name);
for (const name of [...OWN, ...WORDS]) guests.delete(name);

/** Names of guests among a module's texts and keys; comments may name whoever a rule is for. */
export function named(source: string): string[] {
  const code = source.replace(/\/\*[\s\S]*?\*\/|(?<![:"'`])\/\/.*$/gm, "");
  const words = [...code.matchAll(/"([\w+.-]+)"|(?<![\w.])([\w]+):/g)].map(([, text, key]) => text ?? key!);
  return words.filter((word) => guests.has(word));
}

describe("the four rooms", () => {
  it("name no method, no world, no plug-in and no op from outside", () => {
    const paths = projectFiles().filter((path) => ROOMS.test(path) && isTypeScript(path));
    expect(paths.length).toBeGreaterThan(150);
    const found = paths.flatMap((path) => named(readSource(path)).map((name) => `${path}: ${name}`));
    expect(found).toEqual([]);
  });

  it("would be seen to", () => {
    expect(guests.size).toBeGreaterThan(60);
    expect(named('const op = { name: "packedMatmul" }; // "packedRows"')).toEqual(["packedMatmul"]);
    expect(named('if (loss.name === "dapo") x(); const t = { gridworld: 1 }; // "gspo"')).toEqual([
      "dapo",
      "gridworld",
    ]);
  });
});
