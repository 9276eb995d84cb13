/** Curves and bars made of block characters. Pure functions from numbers to text. */

const LEVELS = "▁▂▃▄▅▆▇█";
const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/**
 * The last `width` values as one character each, scaled between their own minimum and maximum. A value that is not
 * finite is a blank. A constant series is a low line, so that noise does not look like a trend.
 * @param scale the bounds of several curves together. Default: those of this one
 */
export function sparkline(
  values: readonly number[],
  width: number,
  scale?: { readonly low: number; readonly high: number },
): string {
  const shown = width > 0 ? values.slice(-width) : [];
  const finite = shown.filter(Number.isFinite);
  const low = scale?.low ?? Math.min(...finite);
  const range = (scale?.high ?? Math.max(...finite)) - low;
  return shown
    .map((value) => {
      if (!Number.isFinite(value)) return " ";
      return LEVELS[range > 0 ? Math.round(((value - low) / range) * (LEVELS.length - 1)) : 0];
    })
    .join("");
}

/** A bar of `width` cells, exact to an eighth of a cell, in two parts so that they can have different colours. */
export function bar(fraction: number, width: number): { readonly filled: string; readonly rest: string } {
  const clean = Number.isFinite(fraction) ? Math.min(1, Math.max(0, fraction)) : 0;
  const eighths = Math.floor(clean * width * 8);
  const filled = "█".repeat(eighths >> 3) + EIGHTHS[eighths & 7];
  return { filled, rest: "░".repeat(width - filled.length) };
}
