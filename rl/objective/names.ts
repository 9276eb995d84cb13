/** Tables of methods by name. The command line lists them, chooses from them and explains them. */
import { check, fail } from "../../engine/errors.ts";
import { nearest } from "../../engine/options.ts";
import type { OptionTable } from "../../engine/optionTable.ts";

/** One part of a method: its options, its constructor, and the formula and source that `--list` shows. */
export interface Entry<T> {
  readonly options: OptionTable; /** Throws on unknown options and on values out of range. */
  make(options?: object): T;
  readonly formula: string;
  readonly source: string;
}
/** Parts of methods by name, such as `POLICY_LOSSES` and `ADVANTAGES`. */
export type Table<T> = Readonly<Record<string, Entry<T>>>;

/** The largest number of names in one error message. */
const SHORT_LIST = 15;

/**
 * The entry of this name.
 * @param kind the kind of part, for the error: `policy loss: unknown name "pppo"; did you mean "ppo"?`
 */
export function entryByName<E>(kind: string, table: Readonly<Record<string, E>>, name: string): E {
  if (Object.hasOwn(table, name)) return table[name]!;
  const names = Object.keys(table);
  const near = nearest(name, names);
  const all = names.length <= SHORT_LIST ? names.join(", ") : `one of the ${names.length} names in docs/methods.md`;
  const hint = near === undefined ? `expected ${all}` : `did you mean "${near}"?`;
  return fail(`${kind}: unknown name "${name}"; ${hint}`);
}

/** One table made of several. No name may be in two of them. */
export function mergeTables<T>(...tables: readonly Table<T>[]): Table<T> {
  const names = tables.flatMap((table) => Object.keys(table));
  check(new Set(names).size === names.length, () => `methods: a name is there twice among ${names.join(", ")}`);
  return Object.assign({}, ...tables) as Table<T>;
}
