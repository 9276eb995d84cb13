/**
 * What the model reads of earlier turns (`HistoryTemplate`): which tokens are left out, that a token is
 * scored behind what it was drawn behind, and what stays as it was.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  beginTurns,
  firstTurnRead,
  type History,
  type HistoryTemplateOptions,
  templateOf,
} from "../../data/history.ts";
import { toolsOfTokens } from "../../connect/toolWeights.ts";
import { demonstrate } from "../../data/index.ts";
import type { Device } from "../../engine/device.ts";
import {
  emptyStream,
  isAgentToken,
  longestRead,
  readBefore,
  readParts,
  type TokenStream,
  type Trajectory,
} from "../../rl/episode/stream.ts";
import type { EpisodeFormat } from "../../rl/episode/template.ts";
import { Decoder } from "../../nn/index.ts";
import { worldModelLosses } from "../../rl/evaluate.ts";
import { rowOf } from "../../rl/objective/columns.ts";
import { Player } from "../../rl/play/player.ts";
import { rollout, type RolloutOptions } from "../../rl/play/rollout.ts";
import { imitationRows } from "../../rl/train/imitation.ts";
import { pack } from "../../rl/train/pack.ts";
import { score } from "../../rl/train/score.ts";
import { reference, wasm } from "../support/rlExecutors.ts";
import { endingModel, letters, toyRequests, toySpec, toyTokenizer } from "../support/rlToy.ts";
import { CHATML, qwen } from "../support/chatml.ts";

describe("the first turn that is read", () => {
  const firsts = (history: History, turns: number): number[] =>
    Array.from({ length: turns }, (_, turn) => firstTurnRead(history, turn));
  it.each<[History, number[]]>([
    [{}, [0, 0, 0, 0, 0, 0]],
    [{ turns: 1 }, [0, 0, 1, 2, 3, 4]],
    [{ turns: 3 }, [0, 0, 0, 0, 1, 2]],
    [{ turns: 3, keep: 3 }, [0, 0, 0, 0, 1, 2]],
    [{ turns: 3, keep: 1 }, [0, 0, 0, 0, 3, 3, 3, 6, 6, 6, 9]],
    [{ turns: 3, keep: 2 }, [0, 0, 0, 0, 2, 2, 4, 4, 6]],
    [{ turns: 1, keep: 1 }, [0, 0, 1, 2]],
  ])("%j", (history, first) => {
    expect(firsts(history, first.length)).toEqual(first);
  });

  it("leaves at most `turns`, and `keep` after each drop", () => {
    const sizes = fc.integer({ min: 1, max: 9 });
    fc.assert(
      fc.property(sizes, sizes, fc.integer({ min: 0, max: 60 }), (a, b, turn) => {
        const [turns, keep] = [Math.max(a, b), Math.min(a, b)];
        const [first, before] = [firstTurnRead({ turns, keep }, turn), firstTurnRead({ turns, keep }, turn - 1)];
        expect(turn - first).toBeLessThanOrEqual(turns);
        if (turn > 0 && first !== before) expect(turn - first).toBe(keep);
      }),
    );
  });
});

const thought = ["<think>", "</think>"] as const;

describe("what the model reads", () => {
  /** What it reads before each turn of an episode in which it says these, and is answered by "o0", "o1", … */
  const reads = (
    options: HistoryTemplateOptions,
    said: readonly string[],
  ): { texts: string[]; stream: TokenStream } => {
    const template = templateOf(qwen, { format: CHATML, ...options });
    const stream = emptyStream();
    template.appendTask(stream, "t");
    template.beginTurn(stream);
    const texts = [qwen.decode(readBefore(stream))];
    said.forEach((text, turn) => {
      template.appendSampled(stream, turn, [...qwen.encode(text), template.endId]);
      template.appendObservation(stream, turn, template.encodeObservation(`o${turn}`, 9));
      template.beginTurn(stream);
      texts.push(qwen.decode(readBefore(stream)));
    });
    const again = structuredClone(stream);
    delete again.contexts;
    beginTurns(template, again);
    // The last turn has no token yet, so that a whole episode does not show that it would begin a context.
    const last = ({ at }: { readonly at: number }): boolean => at < stream.ids.length;
    expect(again.contexts ?? []).toEqual((stream.contexts ?? []).filter(last));
    return { texts, stream };
  };
  const user = (text: string): string => `<|im_start|>user\n${text}<|im_end|>\n`;
  const own = (text: string): string => `<|im_start|>assistant\n${text}<|im_end|>\n`;
  const asks = "<|im_start|>assistant\n";
  const three = ["<think>\nA\n</think>\n\na", "b", "<think>C</think>c"];

  it("is all without the option, or if it changes nothing", () => {
    for (const options of [{}, { history: {} }, { history: { turns: 9 } }, { history: { thoughts: true } }]) {
      const { texts, stream } = reads({ thought, ...options }, three);
      expect(stream.contexts).toBeUndefined();
      expect(texts.at(-1)).toBe(qwen.decode(stream.ids));
    }
  });

  it("is without earlier thoughts as a chat template writes it, and begins anew only behind a thought", () => {
    const { texts, stream } = reads({ thought, history: { thoughts: false } }, three);
    expect(texts).toEqual([
      user("t") + asks,
      user("t") + own("a") + user("o0") + asks,
      user("t") + own("a") + user("o0") + own("b") + user("o1") + asks,
      user("t") + own("a") + user("o0") + own("b") + user("o1") + own("c") + user("o2") + asks,
    ]);
    expect(stream.contexts!.length).toBe(2);
    expect(stream.ids.length).toBeGreaterThan(longestRead(stream));
  });

  it("keeps no opening of a thought that the format has begun", () => {
    const format = { ...CHATML, action: "<|im_start|>assistant\n<think>\n" };
    const { texts } = reads({ format, thought, history: { thoughts: false } }, ["A\n</think>\n\na", "</think>b"]);
    const begun = `${asks}<think>\n`;
    expect(texts).toEqual([
      user("t") + begun,
      user("t") + own("a") + user("o0") + begun,
      user("t") + own("a") + user("o0") + own("b") + user("o1") + begun,
    ]);
  });

  it("a thought without an end, an empty action, a thought alone: nothing of them but the end is left", () => {
    const { texts } = reads({ thought, history: { thoughts: false } }, ["<think>A", "", "<think>A</think>"]);
    const left = [0, 1, 2].map((turn) => own("") + user(`o${turn}`)).join("");
    expect(texts.at(-1)).toBe(user("t") + left + asks);
  });

  it("with tags around the action only these and what is between them stays", () => {
    const { texts } = reads({ action: ["[", "]"], history: { thoughts: false } }, ["A [a] B", "no tags", "[c]"]);
    expect(texts.at(-1)).toBe(
      user("t") + own("[a]") + user("o0") + own("") + user("o1") + own("[c]") + user("o2") + asks,
    );
  });

  it("the oldest turns are left out, the task and the last answer never", () => {
    const { texts, stream } = reads({ history: { turns: 1 } }, ["a", "b", "c"]);
    expect(texts.slice(1)).toEqual(
      ["a", "b", "c"].map((said, turn) => user("t") + own(said) + user(`o${turn}`) + asks),
    );
    expect(stream.contexts!.map(({ at }) => stream.turns[at] ?? 3)).toEqual([2, 3]);
    const both = reads({ thought, history: { turns: 2, keep: 1, thoughts: false } }, [...three, "<think>D</think>d"]);
    expect(both.texts.at(-1)).toBe(user("t") + own("c") + user("o2") + own("d") + user("o3") + asks);
  });

  it("a format with no text that asks for an action, as Mistral's: the same rules", () => {
    const format: EpisodeFormat = { ...CHATML, action: "" };
    const said = (text: string): string => `${text}<|im_end|>\n`;
    const { texts } = reads({ format, thought, history: { thoughts: false, turns: 1 } }, three);
    expect(texts).toEqual([
      user("t"),
      user("t") + said("a") + user("o0"),
      user("t") + said("b") + user("o1"),
      user("t") + said("c") + user("o2"),
    ]);
  });

  it("ECHO's weight by tool is that of the whole episode, whatever was left out", () => {
    const { stream } = reads({ thought, history: { thoughts: false, turns: 1 } }, ["<think>A</think>cat x", "ls"]);
    const { contexts, ...whole } = stream;
    expect(contexts!.length).toBeGreaterThan(0);
    const template = templateOf(qwen, { format: CHATML, thought });
    const tools = (own: TokenStream): readonly (string | undefined)[] =>
      toolsOfTokens([{ stream: own } as Trajectory], template)[0]!;
    expect(tools(stream)).toEqual(tools(whole));
    expect(new Set(tools(stream))).toEqual(new Set([undefined, "cat", "ls"]));
  });

  it.each<[History, string]>([
    [{ turns: 0 }, "history: turns must be an integer ≥ 1, got 0"],
    [{ turns: 1.5 }, "history: turns must be an integer ≥ 1, got 1.5"],
    [{ turns: 2, keep: 3 }, "history.keep: expected at most history.turns, 2, got 3"],
    [{ keep: 1 }, "history.keep: expected at most history.turns, which is missing, got 1"],
    [{ thoughts: 0 } as unknown as History, "history: thoughts must be true or false, got 0"],
    [{ turn: 3 } as unknown as History, "turn"],
  ])("%j is refused", (history, message) => {
    expect(() => templateOf(qwen, { format: CHATML, history })).toThrow(message);
  });
});

// What a model reads is no matter of the executor; the model of this test ends its actions and cannot be made on a GPU.
const executors = [reference, wasm];

describe.each(executors)("played on $name", ({ open, tolerance }) => {
  let device: Device;
  beforeAll(async () => {
    device = await open();
  });
  afterAll(() => device.dispose());
  const TURNS = 6;
  const world = toySpec(letters(TURNS));
  const limits: RolloutOptions = { maxTurns: TURNS, maxActionTokens: 6, maxTokens: 64 };
  const play = (options: HistoryTemplateOptions, more: RolloutOptions = {}): Promise<Trajectory[]> =>
    rollout(endingModel(device), templateOf(toyTokenizer, options), toyRequests(world, 12), { ...limits, ...more });

  it.each<HistoryTemplateOptions>([
    { history: { turns: 1 } },
    { history: { turns: 3, keep: 1 } },
    { action: ["a", "b"], history: { thoughts: false } },
    { action: ["a", "b"], history: { thoughts: false, turns: 2 } },
  ])("$history: every token is scored behind what it was drawn behind", async (options) => {
    const template = templateOf(toyTokenizer, options);
    const played = await play(options);
    expect(played.some(({ stream }) => (stream.contexts?.length ?? 0) > 0)).toBe(true);
    const model = endingModel(device);
    const rows = played.map((trajectory) => rowOf(trajectory));
    for (const maxTokens of [1, 8192]) {
      const { logProbs } = await score(model, rows, {
        padId: template.padId,
        maxTokens,
        scored: ({ trajectory }, t) => isAgentToken(trajectory.stream.roles[t]!),
      });
      for (const [i, { stream }] of played.entries())
        for (const [t, role] of stream.roles.entries()) {
          if (isAgentToken(role)) expect(Math.abs(logProbs[i]![t]! - stream.oldLogProbs[t]!)).toBeLessThan(tolerance);
          else expect(logProbs[i]![t]).toBeNaN();
        }
    }
    // The same episodes as rows of their own, one for each part that was read together, give the same world loss.
    const targets = (stream: TokenStream): number => stream.targets.filter(Boolean).length;
    for (const [i, { nats, tokens }] of (await worldModelLosses(model, template, played)).entries()) {
      const parts = readParts(played[i]!.stream).map(({ ids, from, to }): Trajectory => {
        const part = <T>(column: readonly T[], before: T): T[] => [...ids.map(() => before), ...column.slice(from, to)];
        const { stream } = played[i]!;
        const own: TokenStream = {
          ids: [...ids, ...stream.ids.slice(from, to)],
          roles: part(stream.roles, "prompt"),
          turns: part(stream.turns, 0),
          oldLogProbs: part(stream.oldLogProbs, 0),
          temperatures: part(stream.temperatures, 1),
          versions: part(stream.versions, -1),
          targets: part(stream.targets, false),
        };
        return { ...played[i]!, stream: own };
      });
      const losses = await worldModelLosses(model, template, parts);
      expect(tokens).toBe(targets(played[i]!.stream));
      expect(losses.reduce((sum, loss) => sum + loss.tokens, 0)).toBe(tokens);
      const sum = losses.reduce((total, loss) => total + loss.nats, 0);
      expect(Math.abs(sum - nats)).toBeLessThan(tolerance * Math.max(1, nats));
    }
  });

  it("an episode outgrows the model's positions if each context fits, and not without the option", async () => {
    const short = { maxTokens: 30 };
    const whole = await play({}, short);
    expect(whole.some(({ stopReason }) => stopReason === "context_overflow")).toBe(true);
    const sliding = await play({ history: { turns: 1 } }, short);
    expect(sliding.every(({ stopReason }) => stopReason !== "context_overflow")).toBe(true);
    expect(sliding.some(({ stream }) => stream.ids.length > 30)).toBe(true);
    for (const { stream } of sliding) expect(longestRead(stream)).toBeLessThanOrEqual(30);
  });

  it("one turn more is one context more; the first tokens are those of play without the option", async () => {
    const [whole, sliding] = [await play({}), await play({ history: { turns: 2 } })];
    for (const [i, { stream }] of sliding.entries()) {
      const first = stream.contexts?.[0]?.at ?? stream.ids.length;
      expect(stream.ids.slice(0, first)).toEqual(whole[i]!.stream.ids.slice(0, first));
    }
  });

  it("bursts, few rows and new weights in between change no token", async () => {
    const options: HistoryTemplateOptions = { action: ["a", "b"], history: { thoughts: false, turns: 2 } };
    const streams = (played: readonly Trajectory[]): unknown =>
      played.map(({ stream: { ids, contexts } }) => [ids, contexts]);
    const once = streams(await play(options, { burst: 1 }));
    expect(streams(await play(options, { burst: 4 }))).toEqual(once);
    expect(streams(await play(options, { maxConcurrent: 2 }))).toEqual(once);
    const template = templateOf(toyTokenizer, options);
    const player = new Player(new Decoder(endingModel(device), 12, 64), {
      limits: {
        template,
        temperature: 1,
        maxTurns: TURNS,
        maxActionTokens: 6,
        maxTokens: 64,
        maxObservationTokens: 96,
        timeout: 10_000,
        signal: undefined,
      },
      draw: {},
      rows: 12,
      version: 0,
    });
    const played: Trajectory[] = [];
    // Each answer brings new weights that are the old ones: all is read again from the start of its context.
    const act = letters(TURNS);
    const restless = toySpec((...call) => {
      player.refresh(0);
      return act(...call);
    });
    toyRequests(restless, 12).forEach((request, i) => player.add(request, (trajectory) => (played[i] = trajectory)));
    await player.run();
    player.dispose();
    expect(streams(played)).toEqual(once);
  });

  it("actions that are given stand in the history as others do", async () => {
    const requests = toyRequests(world, 4).map((request) => ({
      ...request,
      forced: (turn: number) => (turn % 2 === 0 ? "f" : undefined),
    }));
    const template = templateOf(toyTokenizer, { history: { turns: 1 } });
    const played = await rollout(endingModel(device), template, requests, limits);
    for (const { stream } of played) {
      const again = structuredClone(stream);
      delete again.contexts;
      beginTurns(template, again);
      expect(again.contexts).toEqual(stream.contexts);
    }
    expect(played.some(({ stream }) => longestRead(stream) < stream.ids.length)).toBe(true);
  });
});

describe("the numbers that draw tokens", () => {
  it("are others in each context, also at the same position", async () => {
    const device = await reference.open();
    const spec = toySpec(letters(40));
    const template = templateOf(toyTokenizer, { history: { turns: 1 } });
    const [{ stream }] = (await rollout(endingModel(device), template, toyRequests(spec, 1), {
      maxTurns: 40,
      maxActionTokens: 24,
    })) as [Trajectory];
    device.dispose();
    const first = Array.from({ length: 40 }, (_, turn) =>
      stream.ids.find((_id, t) => stream.turns[t] === turn && isAgentToken(stream.roles[t]!)),
    );
    expect(new Set(first.slice(3).filter((id) => id !== undefined)).size).toBeGreaterThan(3);
  });
});

describe("a demonstration", () => {
  const template = templateOf(toyTokenizer, { history: { turns: 1 } });
  it("is imitated behind what the model will read, each token once", async () => {
    const shown = await demonstrate(toySpec(letters(5)), {}, 0, template);
    expect(shown.stream.contexts!.length).toBe(3);
    const rows = imitationRows([shown], { observationWeight: 0.5 });
    const [batch] = [...pack(rows, { padId: 99 })] as [ReturnType<typeof pack> extends Generator<infer B> ? B : never];
    expect(batch.rows).toBe(4);
    const weighted = rows[0]!.wWorld.filter((w) => w !== 0).length;
    expect(batch.token.length).toBe(weighted);
    expect(new Set(batch.token).size).toBe(weighted);
    for (const [n, t] of batch.token.entries()) {
      expect(batch.targets[n]).toBe(shown.stream.ids[t]);
      // What stands before a scored token in its line is what the model had read.
      const at = batch.index[n]!;
      const line = at - (at % batch.length);
      const part = readParts(shown.stream).find(({ from, to }) => t >= from && t < to)!;
      expect(Array.from(batch.ids.slice(line, at + 1))).toEqual([...part.ids, ...shown.stream.ids.slice(part.from, t)]);
    }
  });

  it("an empty part, as of a run that was stopped behind a drop, trains nothing and breaks nothing", async () => {
    const shown = await demonstrate(toySpec(letters(3)), {}, 0, template);
    const { stream } = shown;
    stream.contexts = [...stream.contexts!, { at: stream.ids.length, ids: [1, 2] }];
    const [batch] = [...pack(imitationRows([shown]), { padId: 99 })];
    expect(batch!.rows).toBe(3);
  });
});
