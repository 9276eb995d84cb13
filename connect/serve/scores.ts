/** Log-probabilities of a model: of the tokens of a prompt, and the likeliest tokens of a place. */
import { scope, tensor } from "../../engine/index.ts";
import { forward, logits, type Model, pickHidden } from "../../nn/index.ts";
import { plainLogProbs, type SampledToken } from "../../nn/sampler.ts";

/**
 * A token that was drawn: the version of the weights, and the likeliest tokens of its position if they were asked for.
 */
export interface ServedToken extends SampledToken {
  readonly version: number;
  /** Likeliest first; `plainLogProb` as in `SampledToken`. */
  readonly top?: readonly { readonly id: number; readonly plainLogProb: number }[];
}

/** Positions whose logits are read at a time. */
const ROWS = 32;

/**
 * Log-probabilities of a prompt's tokens from the second on, each behind those before it, with `top` likeliest ones.
 * @param version of the weights
 */
export async function scorePrompt(
  { params, config }: Model,
  prompt: readonly number[],
  top: number,
  version: number,
): Promise<ServedToken[]> {
  const { device } = params.embedding;
  const { vocabSize: V } = config;
  const scored: ServedToken[] = [];
  const ids = tensor(Int32Array.from(prompt), { device, shape: [1, prompt.length] });
  const hidden = scope(() => forward(params, config, ids), "score");
  try {
    for (let from = 0; from < prompt.length - 1; from += ROWS) {
      const places = Int32Array.from({ length: Math.min(ROWS, prompt.length - 1 - from) }, (_, i) => from + i);
      const scores = scope(() => logits(params, pickHidden(hidden, places)), "score");
      const values = (await scores.read()) as Float32Array | Float64Array;
      scores.dispose();
      for (const [i, place] of places.entries()) {
        const row = values.subarray(i * V, (i + 1) * V);
        const id = prompt[place + 1]!;
        const own = plainLogProbs(row)[id]!;
        const drawn = { id, logProb: own, samplingLogProb: own, plainLogProb: own, version };
        scored.push(top === 0 ? drawn : { ...drawn, top: likeliest(row, top) });
      }
      await new Promise((resolve) => setImmediate(resolve)); // sockets are served between two parts
    }
  } finally {
    hidden.dispose();
    ids.dispose();
  }
  return scored;
}

/** The `count` likeliest tokens, likeliest first; ties in the order of ids. @param logits [V] */
export function likeliest(logits: ArrayLike<number>, count: number): NonNullable<ServedToken["top"]> {
  const plain = plainLogProbs(logits);
  const best: number[] = [];
  for (let id = 0; id < plain.length; id++) {
    if (best.length === count && logits[id]! <= logits[best[count - 1]!]!) continue;
    let at = best.length;
    while (at > 0 && logits[id]! > logits[best[at - 1]!]!) at--;
    best.splice(at, 0, id);
    if (best.length > count) best.pop();
  }
  return best.map((id) => ({ id, plainLogProb: plain[id]! }));
}
