/** The actor of a search, which proposes actions: a model, or anything else that can draw actions. */
import { check } from "../../../engine/errors.ts";
import { number, options, type OptionsOf } from "../../../engine/optionTable.ts";
import type { Rng } from "../../../engine/index.ts";
import { Decoder, type Model, type SampledToken, type SamplingOptions } from "../../../nn/index.ts";
import { SAMPLING } from "../../../nn/sampler.ts";
import { COUNT, ROLLOUT } from "../../../rl/play/rollout.ts";
import type { Template } from "../../../rl/episode/template.ts";
import type { DrawnAction } from "./position.ts";

/** A request for actions after a history. */
export interface ActionRequest {
  /** All tokens so far; the last is the tag that asks for an action. */
  readonly ids: readonly number[];
  /** One action is drawn with each of these random streams. */
  readonly rngs: readonly Rng[];
}

/**
 * A source of actions: one for each random stream of a request, equal ones included. An action must depend only on the
 * history and its stream.
 */
export interface Actor {
  /** The temperature that actions are drawn at, which is recorded with their tokens. */
  readonly temperature: number;
  /** The largest number of tokens of a history with its action. */
  readonly maxTokens: number;
  act(requests: readonly ActionRequest[]): Promise<DrawnAction[][]>;
}

const MODEL_ACTOR = options("modelActor", {
  ...SAMPLING.fields,
  maxActionTokens: ROLLOUT.fields.maxActionTokens,
  maxRows: number(64, "actions that are drawn at once; no token depends on it", COUNT),
});
/** Options of `modelActor`: how tokens are drawn (`SamplingOptions`), and the limits of an action and of a batch. */
export type ModelActorOptions = OptionsOf<typeof MODEL_ACTOR>;

/**
 * The policy as actor. All actions of a call are drawn in one decode, and a history with several actions is read once.
 * Every call reads its histories again, in one pass; no cache is kept between calls.
 */
export function modelActor(model: Model, template: Template, given?: ModelActorOptions): Actor {
  const { maxActionTokens, maxRows, ...sampling } = MODEL_ACTOR.read(given);
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
  /** The index of the request; rows of one request share their history. */
  readonly request: number;
}

async function drawActions(
  model: Model,
  template: Template,
  rows: readonly Row[],
  maxActionTokens: number,
  sampling: SamplingOptions,
): Promise<DrawnAction[]> {
  const { maxPositions } = model.config;
  const longest = Math.max(...rows.map(({ ids }) => ids.length));
  check(
    longest < maxPositions,
    () => `modelActor: a history has ${longest} tokens, the model ${maxPositions} positions`,
  );
  const capacity = Math.min(maxPositions, longest + maxActionTokens);
  const decoder = new Decoder(model, rows.length, capacity);
  const actions = rows.map((): SampledToken[] => []);
  const isOver = (i: number): boolean => {
    const action = actions[i]!;
    const isFull = rows[i]!.ids.length + action.length >= capacity;
    return template.isEnd(action.at(-1)?.id) || action.length >= maxActionTokens || isFull;
  };
  try {
    // The first row of a request reads all tokens but the last, and the other rows copy its cache. Then each row reads
    // the last token and draws.
    const firstOf = (i: number): number => rows.findIndex(({ request }) => request === rows[i]!.request);
    const reading = rows.flatMap(({ ids }, row) => {
      return firstOf(row) === row && ids.length > 1 ? [{ row, tokens: ids.slice(0, -1) }] : [];
    });
    if (reading.length > 0) await decoder.draw(reading);
    const copies = rows.flatMap(({ ids }, to) => {
      return firstOf(to) === to ? [] : [{ from: firstOf(to), to, length: ids.length - 1 }];
    });
    decoder.copy(copies);
    for (let live = rows.map((_, i) => i); live.length > 0;) {
      const parts = live.map((row) => {
        const { ids, rng } = rows[row]!;
        return { row, tokens: [actions[row]!.at(-1)?.id ?? ids.at(-1)!], rng };
      });
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
    complete: template.isEnd(tokens.at(-1)?.id),
  }));
}
