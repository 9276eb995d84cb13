/** The game: behind one of five doors is a prize. Whoever opens a wrong door is told on which side to go on. */
import { Rng, SingleUseEnvironment, type StepResult } from "worldgrad";

export const DOORS = 5;

export class Doors extends SingleUseEnvironment {
  readonly name: string = "doors";
  #prize = 0;
  #tries = 0;
  /** Doors behind which the prize may still be, for the expert. */
  low = 1;
  high = DOORS;

  protected begin(seed: number): string {
    this.#prize = 1 + new Rng(seed).int(DOORS);
    return `1-${DOORS}?`;
  }

  protected act(action: string): StepResult {
    const door = /^[1-5]$/.test(action) ? Number(action) : undefined;
    const success = door === this.#prize;
    const done = success || ++this.#tries === 3;
    if (door !== undefined && door < this.#prize) this.low = Math.max(this.low, door + 1);
    if (door !== undefined && door > this.#prize) this.high = Math.min(this.high, door - 1);
    const observation = door === undefined ? "a digit!" : success ? "yes" : door < this.#prize ? "right" : "left";
    return { observation, reward: success ? 1 - 0.2 * this.#tries : 0, done, info: { success } };
  }
}
