/**
 * An agent of other people's, in a process of its own, becomes better at its task; and however many requests it makes,
 * nothing of them stays.
 */
import { spawn } from "node:child_process";
import { getEventListeners } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { trainStep } from "../../../rl/train/step.ts";
import { agentEpisodes, servePolicy } from "../../../connect/serve/index.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { toyRlOptions } from "../../support/rlRuns.ts";
import { toyModel, toyTemplate, toyTokenizer } from "../../support/rlToy.ts";

it("an agent in another process learns", async () => {
  const device = await wasm.open();
  const model = toyModel(device);
  const policy = { model, tokenizer: toyTokenizer, template: toyTemplate };
  const server = await servePolicy(policy, { name: "toy", rows: 16 });
  const other = spawn(process.execPath, [fileURLToPath(new URL("./agent.mjs", import.meta.url))], {
    stdio: ["pipe", "inherit", "inherit"],
  });
  try {
    const source = agentEpisodes(server, {
      groups: 1,
      groupSize: 16,
      play: async ({ baseUrl, step, member, signal }) => {
        other.stdin.write(`${JSON.stringify({ baseUrl, seed: 1000 * step + 10 * member })}\n`);
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      },
    });
    const options = { ...toyRlOptions(model, { lr: () => 0.02, groups: 1, groupSize: 16 }), maxBatchTokens: 200 };
    const rewards: number[] = [];
    for (let step = 0; step < 16; step++) {
      const report = await trainStep(options, source, step);
      rewards.push((await source.updated!(report!)).metrics["reward"]!);
    }
    const mean = (part: readonly number[]): number => part.reduce((a, b) => a + b, 0) / part.length;
    expect(mean(rewards.slice(0, 3))).toBeLessThan(0.4);
    expect(mean(rewards.slice(-3))).toBeGreaterThan(0.8);
    expect(server.engine.version).toBe(16);
  } finally {
    other.kill();
    await server.close();
    device.dispose();
  }
}, 300_000);

it("a thousand requests leave one listener on their episode's signal", async () => {
  const device = await wasm.open();
  const policy = { model: toyModel(device), tokenizer: toyTokenizer, template: toyTemplate };
  const server = await servePolicy(policy, { name: "toy" });
  try {
    const { rollout, baseUrl } = server.openRollout();
    const { signal } = rollout;
    const ask = async (maxTokens: number): Promise<number> => {
      const response = await fetch(`${baseUrl}/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "toy", prompt: [12, 0], max_tokens: maxTokens }),
      });
      await response.text();
      return response.status;
    };
    for (let i = 0; i < 10; i++) expect(await ask(1)).toBe(200);
    // Refused when all is set up: sampling would take minutes.
    for (let i = 0; i < 99; i++)
      expect(new Set(await Promise.all(Array.from({ length: 10 }, () => ask(-1))))).toEqual(new Set([400]));
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    // Where Node keeps the signals that depend on this one, each for ever (AbortSignal.any, Node 20).
    const own = Object.getOwnPropertySymbols(signal).map((key) => (signal as never)[key] as unknown);
    expect(own.flatMap((value) => (value instanceof Set ? [value.size] : []))).toEqual([]);
  } finally {
    await server.close();
    device.dispose();
  }
});
