/**
 * The switch that instrumented modules ask (instrument.ts) in the process that runs the tests. It knows which mutant is
 * on, and which ones were asked for.
 */

/** The number of turns of all loops after which a mutant counts as endless. */
const MAX_TICKS = 3_000_000;

const NONE = -1;

export class Mutation {
  #active = NONE;
  #asked = new Set<number>();
  #ticks = 0;

  /** Switches this mutant on and all others off; without a number, all are off. */
  on(id: number = NONE): void {
    this.#active = id;
    this.#ticks = 0;
    this.#asked = new Set();
  }

  /** The mutants that were asked for since the last `on`. */
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

  /** Calls what `make` returns. `make` runs again for each mutant that it asks for, when that mutant is on. */
  fused<F extends (...args: never[]) => unknown>(make: () => F): F {
    const { current } = this.#versions(make);
    const call = (...args: Parameters<F>): unknown => current()(...args);
    return Object.defineProperty(call, "op", { get: () => (current() as unknown as { op: unknown }).op }) as F;
  }

  /** An object or a list that a module makes while it is loaded; who looks at it sees that of the mutant that is on. */
  loaded<T extends object>(make: () => T): T {
    const { plain, inside, current } = this.#versions(make);
    if (inside.size === 0) return plain;
    return new Proxy((Array.isArray(plain) ? [] : {}) as T, {
      get: (_, key): unknown => Reflect.get(current(), key),
      has: (_, key) => Reflect.has(current(), key),
      ownKeys: () => Reflect.ownKeys(current()),
      getOwnPropertyDescriptor: (_, key) => Reflect.getOwnPropertyDescriptor(current(), key),
    });
  }

  /** What `make` returns without a mutant, the mutants that it asks for, what it returns with the one that is on. */
  #versions<T>(make: () => T): { plain: T; inside: ReadonlySet<number>; current: () => T } {
    const [active, asked] = [this.#active, this.#asked];
    [this.#active, this.#asked] = [NONE, new Set()];
    const plain = make();
    const inside = this.#asked;
    [this.#active, this.#asked] = [active, asked];
    const versions = new Map<number, T>();
    const current = (): T => {
      for (const id of inside) this.#asked.add(id);
      if (!inside.has(this.#active)) return plain;
      const known = versions.get(this.#active) ?? make();
      versions.set(this.#active, known);
      return known;
    };
    return { plain, inside, current };
  }
}
