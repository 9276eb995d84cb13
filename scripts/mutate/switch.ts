/**
 * Switch of instrumented modules (instrument.ts) in the process that runs the tests: the active mutant, and which
 * mutants were executed.
 */

/** Total of turns of all loops after which a mutant counts as endless. */
const MAX_TICKS = 3_000_000;

const NONE = -1;

export class Mutation {
  #active = NONE;
  #asked = new Set<number>();
  #ticks = 0;

  /** Activates this mutant alone, or none. */
  on(id: number = NONE): void {
    this.#active = id;
    this.#ticks = 0;
    this.#asked = new Set();
  }

  /** Mutants executed since the last `on`. */
  get asked(): ReadonlySet<number> {
    return this.#asked;
  }

  is(id: number): boolean {
    this.#asked.add(id);
    return id === this.#active;
  }

  tick(): void {
    if (++this.#ticks > MAX_TICKS && this.#active !== NONE) throw new Error("an endless loop");
  }

  /** Calls what `make` returns. `make` runs again for each mutant that it executes, when that mutant is active. */
  fused<F extends (...args: never[]) => unknown>(make: () => F): F {
    const [active, asked] = [this.#active, this.#asked];
    [this.#active, this.#asked] = [NONE, new Set()];
    const unchanged = make();
    const inside = this.#asked;
    [this.#active, this.#asked] = [active, asked];
    const versions = new Map<number, F>();
    const current = (): F => {
      for (const id of inside) this.#asked.add(id);
      if (!inside.has(this.#active)) return unchanged;
      const known = versions.get(this.#active) ?? make();
      versions.set(this.#active, known);
      return known;
    };
    const call = (...args: Parameters<F>): unknown => current()(...args);
    return Object.defineProperty(call, "op", { get: () => (current() as unknown as { op: unknown }).op }) as F;
  }
}
