/**
 * Beam search: the most probable continuations of a prompt that a search of bounded width finds. With several groups it
 * is diverse beam search (Vijayakumar et al. 2016, arXiv 1610.02424): the groups choose one after the other at each
 * token, and a token costs a group λ for each beam of an earlier group that chose it at this step (Hamming diversity).
 *
 * As in the paper, the penalty decides what is chosen and is not part of a beam's score; in transformers it adds up in
 * the scores. Beams that have ended stay among the candidates with their scores. A score is the log-probability of the
 * text; there is no length penalty.
 */
import { check } from "../engine/errors.ts";
import { number, options, type OptionsOf, REQUIRED } from "../engine/optionTable.ts";
import { checkPrompts, GENERATE } from "../nn/generate.ts";
import { type CacheCopy, Decoder, type Generated, longestText, type Model } from "../nn/index.ts";
import { plainLogProbs } from "../nn/sampler.ts";

const { maxNewTokens, stopIds, signal } = GENERATE.fields;

export const BEAM_SEARCH = options("beamSearch", {
  beams: number(REQUIRED, "texts that are kept at each token", { integer: true, min: 1 }),
  beamGroups: number(1, "groups of equally many beams, which choose in turn; 1: plain beam search", {
    integer: true,
    min: 1,
  }),
  diversityPenalty: number(
    0.5,
    "λ, taken from the log-probability of a token for each beam of an earlier group that chose it at this step",
    { min: 0 },
  ),
  maxNewTokens,
  stopIds,
  signal,
});
/** Options of `beamSearch`. */
export type BeamSearchOptions = OptionsOf<typeof BEAM_SEARCH>;

/** A text that the search found. */
export interface Beam extends Generated {
  /** Index of the group that found it, from 0. */
  readonly group: number;
  /** Its log-probability, summed over its tokens. */
  readonly logProb: number;
}

/** A text that a group holds. */
export interface Hypothesis {
  readonly tokens: Generated["tokens"];
  readonly logProb: number;
  /** Undefined while it may go on. */
  readonly stopReason?: Generated["stopReason"];
}

/** The tokens of the largest values, best first; on a tie the lower id. */
function leaders(values: ArrayLike<number>, count: number): { id: number; value: number }[] {
  const best: { id: number; value: number }[] = [];
  for (let id = 0; id < values.length; id++) {
    const value = values[id]!;
    if (best.length === count && value <= best[count - 1]!.value) continue;
    const at = best.findIndex((other) => other.value < value);
    best.splice(at < 0 ? best.length : at, 0, { id, value });
    if (best.length > count) best.pop();
  }
  return best;
}

/**
 * One step of the groups of a prompt, in turn. A tie goes to the earlier beam, then to the lower token.
 * @param groups what each group holds, best first
 * @param width texts that a group may hold
 * @param logProbsOf log-probabilities of all tokens after a text that may go on, [V]
 * @param next a text with one more token
 */
export function advance<H extends Hypothesis>(
  groups: readonly (readonly H[])[],
  { width, diversityPenalty }: { readonly width: number; readonly diversityPenalty: number },
  logProbsOf: (text: H) => ArrayLike<number>,
  next: (text: H, id: number, logProb: number) => H,
): H[][] {
  const chosen = new Map<number, number>();
  return groups.map((group) => {
    const candidates = group.flatMap((text): { value: number; text: H; id?: number; logProb?: number }[] => {
      if (text.stopReason !== undefined) return [{ value: text.logProb, text }];
      const logProbs = logProbsOf(text);
      const penalized = Float64Array.from(logProbs);
      for (const [id, times] of chosen) penalized[id]! -= diversityPenalty * times;
      return leaders(penalized, width).map(({ id, value }) => ({
        value: text.logProb + value,
        text,
        id,
        logProb: logProbs[id]!,
      }));
    });
    const kept = candidates.toSorted((a, b) => b.value - a.value).slice(0, width);
    for (const { id } of kept) if (id !== undefined) chosen.set(id, (chosen.get(id) ?? 0) + 1);
    return kept.map(({ text, id, logProb }) => (id === undefined ? text : next(text, id, logProb!)));
  });
}

/** A text and the row of the cache that has all of it but its last token. */
interface Held extends Hypothesis {
  readonly row: number;
}

/**
 * Searches continuations of every prompt.
 * @param prompts lists of token ids, of any lengths, each at least one token
 * @returns for each prompt up to `beams` texts, the most probable first; those of one group differ, and groups may have
 *   found the same
 * @throws if `generate` would refuse a prompt, if the groups would not have equally many beams, or if a logit is not
 *   finite
 */
export async function beamSearch(
  model: Model,
  prompts: readonly (readonly number[])[],
  given: BeamSearchOptions,
): Promise<Beam[][]> {
  const { vocabSize: V, eosIds } = model.config;
  const settled = BEAM_SEARCH.read(given);
  const { beams, beamGroups, diversityPenalty, maxNewTokens, stopIds = eosIds, signal } = settled;
  check(
    beams % beamGroups === 0,
    () => `beamSearch: beams must be a multiple of beamGroups, got ${beams} and ${beamGroups}`,
  );
  checkPrompts("beamSearch", model.config, prompts);
  const width = beams / beamGroups;
  const capacity = Math.min(longestText(model.config), Math.max(...prompts.map((p) => p.length)) + maxNewTokens);
  const decoder = new Decoder(model, prompts.length * beams, capacity);
  const nothing = (p: number): Held => ({ tokens: [], logProb: 0, row: p * beams });
  let held = prompts.map((_, p) => Array.from({ length: beamGroups }, () => [nothing(p)]));
  try {
    let unread = Array.from({ length: prompts.length * beams }, (_, row): readonly number[] =>
      row % beams === 0 ? prompts[row / beams]! : [],
    );
    while (unread.some((tokens) => tokens.length > 0)) {
      if (signal?.aborted) break;
      const logits = await decoder.feed(unread);
      const logProbs = unread.map((tokens, row) =>
        tokens.length > 0 ? plainLogProbs(logits.subarray(row * V, (row + 1) * V)) : undefined,
      );
      held = held.map((groups, p) =>
        advance(
          groups,
          { width, diversityPenalty },
          ({ row }) => logProbs[row]!,
          (text, id, logProb) => {
            const tokens = [...text.tokens, { id, logProb, samplingLogProb: 0, plainLogProb: logProb }];
            // The last position is read to predict one more token.
            const isFull = tokens.length >= maxNewTokens || prompts[p]!.length + tokens.length > capacity;
            const stopReason = stopIds.includes(id) ? "stop" : isFull ? "length" : undefined;
            return { tokens, logProb: text.logProb + logProb, row: text.row, ...(stopReason && { stopReason }) };
          },
        ),
      );
      unread = unread.map(() => []);
      const copies: CacheCopy[] = [];
      held = held.map((groups, p) => {
        const rows = rowsFor(groups.flat(), p * beams);
        return groups.map((group) =>
          group.map((text) => {
            if (text.stopReason !== undefined) return text;
            const row = rows.get(text)!;
            if (row !== text.row) copies.push({ from: text.row, to: row, length: decoder.lengths[text.row]! });
            unread[row] = [text.tokens.at(-1)!.id];
            return { ...text, row };
          }),
        );
      });
      decoder.copy(copies);
    }
  } finally {
    decoder.dispose();
  }
  return held.map((groups) =>
    groups
      .flatMap((group, g) =>
        group.map(({ tokens, logProb, stopReason = "abort" }) => ({ tokens, logProb, stopReason, group: g })),
      )
      .toSorted((a, b) => b.logProb - a.logProb),
  );
}

/**
 * A row for each text that goes on. The first that continues a row keeps it, so no row is overwritten that another text
 * still needs.
 * @param first the first of the prompt's rows
 */
function rowsFor(texts: readonly Held[], first: number): Map<Held, number> {
  const live = texts.filter(({ stopReason }) => stopReason === undefined);
  const rows = new Map<Held, number>();
  const taken = new Set<number>();
  for (const text of live)
    if (!taken.has(text.row)) {
      taken.add(text.row);
      rows.set(text, text.row);
    }
  let free = first;
  for (const text of live) {
    if (rows.has(text)) continue;
    while (taken.has(free)) free++;
    taken.add(free);
    rows.set(text, free);
  }
  return rows;
}
