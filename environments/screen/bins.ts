/**
 * Numbers as tokens, as in OpenVLA (Kim et al. 2024, arXiv 2406.09246). −1 to 1 has 256 edges; a number becomes the
 * count of edges at or below it, 1 to 256, and its token is that many from the end of the vocabulary. A token is read
 * back as the middle of its bin; there are 255 bins, so the last two counts mean the same number.
 */
const edge = (i: number): number => -1 + (2 * i) / 255;

/** The count of edges at or below `x`, at least 1 and at most 256: numbers beyond −1 and 1 are in the outer bins. */
export function binOf(x: number): number {
  let count = 1;
  while (count < 256 && edge(count) <= x) count++;
  return count;
}

/** The middle of the bin of this count. */
export function middleOf(bin: number): number {
  const at = Math.max(0, Math.min(254, bin - 1));
  return (edge(at) + edge(at + 1)) / 2;
}

/** The token of a number in a vocabulary of `vocabulary` tokens, and the number of a token. */
export const tokenOf = (x: number, vocabulary: number): number => vocabulary - binOf(x);
export const numberOf = (token: number, vocabulary: number): number => middleOf(vocabulary - token);

/** A value from `low` to `high`, the 1 % and 99 % quantiles of an action in the data, as a number from −1 to 1. */
export const normalized = (value: number, low: number, high: number): number =>
  Math.max(-1, Math.min(1, (2 * (value - low)) / (high - low + 1e-8) - 1));

/** The bin of the middle of a cell, of `cells` in a row, and the cell in which the middle of a bin lies. */
export const binOfCell = (cell: number, cells: number): number => binOf((2 * (cell + 0.5)) / cells - 1);
export const cellOfBin = (bin: number, cells: number): number => Math.floor(((middleOf(bin) + 1) / 2) * cells);
