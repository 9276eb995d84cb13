/**
 * The outcome of maths problems: exact match after normalisation. The rules for LaTeX that differs only in looks are
 * those in use since the MATH benchmark (Hendrycks et al. 2021); numbers are compared as exact fractions. There is no
 * computer algebra: `x+1` and `1+x` differ, and so do `\sqrt{8}` and `2\sqrt{2}`.
 */

/** Longer answers are compared as text, not as numbers. */
const MAX_DIGITS = 200;

/**
 * The final answer in a text: the content of the last `\boxed{…}` or `\fbox{…}`; else the rest of the line after the
 * last `####`; else the rest of the line after the last "answer is", "answer is:" or "answer:"; else undefined. Only
 * the last answer counts, so that a text cannot offer several. Markdown's bold is taken off, and so is the sentence
 * that Minerva's prompt teaches (Lewkowycz et al. 2022): "The final answer is 5. I hope it is correct."
 */
export function finalAnswer(text: string): string | undefined {
  const boxed = lastBoxed(text);
  if (boxed !== undefined) return boxed.trim();
  const marked = text.split("####");
  if (marked.length > 1) return firstLine(marked.at(-1)!);
  const said = text.split(/\banswer(?:(?: is\b)?(?:\*\*)?:| is\b)/i);
  return said.length > 1 ? firstLine(said.at(-1)!) : undefined;
}

const firstLine = (text: string): string =>
  text
    .trim()
    .split("\n", 1)[0]!
    .replaceAll("**", "")
    .replace(/\. I hope it is correct\.?$/i, "")
    .trim();

/**
 * The text between the braces of the last `\boxed{` or `\fbox{`; braces may nest, and `\{` and `\}` do not count as
 * braces. Undefined if there is none or it is not closed.
 */
function lastBoxed(text: string): string | undefined {
  const [begin, marker] = ["\\boxed{", "\\fbox{"]
    .map((name) => [text.lastIndexOf(name), name] as const)
    .reduce((a, b) => (b[0] > a[0] ? b : a));
  if (begin < 0) return undefined;
  const start = begin + marker.length;
  let depth = 1;
  for (let at = start; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "{") depth++;
    else if (text[at] === "}") depth--;
    if (depth === 0) return text.slice(start, at);
  }
  return undefined;
}

/**
 * One spelling for answers that differ in looks only: spaces, `$`, `\left`, `\dfrac`, `\frac12`, units in `\text{}`,
 * `%`, `x =`, commas in numbers.
 */
export function normalizeMaths(text: string): string {
  let result = text.trim().replace(/\.$/, "");
  const steps: readonly (readonly [RegExp, string])[] = [
    [/−/g, "-"], // U+2212, as models write it outside of LaTeX
    [/\\(left|right)(?![a-zA-Z])/g, ""],
    [/(?<=\d)\{,\}(?=\d)/g, ","],
    [/\\[!,;: ]|\\quad\b|~/g, ""],
    [/\\[dt]frac(?![a-zA-Z])/g, "\\frac"],
    [/(?<=[\d}\s])\\(?:text|mbox|mathrm)\{[^{}]*\}(?:\^\{?[23]\}?)?$/, ""], // a unit after a number
    [/\\(?:text|mbox|mathrm)(?:bf|it|rm)?\{([^{}]*)\}/g, "$1"],
    [/\\?\$|\\?%|\\circ(?![a-zA-Z])|\^\{\\circ\}|°/g, ""],
    [/\^$|\^\{\}$/, ""], // what is left of a degree sign
    [/\s+/g, ""],
    [/^[a-zA-Z]=(?=.)/, ""],
    [/\\frac(\d)(\d)/g, "\\frac{$1}{$2}"],
    [/\\sqrt(\d)/g, "\\sqrt{$1}"],
    [/\.$/, ""],
  ];
  for (const [pattern, replacement] of steps) result = result.replace(pattern, replacement);
  if (/^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$/.test(result)) result = result.replaceAll(",", "");
  return result.toLowerCase();
}

/** Whether two answers are the same; false if one is empty. */
export function sameMaths(one: string, other: string): boolean {
  const [a, b] = [normalizeMaths(one), normalizeMaths(other)];
  if (a === "" || b === "") return false;
  if (a === b) return true;
  const [x, y] = [fractionOf(a), fractionOf(b)];
  return x !== undefined && y !== undefined && x.top * y.bottom === y.top * x.bottom;
}

/**
 * 1 if the text's final answer is the solution's, else 0; NaN if the solution is empty, because then nothing can be
 * scored.
 *
 * @param solution the answer itself, or a text with a final answer
 */
export function mathsReward(text: string, solution: string): number {
  const wanted = finalAnswer(solution) ?? solution;
  if (normalizeMaths(wanted) === "") return NaN;
  const given = finalAnswer(text);
  return given !== undefined && sameMaths(given, wanted) ? 1 : 0;
}

interface Fraction {
  readonly top: bigint;
  readonly bottom: bigint;
}

/**
 * The value of `3`, `-.5`, `1.50`, `3/4`, `\frac{3}{4}`, `-\frac{3}{4}` or the mixed number `1\frac{3}{4}`; undefined
 * for anything else, and for a denominator of 0.
 */
function fractionOf(text: string): Fraction | undefined {
  if (text.length > MAX_DIGITS) return undefined;
  const mixed = /^([+-]?)(\d+)\\frac\{(\d+)\}\{(\d+)\}$/.exec(text);
  if (mixed) {
    const [whole, part, bottom] = mixed.slice(2).map(BigInt) as [bigint, bigint, bigint];
    const top = whole * bottom + part;
    return bottom === 0n ? undefined : { top: mixed[1] === "-" ? -top : top, bottom };
  }
  const latex = /^([+-]?)\\frac\{([+-]?[\d.]+)\}\{([+-]?[\d.]+)\}$/.exec(text);
  const [top = text, bottom = "1", ...rest] = latex ? [`${latex[2]}`, `${latex[3]}`] : text.split("/");
  const a = decimalOf(top);
  const b = decimalOf(bottom);
  if (!a || !b || b.top === 0n || rest.length > 0) return undefined;
  const sign = latex?.[1] === "-" ? -1n : 1n;
  return { top: sign * a.top * b.bottom, bottom: a.bottom * b.top };
}

function decimalOf(text: string): Fraction | undefined {
  const match = /^([+-]?)(?:(\d+)\.?(\d*)|\.(\d+))$/.exec(text);
  if (!match) return undefined;
  const [, sign, whole = "0", after = "", only = ""] = match;
  const decimals = after + only;
  const top = BigInt(whole + decimals);
  return { top: sign === "-" ? -top : top, bottom: 10n ** BigInt(decimals.length) };
}
