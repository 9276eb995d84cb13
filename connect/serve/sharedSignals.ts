/** Things that end with a signal, of which each has one listener for all of its things: Node warns of more than ten. */
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

  /** Of a thing that has ended by itself. Nothing stays on a signal whose things are all forgotten. */
  forget(thing: T, signal: AbortSignal | undefined): void {
    const followed = signal && this.#followed.get(signal);
    if (!followed?.all.delete(thing) || followed.all.size > 0) return;
    signal!.removeEventListener("abort", followed.onAbort);
    this.#followed.delete(signal!);
  }
}
