/**
 * Prints a value as Node does, so that a program of the book has the same output in a page. The rules are those of
 * Node's lib/internal/util/inspect.js for plain data with the default options; tests compare with Node's own.
 */

/** Node's defaults: columns of a line, levels of nesting on one line, levels shown, elements shown. */
const [WIDTH, COMPACT, DEPTH, MAX_ELEMENTS] = [80, 3, 2, 100];

export function inspect(value: unknown): string {
  return new Printer().print(value, 0);
}

class Printer {
  /** Columns by which the present value is indented. */
  private indent = 0;
  /** The level of the object that was begun last. */
  private lastLevel = 0;
  /** Objects around the present one. */
  private readonly around: unknown[] = [];

  print(value: unknown, level: number): string {
    if (typeof value === "string") return quote(value);
    if (typeof value === "number") return Object.is(value, -0) ? "-0" : String(value);
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "function") return functionName(value);
    if (typeof value !== "object" || value === null) return String(value);
    if (this.around.includes(value)) return "[Circular *1]";
    if (value instanceof Error) return value.stack?.includes(value.message) ? value.stack : String(value);
    if (value instanceof Date) return value.toISOString();
    if (value instanceof RegExp) return String(value);
    return this.object(value, level);
  }

  private object(value: object, level: number): string {
    const { name, open, close, isList } = braces(value);
    if (isEmpty(value)) return `${open}${close}`;
    if (level > DEPTH) return `[${Array.isArray(value) ? "Array" : name || "Object"}]`;
    this.around.push(value);
    this.lastLevel = level;
    const entries = this.entries(value, level);
    this.around.pop();
    return this.lines(entries, open, close, level, isList ? value : undefined);
  }

  private entries(value: object, level: number): string[] {
    const inner = (child: unknown): string => {
      this.indent += 2;
      const text = this.print(child, level + 1);
      this.indent -= 2;
      return text;
    };
    const property = ([key, child]: [string, unknown]): string =>
      `${/^[a-zA-Z_]\w*$/.test(key) ? key : quote(key)}: ${inner(child)}`;
    if (value instanceof Map) return [...value].map(([key, child]) => `${inner(key)} => ${inner(child)}`);
    if (value instanceof Set) return [...value].map(inner);
    if (!isArrayLike(value)) return Object.entries(value).map(property);
    const shown = Array.from({ length: Math.min(value.length, MAX_ELEMENTS) }, (_, i) => inner(value[i]));
    const more = value.length - shown.length;
    return more > 0 ? [...shown, `... ${more} more item${more > 1 ? "s" : ""}`] : shown;
  }

  /** Entries on one line if they are short and little nested; else below each other, short ones in columns. */
  private lines(entries: string[], open: string, close: string, level: number, list: object | undefined): string {
    const grouped =
      list !== undefined && entries.length > 6 ? this.columns(entries, list as ArrayLike<unknown>) : entries;
    if (this.lastLevel - level < COMPACT && grouped.length === entries.length) {
      const start = entries.length + this.indent + open.length + 10;
      const total = entries.reduce((sum, entry) => sum + entry.length, entries.length + start);
      const line = `${open} ${entries.join(", ")} ${close}`;
      if (total <= WIDTH && !line.includes("\n")) return line;
    }
    const before = `\n${" ".repeat(this.indent)}`;
    return `${open}${before}  ${grouped.join(`,${before}  `)}${before}${close}`;
  }

  private columns(entries: string[], list: ArrayLike<unknown>): string[] {
    const count = list.length > MAX_ELEMENTS ? entries.length - 1 : entries.length;
    const lengths = entries.slice(0, count).map((entry) => entry.length);
    const widest = Math.max(...lengths) + 2;
    const total = lengths.reduce((sum, length) => sum + length + 2, 0);
    if (widest * 3 + this.indent >= WIDTH || !(total / widest > 5 || widest <= 8)) return entries;
    const biased = Math.max(widest - 3 - Math.sqrt(widest - total / entries.length), 1);
    const columns = Math.min(
      Math.round(Math.sqrt(2.5 * biased * count) / biased),
      Math.floor((WIDTH - this.indent) / widest),
      COMPACT * 4,
      15,
    );
    if (columns <= 1) return entries;
    const widths = Array.from({ length: columns }, (_, column) =>
      Math.max(...lengths.filter((_, i) => i % columns === column)),
    );
    const isNumeric = Array.from(list).every((x) => typeof x === "number" || typeof x === "bigint");
    const rows: string[] = [];
    for (let from = 0; from < count; from += columns) {
      const row = entries.slice(from, Math.min(from + columns, count));
      const cells = row.map((entry, i) => {
        const isLast = i === row.length - 1;
        const text = isLast ? entry : `${entry}, `;
        const width = widths[i]! + (isLast ? 0 : 2);
        return isNumeric ? text.padStart(width) : isLast ? text : text.padEnd(width);
      });
      rows.push(cells.join(""));
    }
    return [...rows, ...entries.slice(count)];
  }
}

type List = { readonly length: number; readonly [i: number]: unknown };
const isArrayLike = (value: object): value is List => Array.isArray(value) || isTyped(value);
const isEmpty = (value: object): boolean =>
  value instanceof Map || value instanceof Set
    ? value.size === 0
    : isArrayLike(value)
      ? value.length === 0
      : Object.keys(value).length === 0;
const isTyped = (value: object): boolean => ArrayBuffer.isView(value) && !(value instanceof DataView);

/** The brackets around the entries, with the name of a class in front. */
function braces(value: object): { name: string; open: string; close: string; isList: boolean } {
  const name = (Object.getPrototypeOf(value) as object | null)?.constructor.name ?? "";
  if (Array.isArray(value))
    return { name, open: name === "Array" ? "[" : `${name}(${value.length}) [`, close: "]", isList: true };
  if (isTyped(value))
    return { name, open: `${name}(${(value as unknown as List).length}) [`, close: "]", isList: true };
  if (value instanceof Map || value instanceof Set)
    return { name, open: `${name}(${value.size}) {`, close: "}", isList: false };
  if (name === "") return { name, open: "[Object: null prototype] {", close: "}", isList: false };
  return { name, open: name === "Object" ? "{" : `${name} {`, close: "}", isList: false };
}

function functionName(own: { readonly name: string }): string {
  const text = Function.prototype.toString.call(own);
  if (text.startsWith("class")) return own.name === "" ? "[class (anonymous)]" : `[class ${own.name}]`;
  const kind = own.constructor.name;
  return own.name === "" ? `[${kind} (anonymous)]` : `[${kind}: ${own.name}]`;
}

/** In single quotes, or in others if the text has single ones. */
function quote(text: string): string {
  const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") ? "`" : "'";
  const escaped = text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t").replaceAll("\r", "\\r");
  return `${mark}${mark === "'" ? escaped.replaceAll("'", "\\'") : escaped}${mark}`;
}
