/** The random baseline: calculations and answers with numbers as large as those of the problems. It observes nothing. */
import type { Rng } from "../../../engine/random.ts";

/** A plausible action; one in five ends the episode. */
export function randomAction(rng: Rng): string {
  const number = (): number => {
    const low = 10 ** (2 + rng.int(4));
    return low + rng.int(9 * low);
  };
  return rng.int(5) === 0
    ? `answer ${number()}`
    : `calc ${number()}${rng.choice(["+", "-", "*", "//", "%", "/"])}${number()}`;
}
