/** Numbers by name as they are written on the command line: `cat:1+ls:0+*:0.5`. */
import { type Option, text } from "../engine/optionTable.ts";

/** The numbers in such a text; undefined if it is none. A name may have colons, but no plus sign and no space. */
export function numbersByName(written: string): Readonly<Record<string, number>> | undefined {
  const pairs = written.split("+").map((pair): readonly [string, number] => {
    const colon = pair.lastIndexOf(":");
    const [name, number] = [pair.slice(0, Math.max(0, colon)).trim(), pair.slice(colon + 1).trim()];
    return [name, number === "" ? NaN : Number(number)];
  });
  const names = new Set(pairs.map(([name]) => name));
  const areNumbers = pairs.every(([name, number]) => /^\S+$/.test(name) && !Number.isNaN(number));
  return areNumbers && names.size === pairs.length ? Object.fromEntries(pairs) : undefined;
}

/**
 * An option that takes such a text.
 * @param expected for its error, after "different names with"
 * @param accepts whether a number is allowed
 */
export function byName(about: string, expected: string, accepts: (value: number) => boolean): Option<string> {
  const fits = (value: string): boolean => Object.values(numbersByName(value) ?? { none: NaN }).every(accepts);
  return {
    ...text(undefined, about),
    expected: `different names with ${expected}`,
    accepts: (value) => typeof value === "string" && fits(value),
  };
}
