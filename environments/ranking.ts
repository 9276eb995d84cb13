/**
 * Ranking of short texts by the words of a query: Okapi BM25 (Robertson, Walker, Jones, Hancock-Beaulieu and Gatford
 * 1994) with the inverse document frequency that cannot be negative (as in Lucene), k1 = 1.2 and b = 0.75.
 *
 * No stemming, no synonyms, no fuzzy matches: the agent has to write the word as it stands.
 */
const K1 = 1.2;
const B = 0.75;
/** Most words of a query that count: a bound on the cost of whatever an agent writes. */
const MAX_QUERY_WORDS = 16;

export const wordsOf = (text: string): string[] => text.toLowerCase().match(/[a-z0-9]+/g) ?? [];

export class Ranking {
  readonly #documents: readonly ReadonlyMap<string, number>[];
  readonly #lengths: readonly number[];
  readonly #meanLength: number;
  readonly #containing: ReadonlyMap<string, number>;

  /** @param texts at least one, none without a word */
  constructor(texts: readonly string[]) {
    const words = texts.map(wordsOf);
    this.#documents = words.map((list) => countOf(list));
    this.#lengths = words.map((list) => list.length);
    this.#meanLength = this.#lengths.reduce((a, b) => a + b, 0) / texts.length;
    this.#containing = countOf(this.#documents.flatMap((document) => [...document.keys()]));
  }

  /**
   * Indices of the texts that hold a word of the query, best first; ties stay in the order of the texts.
   *
   * @example
   * new Ranking(["red mug", "blue mug", "lamp"]).rank("blue mug"); // [1, 0]
   */
  rank(query: string): number[] {
    const terms = [...new Set(wordsOf(query))].slice(0, MAX_QUERY_WORDS);
    const scores = this.#documents.map((_, at) => terms.reduce((sum, term) => sum + this.#score(term, at), 0));
    return [...scores.keys()].filter((at) => scores[at]! > 0).sort((a, b) => scores[b]! - scores[a]! || a - b);
  }

  #score(term: string, at: number): number {
    const frequency = this.#documents[at]!.get(term) ?? 0;
    const containing = this.#containing.get(term) ?? 0;
    const rarity = Math.log(1 + (this.#documents.length - containing + 0.5) / (containing + 0.5));
    const length = 1 - B + (B * this.#lengths[at]!) / this.#meanLength;
    return (rarity * frequency * (K1 + 1)) / (frequency + K1 * length);
  }
}

function countOf(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
