/**
 * The rewards of proposals, as functions of numbers.
 *
 * - Absolute Zero (Zhao et al. 2025, arXiv 2505.03335): 1 − s, s the solver's success rate, and 0 if all or none of its
 *   attempts succeed. `composite` adds the format, as the authors' code does for both roles: −0.5 instead of 0, and −1
 *   for a malformed proposal. (In the paper's formula 7 a trivial task is worth 0.)
 * - R-Zero (Huang et al. 2025, arXiv 2508.05004): max(0, 1 − 2|p − ½| − rep), p the share of the most frequent answer
 *   and rep the share of the batch that is in the question's cluster. (The authors' code has min(p, 1 − p) − rep,
 *   without a floor.) Questions are clustered by average linkage with the distance 1 − BLEU, below 0.5.
 */
import { mean } from "../../rl/episode/groups.ts";

/** 1 − success rate; 0 where nothing can be learnt because all or none succeed. */
export const learnability = (success: number): number => (success > 0 ? 1 - success : 0);

/** A reward combined with the format: itself if it is positive, −0.5 if it is not, −1 for what cannot be read. */
export const composite = (isWellFormed: boolean, reward: number): number =>
  !isWellFormed ? -1 : reward > 0 ? reward : -0.5;

/** 1 where half of the answers agree, 0 where all do, or none. @param p share of the most frequent answer, in [0, 1] */
export const uncertainty = (p: number): number => 1 - 2 * Math.abs(p - 0.5);

/** R-Zero's reward of a question that can be read. */
export const challengerReward = (p: number, repetition: number): number => Math.max(0, uncertainty(p) - repetition);

/** `epsilon` is the count for orders without a match: smoothing method 1 of Chen & Cherry 2014. */
const BLEU = { orders: [1, 2, 3, 4], epsilon: 0.1 };

/** BLEU of one sentence against one reference, words split at blanks: the numbers of NLTK with smoothing method 1. */
export function bleu(reference: string, hypothesis: string): number {
  const [known, said] = [wordsOf(reference), wordsOf(hypothesis)];
  const precisions = BLEU.orders.map((n) => {
    const [own, others] = [gramsOf(said, n), gramsOf(known, n)];
    let hits = 0;
    for (const [gram, count] of own) hits += Math.min(count, others.get(gram) ?? 0);
    return { hits, total: Math.max(1, said.length - n + 1) };
  });
  if (precisions[0]!.hits === 0) return 0; // also of an empty text
  const logs = precisions.map(({ hits, total }) => Math.log((hits === 0 ? BLEU.epsilon : hits) / total));
  const brevity = Math.exp(Math.min(0, 1 - known.length / said.length));
  return brevity * Math.exp(mean(logs));
}

const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== "");

function gramsOf(words: readonly string[], n: number): Map<string, number> {
  const counts = new Map<string, number>();
  for (let i = 0; i + n <= words.length; i++) {
    const gram = words.slice(i, i + n).join(" ");
    counts.set(gram, (counts.get(gram) ?? 0) + 1);
  }
  return counts;
}

/** Clusters at this distance, or farther apart, are not joined. */
const LINKAGE = { distance: 0.5 };

/** The share of the texts that is in each text's own cluster, in (0, 1]. */
export function repetition(texts: readonly string[]): number[] {
  // As in the authors' code, the later text is the reference, and the matrix is symmetric by copying.
  const distance = (a: number, b: number): number => {
    const [i, j] = [Math.min(a, b), Math.max(a, b)];
    return 1 - bleu(texts[j]!, texts[i]!);
  };
  const distances = texts.map((_, a) => texts.map((_other, b) => distance(a, b)));
  let clusters = texts.map((_, i) => [i]);
  // Each turn leaves one cluster less, so there are never more turns than texts.
  for (const _ of texts) {
    let best = { gap: LINKAGE.distance, pair: undefined as readonly [number, number] | undefined };
    for (const [a, one] of clusters.entries()) {
      for (let b = a + 1; b < clusters.length; b++) {
        const gap = mean(one.flatMap((i) => clusters[b]!.map((j) => distances[i]![j]!)));
        if (gap < best.gap) best = { gap, pair: [a, b] };
      }
    }
    if (!best.pair) break;
    const [a, b] = best.pair;
    const joined = [...clusters[a]!, ...clusters[b]!];
    clusters = [...clusters.filter((_, i) => i !== a && i !== b), joined];
  }
  const shares = new Map(
    clusters.flatMap((members) => members.map((i) => [i, members.length / texts.length] as const)),
  );
  return texts.map((_, i) => shares.get(i)!);
}
