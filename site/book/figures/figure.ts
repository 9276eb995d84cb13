/** A figure of a chapter: it is drawn from what a cell prints, and from nothing else. */
import type { Svg } from "../svg.ts";

export interface Figure {
  /** Heading of the section whose cell prints it. */
  readonly section: string;
  /** What is to be seen, in a sentence or two. */
  readonly about: string;
  /**
   * @param printed by this cell
   * @param all that was printed up to its end
   * @returns undefined if the text has no such numbers, as after an edit or an error
   */
  readonly draw: (printed: string, all: string) => Svg | undefined;
}
