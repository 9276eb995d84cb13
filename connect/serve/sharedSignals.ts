/**
 * Things that end with a signal. A signal gets one listener for all of its things, because Node warns of more than
 * ten.
 */
export class SharedSignals<T> {
  readonly #followed = new Map<AbortSignal, { readonly all: Set<T>; readonly onAbort: () => void }>();

  /** @param ended is called once for all things of the signal, with those that were not forgotten */
  follow(thing: T, signal: AbortSignal | undefined, ended: (all: ReadonlySet<T>) => void): void {
    if (signal === undefined) return;
    const known = this.#followed.get(signal);
    if (known) return void known.all.add(thing);
    const all = new Set([thing]);
    const onAbort = (): void => ended(all);
    signal.addEventListener("abort", onAbort, { once: true });
    this.#followed.set(signal, { all, onAbort });
  }

  /** Forgets a thing that has ended by itself. A signal whose things are all forgotten keeps no listener. */
  forget(thing: T, signal: AbortSignal | undefined): void {
    const followed = signal && this.#followed.get(signal);
    if (!followed?.all.delete(thing) || followed.all.size > 0) return;
    signal!.removeEventListener("abort", followed.onAbort);
    this.#followed.delete(signal!);
  }
}
