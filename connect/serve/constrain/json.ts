/**
 * JSON as a form of texts (RFC 8259): values of given shapes. Everything that a model could go on with for ever is
 * bounded: white space, the digits of a number, nesting. Strings are well-formed UTF-8 and have no half of a surrogate
 * pair, so that every reader takes them.
 */
import { choice, type Leaf, type Node, sequence, word, words } from "./machine.ts";

/** A set of JSON values. */
export type Shape = (
  | { readonly kind: "words"; readonly texts: readonly string[] }
  /** Lengths in code points. */
  | { readonly kind: "string"; readonly min: number; readonly max: number }
  /** `least`, `most`: bounds that belong to the range, in units of 10^−digits. */
  | { readonly kind: "number"; readonly isInteger: boolean; readonly least?: bigint; readonly most?: bigint }
  | { readonly kind: "array"; readonly items: Shape; readonly min: number; readonly max: number }
  /** Properties in their order; or, with `others`, any keys. */
  | { readonly kind: "object"; readonly properties: readonly Property[]; readonly others?: Shape }
  | { readonly kind: "choice"; options: readonly Shape[] }
) & {
  /** The levels of brackets that a value needs at least. */
  levels: number;
};

/** A property of an object. */
export interface Property {
  readonly key: string;
  readonly shape: Shape;
  readonly isRequired: boolean;
}

/** The most digits before the point of a number, and behind it. */
export const MOST_DIGITS = 16;
const MOST_EXPONENT_DIGITS = 2;
/** Spaces or tabs behind a line end. */
const MOST_INDENT = 32;
const MOST_LINE_ENDS = 2;

const [SPACE, TAB, LINE_END, QUOTE, BACKSLASH, MINUS, POINT] = [0x20, 0x09, 0x0a, 0x22, 0x5c, 0x2d, 0x2e];
const isDigit = (sign: number): boolean => sign >= 0x30 && sign <= 0x39;

/** Nothing, one space, or line ends with an indentation. The state counts: −1 a space, line ends, then spaces · 4. */
export const space: Leaf = {
  kind: "leaf",
  start: 0,
  step: (state: number, sign) => {
    if (sign === LINE_END && state >= 0 && state < MOST_LINE_ENDS) return state + 1;
    if (sign === SPACE && state === 0) return -1;
    const indents = (sign === SPACE || sign === TAB) && state > 0 && state < 4 * MOST_INDENT;
    return indents ? state + 4 : undefined;
  },
  mayEnd: () => true,
};

/** Parts of a string: its start, a character that begins, bytes and digits that have to follow, its end. */
const Part = {
  Start: 0,
  Plain: 1,
  End: 2,
  /** Bytes of a character that are missing, and first ones with a smaller range. */
  Bytes1: 3,
  Bytes2: 4,
  Bytes3: 5,
  BehindE0: 6,
  BehindED: 7,
  BehindF0: 8,
  BehindF4: 9,
  Escape: 10,
  /** Hexadecimal digits that are missing. */
  Hex1: 11,
  Hex2: 12,
  Hex3: 13,
  Hex4: 14,
  /** Behind `\ud`. */
  HexD: 15,
  /** The rest of the first half of a pair, and the start of the second. */
  High2: 16,
  High1: 17,
  HighEnd: 18,
  LowU: 19,
  LowD: 20,
  LowC: 21,
} as const;
const PARTS = 32;

const isHex = (sign: number): boolean => isDigit(sign) || ((sign | 0x20) >= 0x61 && (sign | 0x20) <= 0x66);
const within = (sign: number, from: number, to: number): boolean => sign >= from && sign <= to;

/** The part behind a sign that continues a character; undefined: it cannot. */
function continued(part: number, sign: number): number | undefined {
  const lower = sign | 0x20;
  switch (part) {
    case Part.Bytes1:
      return within(sign, 0x80, 0xbf) ? Part.Plain : undefined;
    case Part.Bytes2:
      return within(sign, 0x80, 0xbf) ? Part.Bytes1 : undefined;
    case Part.Bytes3:
      return within(sign, 0x80, 0xbf) ? Part.Bytes2 : undefined;
    case Part.BehindE0:
      return within(sign, 0xa0, 0xbf) ? Part.Bytes1 : undefined;
    case Part.BehindED:
      return within(sign, 0x80, 0x9f) ? Part.Bytes1 : undefined;
    case Part.BehindF0:
      return within(sign, 0x90, 0xbf) ? Part.Bytes2 : undefined;
    case Part.BehindF4:
      return within(sign, 0x80, 0x8f) ? Part.Bytes2 : undefined;
    case Part.Escape:
      return sign === 0x75 ? Part.Hex4 : `"\\/bfnrt`.includes(String.fromCharCode(sign)) ? Part.Plain : undefined;
    case Part.Hex4:
      return lower === 0x64 ? Part.HexD : isHex(sign) ? Part.Hex3 : undefined;
    case Part.Hex3:
      return isHex(sign) ? Part.Hex2 : undefined;
    case Part.Hex2:
      return isHex(sign) ? Part.Hex1 : undefined;
    case Part.Hex1:
      return isHex(sign) ? Part.Plain : undefined;
    case Part.HexD:
      return within(sign, 0x30, 0x37)
        ? Part.Hex2
        : within(sign, 0x38, 0x39) || within(lower, 0x61, 0x62)
          ? Part.High2
          : undefined;
    case Part.High2:
      return isHex(sign) ? Part.High1 : undefined;
    case Part.High1:
      return isHex(sign) ? Part.HighEnd : undefined;
    case Part.HighEnd:
      return sign === BACKSLASH ? Part.LowU : undefined;
    case Part.LowU:
      return sign === 0x75 ? Part.LowD : undefined;
    case Part.LowD:
      return lower === 0x64 ? Part.LowC : undefined;
    case Part.LowC:
      return within(lower, 0x63, 0x66) ? Part.Hex2 : undefined;
    default:
      return undefined;
  }
}

/** The part behind the first sign of a character; undefined: none begins so. */
function begun(sign: number): number | undefined {
  if (sign === BACKSLASH) return Part.Escape;
  if (sign < 0x80) return sign >= 0x20 ? Part.Plain : undefined;
  if (within(sign, 0xc2, 0xdf)) return Part.Bytes1;
  if (sign === 0xe0) return Part.BehindE0;
  if (sign === 0xed) return Part.BehindED;
  if (within(sign, 0xe1, 0xef)) return Part.Bytes2;
  if (sign === 0xf0) return Part.BehindF0;
  if (sign === 0xf4) return Part.BehindF4;
  return within(sign, 0xf1, 0xf3) ? Part.Bytes3 : undefined;
}

/** A string with its quotes. The state is its part, and the characters so far as far as they matter. */
function string(min: number, max: number): Leaf {
  return {
    kind: "leaf",
    start: Part.Start,
    step: (state: number, sign) => {
      const [part, length] = [state % PARTS, Math.floor(state / PARTS)];
      if (part === Part.Start) return sign === QUOTE ? Part.Plain : undefined;
      if (part !== Part.Plain) {
        const after = continued(part, sign);
        return after === undefined ? undefined : length * PARTS + after;
      }
      if (sign === QUOTE) return length >= min ? Part.End : undefined;
      const after = length < max ? begun(sign) : undefined;
      const counted = max === Infinity ? Math.min(length + 1, min) : length + 1;
      return after === undefined ? undefined : counted * PARTS + after;
    },
    mayEnd: (state: number) => state === Part.End,
  };
}

/** Parts of a number, in the order in which they may follow each other. */
const Digits = {
  None: 0,
  Minus: 1,
  Zero: 2,
  Integer: 3,
  Point: 4,
  Fraction: 5,
  E: 6,
  ESign: 7,
  Exponent: 8,
} as const;

const ENDS: ReadonlySet<number> = new Set([Digits.Zero, Digits.Integer, Digits.Fraction, Digits.Exponent]);

/** A number of any value. The state is its part · 32 + the digits of the part. */
function number(isInteger: boolean): Leaf {
  return {
    kind: "leaf",
    start: 0,
    step: (state: number, sign) => {
      const [part, count] = [state >> 5, state & 31];
      const to = (next: number, digits = 0): number => (next << 5) | digits;
      if (isDigit(sign)) {
        if (part <= Digits.Minus) return sign === 0x30 ? to(Digits.Zero) : to(Digits.Integer, 1);
        if (part === Digits.Integer) return count < MOST_DIGITS ? to(Digits.Integer, count + 1) : undefined;
        if (part === Digits.Point) return to(Digits.Fraction, 1);
        if (part === Digits.Fraction) return count < MOST_DIGITS ? to(Digits.Fraction, count + 1) : undefined;
        if (part === Digits.E || part === Digits.ESign) return to(Digits.Exponent, 1);
        return part === Digits.Exponent && count < MOST_EXPONENT_DIGITS ? to(Digits.Exponent, count + 1) : undefined;
      }
      if (sign === MINUS && part === Digits.None) return to(Digits.Minus);
      if (isInteger) return undefined;
      const isWhole = part === Digits.Zero || part === Digits.Integer;
      if (sign === POINT) return isWhole ? to(Digits.Point) : undefined;
      if ((sign | 0x20) === 0x65) return isWhole || part === Digits.Fraction ? to(Digits.E) : undefined;
      return part === Digits.E && (sign === MINUS || sign === 0x2b) ? to(Digits.ESign) : undefined;
    },
    mayEnd: (state: number) => ENDS.has(state >> 5),
  };
}

/**
 * A number within bounds, without an exponent. The state is its text: a sign may follow if one of the numbers that
 * then can be written lies within the bounds.
 */
function boundedNumber(isInteger: boolean, least: bigint, most: bigint): Leaf {
  const decimals = isInteger ? 0 : MOST_DIGITS;
  /** Whether a number between two amounts, with the text's sign, is in the range. */
  const meets = (isNegative: boolean, from: bigint, to: bigint): boolean =>
    isNegative ? -to <= most && -from >= least : from <= most && to >= least;
  const canBecome = (text: string): boolean => {
    const found = /^(-?)(0|[1-9]\d*|)(\.\d*)?$/.exec(text);
    if (found === null) return false;
    const [, minus, whole = "", point] = found;
    const isNegative = minus === "-";
    if (whole === "") return point === undefined && meets(isNegative, 0n, 10n ** BigInt(MOST_DIGITS + decimals) - 1n);
    if (whole.length > MOST_DIGITS || (point !== undefined && isInteger)) return false;
    const digits = point?.slice(1) ?? "";
    if (digits.length > decimals) return false;
    const unit = 10n ** BigInt(decimals - digits.length);
    const value = BigInt(whole + digits);
    // Further digits before the point make it longer.
    const longer = point === undefined && whole !== "0" ? MOST_DIGITS - whole.length : 0;
    for (let k = 0; k <= longer; k++) {
      const scale = unit * 10n ** BigInt(k);
      if (meets(isNegative, value * scale, (value + 1n) * scale - 1n)) return true;
    }
    return false;
  };
  return {
    kind: "leaf",
    start: "",
    step: (text: string, sign) => {
      if (!isDigit(sign) && sign !== MINUS && sign !== POINT) return undefined;
      const longer = text + String.fromCharCode(sign);
      return canBecome(longer) ? longer : undefined;
    },
    mayEnd: (text: string) => {
      if (!/\d$/.test(text)) return false;
      const [whole = "", digits = ""] = text.replace("-", "").split(".");
      const value = BigInt(whole + digits.padEnd(decimals, "0"));
      return meets(text.startsWith("-"), value, value);
    },
  };
}

const [OPEN, CLOSE, OPEN_LIST, CLOSE_LIST, COMMA, COLON] = [..."{}[],:"].map(word) as [
  Leaf,
  Leaf,
  Leaf,
  Leaf,
  Leaf,
  Leaf,
];
const ANY_KEY = string(0, Infinity);

/** Nodes of shapes: one for each, so that shapes may contain themselves. */
const nodes = new WeakMap<Shape, Node>();

/** Values of a shape as a form of texts. */
export function jsonNode(shape: Shape): Node {
  let node = nodes.get(shape);
  if (node === undefined) nodes.set(shape, (node = made(shape)));
  return node;
}

function made(shape: Shape): Node {
  switch (shape.kind) {
    case "words":
      return words(shape.texts);
    case "string":
      return string(shape.min, shape.max);
    case "number":
      return shape.least === undefined || shape.most === undefined
        ? number(shape.isInteger)
        : boundedNumber(shape.isInteger, shape.least, shape.most);
    case "choice":
      return choice(() => shape.options.map((option) => fitting(option, jsonNode(option))));
    case "array":
      return { kind: "nested", levels: shape.levels, opens: true, body: array(shape) };
    case "object":
      return {
        kind: "nested",
        levels: shape.levels,
        opens: true,
        body: shape.others ? anyObject(shape.others) : object(shape.properties),
      };
  }
}

/** A node with a value, entered only if the levels that are left suffice for it. */
const fitting = (shape: Shape, body: Node): Node => ({ kind: "nested", levels: shape.levels, opens: false, body });

function array({ items, min, max }: Shape & { readonly kind: "array" }): Node {
  const item = jsonNode(items);
  // Beyond the bounds all numbers of items are alike.
  const cap = max === Infinity ? min : max;
  const rest = memo((count: number): Node => {
    const next = Math.min(count + 1, cap);
    const more = (): Node => fitting(items, sequence(COMMA, space, item, rest(next)));
    return choice(() => [
      ...(count >= min ? [sequence(space, CLOSE_LIST)] : []),
      ...(max === Infinity || count < max ? [more()] : []),
    ]);
  });
  return sequence(
    OPEN_LIST,
    space,
    choice(() => [
      ...(min === 0 ? [CLOSE_LIST] : []),
      ...(max > 0 ? [fitting(items, sequence(item, rest(Math.min(1, cap))))] : []),
    ]),
  );
}

function object(properties: readonly Property[]): Node {
  const members = properties.map(({ key, shape }) => sequence(word(`${JSON.stringify(key)}:`), space, jsonNode(shape)));
  /** The text behind a member. */
  const behind = memo((next: number): Node => {
    const required = properties.some(({ isRequired }, i) => i >= next && isRequired);
    return choice(() => [
      ...(required ? [] : [sequence(space, CLOSE)]),
      ...(next < properties.length ? [sequence(COMMA, space, member(next))] : []),
    ]);
  });
  /** A member from one on. */
  const member = memo((first: number): Node => {
    const required = properties.findIndex(({ isRequired }, i) => i >= first && isRequired);
    const last = required < 0 ? properties.length - 1 : required;
    return choice(() =>
      members
        .slice(first, last + 1)
        .map((node, i) => fitting(properties[first + i]!.shape, sequence(node, behind(first + i + 1)))),
    );
  });
  const isOptional = !properties.some(({ isRequired }) => isRequired);
  return sequence(
    OPEN,
    space,
    choice(() => [member(0), ...(isOptional ? [CLOSE] : [])]),
  );
}

function anyObject(others: Shape): Node {
  const member: Node = fitting(
    others,
    sequence(
      ANY_KEY,
      COLON,
      space,
      jsonNode(others),
      choice(() => [sequence(space, CLOSE), sequence(COMMA, space, member)]),
    ),
  );
  return sequence(
    OPEN,
    space,
    choice(() => [CLOSE, member]),
  );
}

function memo<T>(make: (n: number) => T): (n: number) => T {
  const known = new Map<number, T>();
  return (n) => {
    if (!known.has(n)) known.set(n, make(n));
    return known.get(n)!;
  };
}
