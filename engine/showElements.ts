/** The elements of a tensor as text for readers: nested lists, one row a line. */
import { type Shape, sizeOf } from "./types.ts";

/** The largest number of shown elements of an axis; of a longer one half as many are shown from each end. */
const SHOWN = 8;

/**
 * @param elements row-major; six digits of each are shown @param at the offset of this part @param depth of the lists
 *   around it
 */
export function showElements([n, ...rest]: Shape, elements: ArrayLike<number>, at = 0, depth = 1): string {
  if (n === undefined) return String(Number(elements[at]!.toPrecision(6)));
  const parts: string[] = [];
  for (let i = 0; i < n; i++) {
    if (n > SHOWN && i === SHOWN / 2) {
      parts.push("…");
      i = n - SHOWN / 2;
    }
    parts.push(showElements(rest, elements, at + i * sizeOf(rest), depth + 1));
  }
  return `[${parts.join(rest.length > 0 ? `,\n${" ".repeat(depth)}` : ", ")}]`;
}
