/** `npm run generate -- --model-path DIR --beams N`: flags reach the search, texts are shown, wrong flags refused. */
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startAsNpmIn } from "../../support/mainJob.ts";

const MODEL = fileURLToPath(new URL("../../fixtures/pretrained/stories260K", import.meta.url));

/** What the program printed that is to end with this code. */
async function said(code: number, ...flags: readonly string[]): Promise<string> {
  const prompt = ["--model-path", MODEL, "--prompt", "Once upon a time", "--max-tokens", "12"];
  const job = startAsNpmIn(tmpdir(), "run/cli/generate.ts", [...prompt, ...flags]);
  expect(await job.done, job.seen()).toBe(code);
  return job.seen().trim();
}

/** The log-probability and the text of each line. */
const beamsIn = (shown: string): [number, string][] =>
  Array.from(shown.matchAll(/^(-\d+\.\d{3}) {2}(.*)$/gm), ([, logProb, text]) => [Number(logProb), text!]);

test("as many texts as beams, best first; groups with a penalty find others", async () => {
  const plain = beamsIn(await said(0, "--beams", "4"));
  const groups = beamsIn(await said(0, "--beams", "4", "--beam-groups", "4", "--diversity-penalty", "2"));
  for (const beams of [plain, groups]) {
    const logProbs = beams.map(([logProb]) => logProb);
    expect(logProbs).toHaveLength(4);
    expect(logProbs).toEqual(logProbs.toSorted((a, b) => b - a));
    expect(new Set(beams.map(([, text]) => text)).size).toBe(4);
  }
  const firstWords = (beams: typeof plain): Set<string> => new Set(beams.map(([, text]) => text.trim().split(" ")[0]!));
  expect(firstWords(groups).size).toBeGreaterThan(firstWords(plain).size);
});

test.each([
  [["--beam-groups", "2"], "--beam-groups is about --beams; add it"],
  [["--beams", "4", "--beam-groups", "3"], "--beam-groups: expected a number that divides --beams 4, got 3"],
  [["--beams", "4", "--temperature", "0.5"], "--beams draws nothing; leave --temperature out"],
  [["--beams", "4", "--beam-groups", "2", "--diversity-penalty", "-1"], "diversity"],
])("%j is refused", async (flags, message) => {
  const shown = await said(2, ...flags);
  expect(shown).toContain(message);
  expect(shown.split("\n").filter((line) => line.includes("worldgrad: "))).toHaveLength(1);
});
