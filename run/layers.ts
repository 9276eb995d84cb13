/**
 * The one merge of a run's settings: layers from the defaults to `--set`, each of which replaces values of those below.
 * A value keeps its source, so that an error can name it.
 */
import { ALIASES, type ValueAt } from "./parts.ts";
import { byPart, type Parts, type Value, type Values } from "./layout.ts";
import { UsageError } from "./usage.ts";

export interface Layer {
  /** The values of the layer; undefined ones are not given. */
  readonly values: Values;
  /** The source of a value, as an error names it. */
  readonly by?: (key: string) => string;
  /** Whether a person has written these values: then no other such layer may give one of them, too. */
  readonly isWritten?: boolean;
}

interface Setting {
  readonly value: Value;
  readonly by: string;
  readonly isWritten: boolean;
}

/** The merged settings of a run. */
export class Settings {
  readonly #all = new Map<string, Setting>();

  /** @throws UsageError if two layers that a person has written give the same option */
  constructor(layers: readonly Layer[]) {
    for (const { values, by = (key: string): string => key, isWritten = false } of layers) {
      for (const [name, value] of Object.entries(values)) {
        if (value === undefined) continue;
        const key = ALIASES[name] ?? name;
        const before = this.#all.get(key);
        if (before?.isWritten && isWritten)
          throw new UsageError(`${before.by} says what ${by(name)} says; give one of them`);
        this.#all.set(key, { value, by: by(name), isWritten });
      }
    }
  }

  get<K extends string>(key: K): ValueAt<K> | undefined {
    return this.#all.get(key)?.value as ValueAt<K> | undefined;
  }

  has(key: string): boolean {
    return this.#all.has(key);
  }

  /** The source of a value: a flag, `--set PART.OPTION`, a recipe. */
  by(key: string): string {
    return this.#all.get(key)?.by ?? `--set ${key}`;
  }

  /** Whether a person has written it. */
  isWritten(key: string): boolean {
    return this.#all.get(key)?.isWritten ?? false;
  }

  /** The names of all values, or of those of a part. */
  keys(part?: string): readonly string[] {
    const all = [...this.#all.keys()];
    return part === undefined ? all : all.filter((key) => key.startsWith(`${part}.`));
  }

  /** Sets a value that follows from others. */
  put(key: string, value: Value): void {
    this.#all.set(key, { isWritten: false, by: key, ...this.#all.get(key), value });
  }

  drop(key: string): void {
    this.#all.delete(key);
  }

  parts(): Parts {
    return byPart(Object.fromEntries([...this.#all].map(([key, { value }]) => [key, value])));
  }
}
