/** The experiments of the page: all addresses are possible, and the doctor names the disease of each that breaks. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { device as makeDevice, type Device } from "../../engine/index.ts";
import { experimentOf, type PageAgent, type PageExperiment } from "../../site/experiment.ts";
import { BROKEN, type BrokenPreset, linkTo, WORKING } from "../../site/presets.ts";
import { Session, warmUp, type WarmStart } from "../../site/session.ts";
import { addressOf } from "../../site/words.ts";
import { diagnose } from "../../tools/doctor/diagnose.ts";

const quiet = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };
const inAddress = (address: string): PageExperiment => experimentOf(new URLSearchParams(address));

test.each([...WORKING, ...BROKEN])("$title is an experiment, and its link its address", (preset) => {
  const { words } = inAddress(preset.address);
  expect(addressOf(words).toString()).toBe(preset.address);
  expect(inAddress(new URL(linkTo(preset), "https://example.org/page/").search)).toEqual(inAddress(preset.address));
});

describe("an experiment that breaks", () => {
  let device: Device;
  let warm: WarmStart;
  beforeAll(async () => {
    device = await makeDevice("wasm", { threads: 1 });
    // They begin with one warm start; that of the first is made.
    warm = (await warmUp(inAddress(BROKEN[0]!.address).warm, device, quiet, new AbortController().signal))!;
  }, 300_000);
  afterAll(() => device.dispose());

  /** The problems that the doctor finds when all steps are done. */
  async function problemsOf({ preset }: PageAgent): Promise<string[]> {
    const session = new Session(preset, warm, device, quiet);
    await session.playTo(preset.rl.steps);
    const { metrics, transcripts } = session;
    const { findings } = diagnose({ config: { preset }, metrics, transcripts });
    return findings.flatMap(({ kind, mode }) => (kind === "problem" ? [mode] : []));
  }

  test("shares its warm start with the others, and is short", () => {
    const warmOf = ({ address }: BrokenPreset): unknown => {
      const { rl: _rl, ...rest } = inAddress(address).warm;
      return rest;
    };
    for (const preset of BROKEN) expect(warmOf(preset)).toEqual(warmOf(BROKEN[0]!));
    expect(Math.max(...BROKEN.map(({ address }) => inAddress(address).agents[0]!.preset.rl.steps))).toBeLessThan(30);
    expect(new Set(BROKEN.map(({ disease }) => disease)).size).toBe(BROKEN.length);
  });

  test.each(BROKEN)(
    "$title: the doctor names $disease, and not for the healthy twin",
    { timeout: 300_000 },
    async (own) => {
      const [sick, healthy] = inAddress(own.address).agents as [PageAgent, PageAgent];
      const [found, other] = [await problemsOf(sick), await problemsOf(healthy)];
      console.info(`${own.title}: ${found.join(", ")}; its twin: ${other.join(", ") || "nothing"}`);
      expect(found[0]).toBe(own.disease);
      expect(other).not.toContain(own.disease);
    },
  );
});
