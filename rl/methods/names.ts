/** Tables of methods by name: what the command line lists, chooses from, and explains. */
import { check, fail } from "../../engine/errors.ts";
import { nearest } from "../../engine/options.ts";
import type { OptionTable } from "../../engine/optionTable.ts";

/** One part of a method: its options, how to make it, and what `--list` says of it. */
export interface Entry<T> {
  readonly options: OptionTable;
  /** Unknown options and values out of range are errors. */
  make(options?: object): T;
  readonly formula: string;
  readonly source: string;
}
export type Table<T> = Readonly<Record<string, Entry<T>>>;

/** @param kind what is looked up, for the message: `policy loss: unknown name "pppo"; did you mean "ppo"?` */
export function entryByName<E>(kind: string, table: Readonly<Record<string, E>>, name: string): E {
  if (Object.hasOwn(table, name)) return table[name]!;
  const near = nearest(name, Object.keys(table));
  const hint = near === undefined ? `expected ${Object.keys(table).join(", ")}` : `did you mean "${near}"?`;
  return fail(`${kind}: unknown name "${name}"; ${hint}`);
}

/** One table of several, whose names must differ. */
export function mergeTables<T>(...tables: readonly Table<T>[]): Table<T> {
  const names = tables.flatMap((table) => Object.keys(table));
  check(new Set(names).size === names.length, () => `methods: a name is there twice among ${names.join(", ")}`);
  return Object.assign({}, ...tables) as Table<T>;
}
