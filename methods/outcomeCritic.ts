/**
 * CodeRL's critic (Le et al. 2022, arXiv 2207.01780). It reads a program token by token and predicts at each token how
 * the program will end: compile error, runtime error, failed test, or passed. The logits of all tokens are max-pooled
 * into those of the program, on which the critic is trained. The probability of the true outcome at a token weighs that
 * token in the policy loss, so the place that decides gets the credit.
 *
 * CodeRL's critic is a transformer of its own that reads the problem and the finished program. Here the critic is a
 * copy of the warm start with a head (reader.ts), which reads the whole episode and predicts at each token before
 * reading it.
 */
import { check } from "../engine/errors.ts";
import {
  crossEntropy,
  gather,
  max,
  mul,
  noGrad,
  reshape,
  scope,
  softmax,
  tensor,
  type Tensor,
} from "../engine/index.ts";
import { isAgentToken, type Trajectory } from "../rl/episode/stream.ts";
import { rowOf, type TokenRow } from "../rl/objective/columns.ts";
import { type MicroBatch, pack, type PackOptions } from "../rl/train/pack.ts";
import { type Reader, readerLogits, readerSteps, type ReaderTraining } from "./reader.ts";
import { hiddenOf } from "../rl/train/score.ts";

/** Outcomes of a program, in the order of the critic's logits. */
export const OUTCOMES = ["compile error", "runtime error", "failed test", "passed"] as const;

/** Index of an episode's outcome in `OUTCOMES`; an episode that submitted nothing counts as a compile error. */
export function outcomeClass({ info }: Trajectory): number {
  const named = (info["outcome"] as (typeof OUTCOMES)[number] | undefined) ?? OUTCOMES[0];
  const found = OUTCOMES.indexOf(named);
  check(found >= 0, () => `outcome critic: expected one of ${OUTCOMES.join(", ")}, got "${named}"`);
  return found;
}

const isRead = ({ trajectory }: TokenRow, t: number): boolean => isAgentToken(trajectory.stream.roles[t]!);

/** Indices [E, T] of each episode's rows in [N, K]; shorter episodes repeat theirs, which changes no maximum. */
function placesOf({ episode }: MicroBatch): { readonly episodes: number[]; readonly at: number[][] } {
  const own = new Map<number, number[]>();
  episode.forEach((e, n) => own.set(e, [...(own.get(e) ?? []), n]));
  const longest = Math.max(...[...own.values()].map(({ length }) => length));
  const at = [...own.values()].map((places) => Array.from({ length: longest }, (_, k) => places[k % places.length]!));
  return { episodes: [...own.keys()], at };
}

/** Logits [E, K] of whole episodes: the largest of each class over the episode's tokens. */
export function pooled(logits_NK: Tensor, at: readonly (readonly number[])[]): Tensor {
  const { device, shape } = logits_NK;
  const ids = tensor(Int32Array.from(at.flat()), { device });
  return max(reshape(gather(logits_NK, ids), [at.length, at[0]!.length, shape[1]!]), { axis: 1 });
}

/**
 * Trains a reader of four logits by the cross-entropy of pooled logits and outcomes. Model and head change in place.
 * @param classes the outcome of each episode @returns the loss of each step, before its update
 */
export function trainOutcomeCritic(
  reader: Reader,
  episodes: readonly Trajectory[],
  classes: readonly number[],
  options: ReaderTraining,
): Promise<number[]> {
  const { batchSize } = options;
  return readerSteps(reader, options, (draw) => {
    const drawn = Array.from({ length: batchSize }, () => draw.int(episodes.length));
    const rows = drawn.map((i) => rowOf(episodes[i]!));
    const lossOf = ({ model, head }: Reader, batch: MicroBatch): Tensor => {
      const { episodes: read, at } = placesOf(batch);
      const targets = Int32Array.from(read, (e) => classes[drawn[e]!]!);
      const logits = pooled(readerLogits(head, hiddenOf(model, batch)), at);
      const mean = crossEntropy(logits, tensor(targets, { device: model.params.embedding.device }));
      return mul(mean, read.length / batchSize);
    };
    return { batches: pack(rows, { ...options, scored: isRead }), lossOf };
  });
}

/** The critic's verdict on an episode: the predicted outcome, and the probability of the true one at each token. */
export interface Criticism {
  readonly said: number;
  /** One number per token, 1 where the agent wrote nothing. */
  readonly shares: readonly number[];
}

/** Reads one episode; undefined if the agent wrote nothing in it. */
export async function criticise(
  { model, head }: Reader,
  episode: Trajectory,
  packing: Pick<PackOptions, "padId" | "maxTokens">,
): Promise<Criticism | undefined> {
  const [batch] = pack([rowOf(episode)], { ...packing, scored: isRead });
  if (batch === undefined) return undefined;
  const { at } = placesOf(batch);
  const { shares, whole } = scope(() => {
    const logits = noGrad(() => readerLogits(head, hiddenOf(model, batch)));
    return { shares: noGrad(() => softmax(logits)), whole: noGrad(() => pooled(logits, at)) };
  }, "criticise");
  const [perToken, of] = [await shares.read(), [...(await whole.read())].map(Number)];
  shares.dispose();
  whole.dispose();
  const truth = outcomeClass(episode);
  const column = episode.stream.ids.map(() => 1);
  batch.token.forEach((t, n) => (column[t] = perToken[n * OUTCOMES.length + truth]!));
  return { said: of.indexOf(Math.max(...of)), shares: column };
}
