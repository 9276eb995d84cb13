/**
 * Beam search against enumeration: all continuations of a tiny model with their exact probabilities, and the search
 * written out over a table of them.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { scope } from "../../engine/scope.ts";
import { advance, type Beam, beamSearch, type BeamSearchOptions, type Hypothesis } from "../../papers/beamSearch.ts";
import { generate } from "../../nn/generate.ts";
import { forward, logits as logitsOf, type Model } from "../../nn/transformer.ts";
import { everyExecutor, reference } from "../support/rlExecutors.ts";
import { toyModel } from "../support/rlToy.ts";

const V = 4;
const STOP = 3;
const LENGTH = 3;
const PROMPT = [1, 0, 2];
const tiny = (device: Device, seed = 1): Model => toyModel(device, seed, { vocabSize: V });

let device: Device;
let model: Model;
let after: Map<string, readonly number[]>;
beforeAll(async () => {
  device = await reference.open();
  model = tiny(device);
  after = await tableOf(model);
});
afterAll(() => device.dispose());

/** ln p of every next token after every text of fewer than three tokens, one forward pass without a cache for each. */
async function tableOf({ params, config }: Model): Promise<Map<string, readonly number[]>> {
  const table = new Map<string, readonly number[]>();
  const visit = async (text: readonly number[]): Promise<void> => {
    const ids = [...PROMPT, ...text];
    const values = scope(() =>
      logitsOf(params, forward(params, config, tensor(Int32Array.from(ids), { device, shape: [1, ids.length] }))),
    );
    const row = [...(await values.read())].slice(-V);
    const total = Math.log(row.reduce((sum, x) => sum + Math.exp(x), 0));
    table.set(
      text.join(),
      row.map((x) => x - total),
    );
    if (text.length + 1 < LENGTH) for (let id = 0; id < V; id++) if (id !== STOP) await visit([...text, id]);
  };
  await visit([]);
  return table;
}

interface Text {
  readonly ids: readonly number[];
  readonly logProb: number;
}
const isOver = ({ ids }: Text): boolean => ids.at(-1) === STOP || ids.length === LENGTH;
const longer = (text: Text): Text[] =>
  after.get(text.ids.join())!.map((lp, id) => ({ ids: [...text.ids, id], logProb: text.logProb + lp }));
const byProbability = (a: Text, b: Text): number => b.logProb - a.logProb;

/** The paper's algorithm over the table, in plain steps. */
function byHand(beams: number, beamGroups: number, penalty: number): Text[] {
  let groups: Text[][] = Array.from({ length: beamGroups }, () => [{ ids: [], logProb: 0 }]);
  for (let t = 0; t < LENGTH; t++) {
    const spoken: number[] = [];
    groups = groups.map((group) => {
      const worth = ({ ids, logProb }: Text): number =>
        ids.length <= t ? logProb : logProb - penalty * spoken.filter((id) => id === ids[t]).length;
      const candidates = group.flatMap((text) => (isOver(text) ? [text] : longer(text)));
      const kept = candidates.toSorted((a, b) => worth(b) - worth(a)).slice(0, beams / beamGroups);
      spoken.push(...kept.flatMap(({ ids }) => (ids.length > t ? [ids[t]!] : [])));
      return kept;
    });
  }
  return groups.flat().toSorted(byProbability);
}

const search = async (of: Model, options: Omit<BeamSearchOptions, "maxNewTokens" | "stopIds">): Promise<Beam[]> =>
  (await beamSearch(of, [PROMPT], { maxNewTokens: LENGTH, stopIds: [STOP], ...options }))[0]!;
const idsOf = ({ tokens }: Beam): number[] => tokens.map(({ id }) => id);

describe("plain beam search", () => {
  it("with room for all finds all texts, in the order of their probabilities", async () => {
    const all: Text[] = [];
    const visit = (text: Text): void => (isOver(text) ? void all.push(text) : longer(text).forEach(visit));
    visit({ ids: [], logProb: 0 });
    const found = await search(model, { beams: 50 });
    expect(all).toHaveLength(1 + 3 * (1 + 3 * 4)); // that stop at once, at the second token, or have three
    expect(all.reduce((sum, { logProb }) => sum + Math.exp(logProb), 0)).toBeCloseTo(1, 12);
    const expected = all.toSorted(byProbability);
    expect(found.map(idsOf)).toEqual(expected.map(({ ids }) => ids));
    found.forEach(({ logProb, tokens, stopReason }, i) => {
      expect(logProb).toBeCloseTo(expected[i]!.logProb, 9);
      expect(tokens.reduce((sum, token) => sum + token.logProb, 0)).toBeCloseTo(logProb, 12);
      expect(stopReason).toBe(tokens.at(-1)!.id === STOP ? "stop" : "length");
    });
  });

  it("with one beam is greedy generation", async () => {
    const [[beam], [greedy]] = await Promise.all([
      search(model, { beams: 1 }),
      generate(model, [PROMPT], { temperature: 0, maxNewTokens: LENGTH, stopIds: [STOP] }),
    ]);
    expect(idsOf(beam!)).toEqual(greedy!.tokens.map(({ id }) => id));
  });
});

it.each([
  [1, 1, 0.5],
  [3, 1, 0.5],
  [3, 3, 0],
  [3, 3, 0.5],
  [4, 2, 0.3],
  [6, 3, 1],
  [4, 4, 50],
])("%i beams in %i groups with λ %f: as written out over the table", async (beams, beamGroups, diversityPenalty) => {
  const found = await search(model, { beams, beamGroups, diversityPenalty });
  const expected = byHand(beams, beamGroups, diversityPenalty);
  expect(found.map(idsOf)).toEqual(expected.map(({ ids }) => ids));
  found.forEach(({ logProb }, i) => expect(logProb).toBeCloseTo(expected[i]!.logProb, 9));
});

it("one group is plain beam search whatever λ is; a large λ makes the groups begin differently", async () => {
  const plain = await search(model, { beams: 3 });
  expect(await search(model, { beams: 3, beamGroups: 1, diversityPenalty: 9 })).toEqual(plain);
  const first = (await search(model, { beams: 4, beamGroups: 4, diversityPenalty: 50 })).map((one) => idsOf(one)[0]);
  expect(new Set(first).size).toBe(4);
  const same = (await search(model, { beams: 3, beamGroups: 3, diversityPenalty: 0 })).map(idsOf);
  expect(new Set(same.map(String)).size).toBe(1); // without a penalty each group finds the same
});

describe("one step", () => {
  const begin: Hypothesis = { tokens: [], logProb: 0 };
  const next = (text: Hypothesis, id: number, lp: number): Hypothesis => ({
    tokens: [...text.tokens, { id, logProb: lp, samplingLogProb: 0, plainLogProb: lp }],
    logProb: text.logProb + lp,
  });
  const chosen = (groups: readonly (readonly Hypothesis[])[]): number[] =>
    groups.flat().map(({ tokens }) => tokens.at(-1)!.id);

  it("the paper's penalty: ln p −.5, −1, −2, three groups, λ .8: a, b, a, with their own scores", () => {
    const options = { width: 1, diversityPenalty: 0.8 };
    const groups = advance([[begin], [begin], [begin]], options, () => [-0.5, -1, -2], next);
    expect(chosen(groups)).toEqual([0, 1, 0]);
    expect(groups.flat().map(({ logProb }) => logProb)).toEqual([-0.5, -1, -0.5]);
  });

  it("of equals the earlier beam and the lower token; what has ended competes with its score", () => {
    const options = { width: 3, diversityPenalty: 0 };
    const ended: Hypothesis = { tokens: next(begin, 9, -1).tokens, logProb: -1, stopReason: "stop" };
    const groups = advance([[begin, ended, begin]], options, () => [-1, -2, -1, -1], next);
    expect(chosen(groups)).toEqual([0, 2, 3]);
    expect(chosen(advance([[ended, begin]], options, () => [-1, -0.5], next))).toEqual([1, 9, 0]);
  });
});

it("many prompts of different lengths: each as if alone, up to the last position", async () => {
  const prompts = [[1], [2, 0, 1, 2, 0], Array(62).fill(1) as number[]];
  const options = { beams: 4, beamGroups: 2, maxNewTokens: 5, stopIds: [STOP] };
  const together = await beamSearch(model, prompts, options);
  for (const [i, prompt] of prompts.entries()) {
    const [alone] = await beamSearch(model, [prompt], options);
    expect(together[i]!.map(idsOf)).toEqual(alone!.map(idsOf));
  }
  // 64 positions: two more tokens are read, and one is predicted behind them.
  expect(Math.max(...together[2]!.map(({ tokens }) => tokens.length))).toBeLessThanOrEqual(3);
});

it("a search that is stopped gives what it has", async () => {
  const found = await search(model, { beams: 2, signal: { aborted: true } });
  expect(found).toEqual([{ tokens: [], logProb: 0, stopReason: "abort", group: 0 }]);
});

it.each<[object, string]>([
  [{ beams: 3, beamGroups: 2 }, "beamSearch: beams must be a multiple of beamGroups, got 3 and 2"],
  [{ beams: 0 }, "beamSearch: beams must be an integer ≥ 1, got 0"],
  [{ beams: 2, diversityPenalty: -1 }, "beamSearch: diversityPenalty must be ≥ 0, got -1"],
  [{ beams: 2, beamgroups: 1 }, "did you mean 'beamGroups'?"],
])("refuses %j", async (options, message) => {
  await expect(search(model, options as { beams: number })).rejects.toThrow(message);
  await expect(beamSearch(model, [[9]], { beams: 1, maxNewTokens: 1 })).rejects.toThrow(
    "beamSearch: prompt 0 has the id 9, the vocabulary 4 tokens",
  );
});

it.each(everyExecutor)("$name finds what the reference finds", { timeout: 60_000 }, async ({ open, tolerance }) => {
  const other = await open();
  try {
    const options = { beams: 6, beamGroups: 3, diversityPenalty: 0.4 };
    const [found, expected] = [await search(tiny(other), options), await search(model, options)];
    expect(found.map(idsOf)).toEqual(expected.map(idsOf));
    found.forEach(({ logProb }, i) => expect(Math.abs(logProb - expected[i]!.logProb)).toBeLessThan(10 * tolerance));
  } finally {
    other.dispose();
  }
});
