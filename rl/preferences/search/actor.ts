/** Who proposes the actions of a search: a model, or anything else that can draw some. */
import { check } from "../../../engine/errors.ts";
import { checkKeys } from "../../../engine/options.ts";
import type { Rng } from "../../../engine/index.ts";
import { Decoder, type Model, type SampledToken, type SamplingOptions } from "../../../nn/index.ts";
import { checkSampling, SAMPLING_KEYS } from "../../../nn/sampler.ts";
import type { Template } from "../../episode/template.ts";
import type { DrawnAction } from "./position.ts";

/** A history for which actions are wanted. */
export interface ActionRequest {
  /** All tokens so far, the tag that asks for an action last. */
  readonly ids: readonly number[];
  /** One action is drawn for each. */
  readonly rngs: readonly Rng[];
}

/**
 * Draws actions: for each request as many as it has streams, equal ones included. What is drawn for a stream must follow from the
 * history and the stream alone.
 */
export interface Actor {
  /** Temperature that actions are drawn at, recorded with their tokens. */
  readonly temperature: number;
  /** Tokens at most of a history with its action. */
  readonly maxTokens: number;
  act(requests: readonly ActionRequest[]): Promise<DrawnAction[][]>;
}

export interface ModelActorOptions extends SamplingOptions {
  /** Tokens at most in one action, its end included; default 48. */
  readonly maxActionTokens?: number;
  /** Actions that are drawn at once; default 64. No token depends on it. */
  readonly maxRows?: number;
}

/**
 * The policy as actor: all actions of a call are drawn in one decode, and a history of which several are wanted is read once.
 * Histories are read anew in every call, in one pass; no cache outlives a call.
 */
export function modelActor(model: Model, template: Template, options: ModelActorOptions = {}): Actor {
  checkKeys("modelActor", options, [...SAMPLING_KEYS, "maxActionTokens", "maxRows"]);
  const { maxActionTokens = 48, maxRows = 64 } = options;
  for (const [name, value] of Object.entries({ maxActionTokens, maxRows })) {
    check(Number.isInteger(value) && value >= 1, () => `modelActor: ${name} must be an integer ≥ 1, got ${value}`);
  }
  const sampling = checkSampling(options);
  return {
    temperature: sampling.temperature === 0 ? 1 : sampling.temperature,
    maxTokens: model.config.maxPositions,
    async act(requests) {
      const rows = requests.flatMap(({ ids, rngs }, request) => rngs.map((rng) => ({ ids, rng, request })));
      const drawn: DrawnAction[][] = requests.map(() => []);
      for (let start = 0; start < rows.length; start += maxRows) {
        const some = rows.slice(start, start + maxRows);
        const actions = await drawActions(model, template, some, maxActionTokens, sampling);
        actions.forEach((action, i) => drawn[some[i]!.request]!.push(action));
      }
      return drawn;
    },
  };
}

interface Row {
  readonly ids: readonly number[];
  readonly rng: Rng;
  /** Rows of one request share their history. */
  readonly request: number;
}

async function drawActions(
  model: Model,
  { endId }: Template,
  rows: readonly Row[],
  maxActionTokens: number,
  sampling: SamplingOptions,
): Promise<DrawnAction[]> {
  const { maxPositions } = model.config;
  const longest = Math.max(...rows.map(({ ids }) => ids.length));
  check(longest < maxPositions, () => `modelActor: a history has ${longest} tokens, the model ${maxPositions} positions`); // prettier-ignore
  const capacity = Math.min(maxPositions, longest + maxActionTokens);
  const decoder = new Decoder(model, rows.length, capacity);
  const actions = rows.map((): SampledToken[] => []);
  const isOver = (i: number): boolean => {
    const action = actions[i]!;
    const isFull = rows[i]!.ids.length + action.length >= capacity;
    return action.at(-1)?.id === endId || action.length >= maxActionTokens || isFull;
  };
  try {
    // The first row of a request reads all but the last token, the others copy; then each reads the last and draws.
    const firstOf = (i: number): number => rows.findIndex(({ request }) => request === rows[i]!.request);
    const reading = rows.flatMap(({ ids }, row) => (firstOf(row) === row && ids.length > 1 ? [{ row, tokens: ids.slice(0, -1) }] : [])); // prettier-ignore
    if (reading.length > 0) await decoder.draw(reading);
    decoder.copy(rows.flatMap(({ ids }, to) => (firstOf(to) === to ? [] : [{ from: firstOf(to), to, length: ids.length - 1 }]))); // prettier-ignore
    for (let live = rows.map((_, i) => i); live.length > 0;) {
      const parts = live.map((row) => ({ row, tokens: [actions[row]!.at(-1)?.id ?? rows[row]!.ids.at(-1)!], rng: rows[row]!.rng })); // prettier-ignore
      const drawn = await decoder.draw(parts, sampling);
      live.forEach((row, i) => actions[row]!.push(drawn[i]![0]!));
      live = live.filter((row) => !isOver(row));
    }
  } finally {
    decoder.dispose();
  }
  return actions.map((tokens) => ({
    ids: tokens.map(({ id }) => id),
    logProbs: tokens.map(({ logProb }) => logProb),
    complete: tokens.at(-1)?.id === endId,
  }));
}
