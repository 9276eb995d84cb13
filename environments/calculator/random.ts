/** The random baseline: calculations and answers with numbers of the task, or numbers as large. It observes nothing. */
import type { Rng } from "../../engine/index.ts";

/** A plausible action with numbers of the task, if it is given, else of three to six digits; one in five ends the episode. */
export function randomAction(rng: Rng, task: string = ""): string {
  const numbers = task.match(/\d+/g) ?? [];
  const number = (): string => {
    if (numbers.length > 0) return rng.choice(numbers);
    const low = 10 ** (2 + rng.int(4));
    return String(low + rng.int(9 * low));
  };
  return rng.int(5) === 0
    ? `answer ${number()}`
    : `calc ${number()}${rng.choice(["+", "-", "*", "//", "%", "/"])}${number()}`;
}
