/** The messages between learners; learners behind a real server are in learners.long.test.ts. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { arraysFromBytes, arraysToBytes, jsonToArray } from "../../nats/arrays.ts";
import { gradientFromBytes, gradientToBytes, turnFromJson, workFromBytes, workToBytes } from "../../nats/passes.ts";
import { rowOf } from "../../rl/methods/columns.ts";
import { pack } from "../../rl/train/pack.ts";
import { randomEpisode, V } from "../support/rlToy.ts";

describe("what learners send", () => {
  const episodes = [1, 2].map((seed) => randomEpisode(new Rng(seed)));
  const rows = episodes.map((episode) =>
    rowOf(episode, { wWorld: new Float64Array(episode.stream.ids.length).fill(0.5) }),
  );
  const [batch] = [...pack(rows, { padId: 0 })];
  const how = { lr: 0.1, ratios: "exact", dropout: undefined, gradientCheckpointing: false } as const;
  const work = { how, batches: [{ n: 3, batch: batch! }] };

  it("comes back as it was", () => {
    const back = workFromBytes(workToBytes(work), V).batches[0]!;
    const { episode: _, token: __, ...rest } = batch!;
    expect(back).toMatchObject({ n: 3, batch: rest });
    const floats = new Float32Array([1, NaN, -0]);
    const gradient = { gradient: [floats], logProbs: floats, entropy: floats, terms: [1, 2, 3, undefined, NaN] };
    const finite = { ...gradient, terms: [1, 2, 3, undefined, -0.5] };
    expect(gradientFromBytes(gradientToBytes(4, 2, finite), 4, 2, 3)).toEqual(finite);
    expect(gradientFromBytes(gradientToBytes(4, 2, gradient), 4, 2, 3)).toEqual(gradient);
  });

  it.each<[string, () => unknown]>([
    ["ids of micro-batch 0 must be in [0, 4)", () => workFromBytes(workToBytes(work), 4)],
    ["places of micro-batch 0", () => workFromBytes(workToBytes(wrong({ index: batch!.index.map(() => 999) })), V)],
    ["segments of micro-batch 0", () => workFromBytes(workToBytes(wrong({ segments: 1 })), V)],
    ["ids for 9 rows of", () => workFromBytes(workToBytes(wrong({ rows: 9 })), V)],
    ['"temperatures" has not', () => workFromBytes(workToBytes(wrong({ targets: new Int32Array(1) })), V)],
    ["of another micro-batch than 2 of turn 4", () => gradientFromBytes(made(4, 3), 4, 2, 1)],
    ["log-probabilities and entropies of 2 tokens", () => gradientFromBytes(made(4, 2), 4, 2, 2)],
    ["the facts are missing", () => gradientFromBytes(arraysToBytes([new Float32Array(1)]), 4, 2, 1)],
    ["the header is missing", () => arraysFromBytes("here", new Uint8Array(3))],
    ["array 0 has no type and length", () => arraysFromBytes("here", new TextEncoder().encode('[["f16",1]]\n'))],
    ["expected 5 terms", () => gradientFromBytes(arraysToBytes([jsonToArray({ turn: 1, n: 1, terms: [] })]), 1, 1, 0)],
    ["protocol must|speaks protocol", () => turnFromJson('{"protocol":9}')],
  ])("is refused: %s", (why, read) => expect(read).toThrow(new RegExp(why.replace(/[[\]()]/g, "\\$&"))));

  const wrong = (more: object): typeof work => ({ how, batches: [{ n: 0, batch: { ...batch!, ...more } }] });
  const made = (turn: number, n: number): Uint8Array =>
    gradientToBytes(turn, n, {
      gradient: [],
      logProbs: new Float32Array(1),
      entropy: new Float32Array(1),
      terms: [0, 0, 0, undefined, undefined],
    });
});
