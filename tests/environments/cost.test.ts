/** No action, however long and however written, costs an environment more than it should. */
import { describe, expect, it } from "vitest";
import { ENVIRONMENTS } from "../../environments/index.ts";
import { Rng } from "../../engine/random.ts";
import { FileSystem } from "../../environments/terminal/filesystem.ts";
import { runLine } from "../../environments/terminal/shell.ts";
import { expectBounded, HOSTILE } from "../support/cost.ts";

describe.each(Object.values(ENVIRONMENTS))("$name", (spec) => {
  it("answers hostile actions of any length", { timeout: 60_000 }, async () => {
    const env = spec.make();
    const task = await env.reset(1);
    const rng = new Rng(2);
    const verbs = new Set(["", ...Array.from({ length: 3 }, () => `${spec.random(rng, task).split(/\s/, 1)[0]} `)]);
    for (const [name, text] of Object.entries(HOSTILE)) {
      await expectBounded(`${name} in ${spec.name}`, async (n) => {
        for (const verb of verbs) {
          const episode = spec.make();
          await episode.reset(1);
          const { observation } = await episode.step(verb + text(n));
          expect(typeof observation).toBe("string");
        }
      });
    }
  });
});

describe("a line of the shell", () => {
  /** A tree of 960 nodes and a file of 16,384 lines. */
  const wide = (): FileSystem => {
    const fs = new FileSystem();
    for (let i = 0; i < 956; i++) fs.write(`f${i}`, "");
    fs.write("nl", "\n".repeat(16_384));
    return fs;
  };
  const ranges = Array.from({ length: 600 }, (_, i) => String.fromCodePoint(0x4e00 + 3 * i, 0x2d, 0x4e00 + 3 * i + 1));
  const bracket = (): FileSystem => {
    const fs = new FileSystem();
    fs.write("wide", "\u3042".repeat(32_000));
    return fs;
  };
  it.each<[string, () => FileSystem, string]>([
    ["a write for every line in a wide tree", wide, "grep '' nl > o1"],
    ["fourteen of them", wide, Array.from({ length: 14 }, (_, i) => `grep '' nl > o${i}`).join("; ")],
    ["a bracket of 600 ranges", bracket, `grep -c '[${ranges.join("")}]' wide`],
    ["three of them", bracket, `grep -c '[${ranges.slice(0, 550).join("")}]' wide wide wide`],
    ["a repeated bracket", bracket, `grep -c '[${ranges.slice(0, 500).join("")}]*x' wide`],
  ])("%s", async (what, make, line) => {
    const fs = make();
    await expectBounded(what, () => expect(runLine(line, fs).code).toBeLessThan(256), [line.length]);
  });
});
