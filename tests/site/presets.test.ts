/** The addresses of the page's experiments. tests/site/browser/presets.long.test.ts plays those that break. */
import { expect, test } from "vitest";
import { experimentOf, type PageExperiment } from "../../site/experiment.ts";
import { BROKEN, linkTo, WORKING } from "../../site/presets.ts";
import { addressOf } from "../../site/words.ts";

const inAddress = (address: string): PageExperiment => experimentOf(new URLSearchParams(address));

test.each([...WORKING, ...BROKEN])("$title is an experiment, and its link its address", (preset) => {
  const { words } = inAddress(preset.address);
  expect(addressOf(words).toString()).toBe(preset.address);
  expect(inAddress(new URL(linkTo(preset), "https://example.org/page/?seed=9").search)).toEqual(
    inAddress(preset.address),
  );
});

test("each that breaks is short, has its own disease, and shares the warm start of its world", () => {
  const first = new Map<string, unknown>();
  for (const { address } of BROKEN) {
    const { env, rl: _rl, ...rest } = inAddress(address).warm;
    if (!first.has(env)) first.set(env, rest);
    expect(rest).toEqual(first.get(env));
  }
  expect(Math.max(...BROKEN.map(({ address }) => inAddress(address).agents[0]!.preset.rl.steps))).toBeLessThan(30);
  expect(new Set(BROKEN.map(({ disease }) => disease)).size).toBe(BROKEN.length);
});
