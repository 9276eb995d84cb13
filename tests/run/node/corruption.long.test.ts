/**
 * Every file of a run × every kind of damage: a flipped bit at several places, cut in half, emptied, gone, and the file
 * of the same name of another run. What a resumed run would go on from is refused before anything is trained, in one
 * line that names the file; what is harmless is listed here, with the reason.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Device, device as makeDevice } from "../../../engine/device.ts";
import { WorldgradError } from "../../../engine/errors.ts";
import { Run } from "../../../run/run.ts";
import { createRun, openRun } from "../../../run/node/runFolder.ts";
import { QUIET, tinyPreset } from "../../support/tinyRun.ts";
import { tried } from "../../support/tried.ts";

const base = mkdtempSync(join(tmpdir(), "worldgrad-corruption-"));
let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => {
  device.dispose();
  rmSync(base, { recursive: true, force: true });
});

/** Everything that remembers has a file of its own. */
const FLAGS = [
  ["--method", "rae+paw", "--kl", "0.1", "--kl-target", "0.01", "--curriculum", "failed+learnability"],
  ["--replay", "1", "--importance-correction", "tis", "--steps", "3"],
].flat();

async function trained(name: string, seed: string): Promise<string> {
  const preset = tinyPreset(...FLAGS, "--seed", seed);
  const path = join(base, name);
  const run = new Run(createRun(path, { preset }), preset, device, QUIET, new AbortController().signal);
  await run.run(false);
  run.dispose();
  openRun(path).writeFile("report.html", "<html></html>\n");
  return path;
}

type Damage = (bytes: Buffer, other: Buffer) => Buffer | null;
const flipped =
  (share: number): Damage =>
  (bytes) => {
    const damaged = Buffer.from(bytes);
    damaged[Math.floor(share * (bytes.length - 1))]! ^= 0x10;
    return damaged;
  };
const DAMAGE: Readonly<Record<string, Damage>> = {
  "a bit of the first byte": flipped(0),
  "a bit at a quarter": flipped(0.25),
  "a bit in the middle": flipped(0.5),
  "a bit at three quarters": flipped(0.75),
  "a bit near the end": flipped(0.99),
  "cut in half": (bytes) => bytes.subarray(0, bytes.length >> 1),
  emptied: () => Buffer.alloc(0),
  gone: () => null,
  "another run's": (_, other) => other,
};

/** Damage that changes nothing of what the run ends with, and why. */
function harmless(file: string, what: string, newest: string): string | undefined {
  if (file === "report.html") return "it is written anew from the logs";
  if (file.startsWith("checkpoints") && !file.includes(newest)) return "there is a newer checkpoint";
  // Episodes and figures of the last evaluation.
  if (/^(transcripts|metrics)\.jsonl$/.test(file) && what.endsWith("end"))
    return "it is behind the checkpoint, and is written anew";
  if (basename(file) === "checkpoint.json" && what === "gone") return "without it the one before is the newest";
  return undefined;
}

test("each is refused by the file's name, or is known to be harmless", async (context) => {
  const [path, other] = [await trained("run", "1"), await trained("other", "2")];
  const newest = readdirSync(join(path, "checkpoints")).toSorted().at(-1)!;
  const files = readdirSync(path, { recursive: true })
    .map(String)
    .filter((file) => statSync(join(path, file)).isFile());
  expect(files.length).toBeGreaterThan(20);
  const damaged = join(base, "damaged");
  const [wrong, count]: [string[], Record<string, number>] = [[], { refused: 0, harmless: 0, "without effect": 0 }];
  for (const file of files) {
    for (const [what, damage] of Object.entries(DAMAGE)) {
      rmSync(damaged, { recursive: true, force: true });
      cpSync(path, damaged, { recursive: true });
      const [from, at] = [join(other, file), join(damaged, file)];
      const bytes = readFileSync(at);
      const result = damage(bytes, existsSync(from) ? readFileSync(from) : Buffer.alloc(0));
      if (result?.equals(bytes)) {
        count["without effect"]!++; // such as the shape of the model
        continue;
      }
      if (result === null) rmSync(at);
      else writeFileSync(at, result);
      let said = "";
      try {
        openRun(damaged).loadLatestCheckpoint();
      } catch (error) {
        said = error instanceof WorldgradError ? error.message : `not one of ours: ${String(error)}`;
      }
      const reason = harmless(file, what, newest);
      const isRefused =
        (said.includes(basename(file)) || said.includes(newest)) && !said.includes("\n") && !said.startsWith("not one");
      if (reason === undefined ? !isRefused : said !== "") wrong.push(`${file}, ${what}: ${said || "accepted"}`);
      count[reason === undefined ? "refused" : "harmless"]!++;
    }
  }
  tried(context, { files: files.length, ...count });
  expect(wrong).toEqual([]);
});
