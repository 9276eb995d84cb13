/** The experiments of the page: all addresses are possible, and the doctor names the disease of each that breaks. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { device as makeDevice, type Device } from "../../engine/index.ts";
import { experimentOf, type PageAgent, type PageExperiment } from "../../site/experiment.ts";
import { BROKEN, linkTo, WORKING } from "../../site/presets.ts";
import { Session, warmUp, type WarmStart } from "../../site/session.ts";
import { addressOf } from "../../site/words.ts";
import { diagnose } from "../../tools/doctor/diagnose.ts";

const quiet = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };
const inAddress = (address: string): PageExperiment => experimentOf(new URLSearchParams(address));

test.each([...WORKING, ...BROKEN])("$title is an experiment, and its link its address", (preset) => {
  const { words } = inAddress(preset.address);
  expect(addressOf(words).toString()).toBe(preset.address);
  expect(inAddress(new URL(linkTo(preset), "https://example.org/page/?seed=9").search)).toEqual(
    inAddress(preset.address),
  );
});

describe("an experiment that breaks", () => {
  let device: Device;
  const warmStarts = new Map<string, Promise<WarmStart | null>>();
  beforeAll(async () => {
    device = await makeDevice("wasm", { threads: 1 });
  });
  afterAll(() => device.dispose());

  /** The warm start of an experiment; those of one world share it. */
  async function warmStartOf({ warm }: PageExperiment): Promise<WarmStart> {
    if (!warmStarts.has(warm.env)) warmStarts.set(warm.env, warmUp(warm, device, quiet, new AbortController().signal));
    return (await warmStarts.get(warm.env))!;
  }

  /** The problems that the doctor finds when all steps are done. */
  async function problemsOf({ preset }: PageAgent, warm: WarmStart): Promise<string[]> {
    const session = new Session(preset, warm, device, quiet);
    await session.playTo(preset.rl.steps);
    const { metrics, transcripts } = session;
    const { findings } = diagnose({ config: { preset }, metrics, transcripts });
    return findings.flatMap(({ kind, mode }) => (kind === "problem" ? [mode] : []));
  }

  test("shares its warm start with the others of its world, and is short", () => {
    const first = new Map<string, unknown>();
    for (const { address } of BROKEN) {
      const { env, rl: _rl, ...rest } = inAddress(address).warm;
      if (!first.has(env)) first.set(env, rest);
      expect(rest).toEqual(first.get(env));
    }
    expect(Math.max(...BROKEN.map(({ address }) => inAddress(address).agents[0]!.preset.rl.steps))).toBeLessThan(30);
    expect(new Set(BROKEN.map(({ disease }) => disease)).size).toBe(BROKEN.length);
  });

  test.each(BROKEN)(
    "$title: the doctor names $disease, and not for the healthy twin",
    { timeout: 300_000 },
    async (own) => {
      const experiment = inAddress(own.address);
      const warm = await warmStartOf(experiment);
      const [sick, healthy] = experiment.agents as [PageAgent, PageAgent];
      const [found, other] = [await problemsOf(sick, warm), await problemsOf(healthy, warm)];
      console.info(`${own.title}: ${found.join(", ")}; its twin: ${other.join(", ") || "nothing"}`);
      expect(found).toContain(own.disease);
      expect(other).not.toContain(own.disease);
    },
  );
});
