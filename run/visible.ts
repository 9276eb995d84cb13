/** Foreign text for a terminal or a page: shown, never obeyed. */

// Written as escapes, so that this file itself contains no control characters.
const UNSAFE =
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\p{Surrogate}/gu;

/**
 * Makes every control, bidirectional and invisible character of the text visible, except line feeds: ESC becomes ␛.
 * Sampled text must never move the cursor, or change the reading direction, of the person who watches it.
 */
export function visible(text: string): string {
  return text.replace(UNSAFE, (char) => {
    const code = char.codePointAt(0) ?? 0;
    if (code === 0x09) return "→";
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f ? "␡" : "�";
  });
}

/** `visible`, on one line: for names and cells of tables. */
export const visibleLine = (text: string): string => visible(text).replaceAll("\n", "␊");
