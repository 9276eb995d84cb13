/**
 * Agents that think before they act, in whole runs: a resumed session, a thread that plays, and `generate` read what
 * the model writes in one way. What demonstrations hold: thoughts.test.ts.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDisplay } from "../../run/display/display.ts";
import type { Display } from "../../run/display/contract.ts";
import { parseStart } from "../../run/node/commandLine.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import type { Preset } from "../../run/preset.ts";
import { presetFor, presetOf } from "../../run/presets.ts";
import { threadWorkers } from "../../run/node/threads.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { Run } from "../../run/run.ts";
import { createRun, openRun, type RunFolder } from "../../run/node/runFolder.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { definedOf, metricsOf, startIn } from "../support/mainJob.ts";

const presetOfFlags = (...args: string[]): Preset => presetFor(definedOf(parseStart(args) as StartOptions));
const THINK = ["--set", "sft.thoughts=true"];

const folder = mkdtempSync(join(tmpdir(), "worldgrad-thoughts-"));
let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => {
  device.dispose();
  rmSync(folder, { recursive: true, force: true });
});

/** Learns the form of a thought and of an action in seconds, and little else. */
function small(...flags: string[]): Preset {
  const preset = presetOfFlags("--quick", "--env", "gridworld", ...THINK, ...flags);
  return {
    ...preset,
    tokenizer: { vocabSize: 352, corpusEpisodes: 100 },
    model: { ...preset.model, hiddenSize: 32, layers: 1, heads: 4, intermediateSize: 64 },
    sft: {
      ...preset.sft,
      demonstrations: 64,
      observationWeight: 0,
      steps: 120,
      batchSize: 8,
      warmup: 5,
      lr: 1e-2,
      checkpointEvery: 120,
    },
    rl: { ...preset.rl, steps: 4, groups: 3, groupSize: 4 },
    rollout: { ...preset.rollout, maxTurns: 3 },
    evaluation: { every: 2, episodes: 4, finalEpisodes: 8 },
    checkpointEvery: 1,
  };
}

describe("a run", () => {
  const preset = small("--method", "grpo+actfocus", "--set", "actfocus.alpha=0");
  const display: Display = createDisplay({ stream: { write: () => true }, isTTY: false, env: {} });
  /** Everything but `async/…`. */
  const lines = (name: string): unknown[] =>
    metricsOf(join(folder, name)).map((line) =>
      Object.fromEntries(Object.entries(line).filter(([key]) => !key.startsWith("async/"))),
    );

  /** A folder that stands where RL begins. */
  function begun(name: string, settings: Preset): RunFolder {
    const [warm, own] = [openRun(join(folder, "warm")), createRun(join(folder, name), { preset: settings })];
    for (const line of warm.readMetrics()) own.appendMetrics(line);
    const { step, files } = warm.loadLatestCheckpoint()!;
    own.saveCheckpoint(step, files);
    return own;
  }
  async function finish(own: RunFolder, signal = new AbortController().signal, shown = display): Promise<boolean> {
    const playAhead = { startWorkers: threadWorkers, train: trainRlAsync };
    const run = new Run(own, presetOf(own), device, shown, signal, { playAhead });
    const summary = await run.run(true);
    run.dispose();
    return summary !== null;
  }

  beforeAll(async () => {
    const run = new Run(
      createRun(join(folder, "warm"), { preset }),
      preset,
      device,
      display,
      new AbortController().signal,
    );
    await run.warmUp(false);
    run.dispose();
    await finish(begun("whole", preset));
  }, 300_000);

  test("keeps what was asked for, and its transcripts show thoughts as thoughts, up to the opening tag", () => {
    expect(JSON.parse(readFileSync(join(folder, "whole", "config.json"), "utf8"))).toMatchObject({
      preset: { sft: { thoughts: true } },
    });
    const records = openRun(join(folder, "whole")).readTranscripts();
    expect(records.filter(({ phase }) => phase === "rl").length).toBeGreaterThan(0);
    let whole = 0;
    for (const { tokens, turns, phase } of records)
      for (let turn = 0; turn < turns; turn++) {
        const own = tokens.filter((t) => t.turn === turn && (t.role === "thought" || t.role === "action"));
        const text = own.map((t) => t.text).join("");
        const close = text.lastIndexOf("]");
        const open = close < 0 ? -1 : text.lastIndexOf("[", close);
        let at = 0;
        for (const token of own.filter((t) => !t.text.startsWith("<|"))) {
          const isAction = open >= 0 && at >= open && at <= close;
          expect(token.role, `${token.text} at ${at} of ${text}`).toBe(isAction ? "action" : "thought");
          at += token.text.length;
          // ActFocus with α = 0: nothing but actions is trained.
          if (phase === "rl" && token.role === "thought") expect(token.wPolicy).toBe(0);
        }
        whole += Number(open > 0);
      }
    expect(whole).toBeGreaterThan(5); // actions behind thoughts
  });

  test("continues after a stop as the run that never stopped, and with a thread that plays as without", async () => {
    const rl = metricsOf(join(folder, "whole")).filter(({ phase }) => phase === "rl");
    for (const line of rl) {
      expect(line["completions/mean_thought_length"]).toBeGreaterThan(10);
      expect(line["completions/mean_thought_length"]).toBeLessThan(line["completions/mean_length"] as number);
    }
    const stop = new AbortController();
    let inRl = false;
    const stopping: Display = {
      ...display,
      phase: (name) => void (inRl = name.startsWith("reinforcement")),
      update: (done) => inRl && done === 2 && stop.abort(),
    };
    const stopped = begun("stopped", preset);
    expect(await finish(stopped, stop.signal, stopping)).toBe(false);
    expect(metricsOf(stopped.path).length).toBeLessThan(metricsOf(join(folder, "whole")).length);
    expect(await finish(openRun(stopped.path))).toBe(true);
    expect(lines("stopped")).toEqual(lines("whole"));
    expect(openRun(stopped.path).readTranscripts()).toEqual(openRun(join(folder, "whole")).readTranscripts());

    expect(await finish(begun("threads", { ...preset, async: { workers: 1, maxStaleness: 0 } }))).toBe(true);
    expect(lines("threads")).toEqual(lines("whole"));
  }, 300_000);

  test("is played by generate: the environment hears the action without its thought", async () => {
    let answered = 0;
    for (const seed of ["0", "1"]) {
      const job = startIn(folder, "run/cli/generate.ts", ["--run", "whole", "--seed", seed]);
      expect(await job.done, job.seen()).toBe(0);
      const turns = [...job.seen().matchAll(/^\$ (.*)\n([^\n]*)/gm)].map(([, wrote, came]) => [wrote!, came!]);
      expect(turns.length, job.seen()).toBeGreaterThan(0);
      for (const [wrote, came] of turns) {
        if (!/try .*\[(up|right|down|left)\]$/.test(wrote!)) continue;
        answered++;
        expect(came, job.seen()).toMatch(/^([.OG@]( [.OG@]){3}|You .*|No moves left\.)$/);
      }
    }
    expect(answered).toBeGreaterThan(0);
  });
});
