/**
 * A text as a terminal may show it. What a model writes can hold control characters: an escape sequence would colour,
 * clear or retitle the terminal, a mark of direction would turn lines around. Each is shown as a sign instead; line
 * ends and tabs stay.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, (char) => {
    const code = char.charCodeAt(0);
    if (char === "\n" || char === "\t") return char;
    if (code < 0x20) return String.fromCharCode(0x2400 + code); // ␛ for ESC
    return code === 0x7f ? "␡" : `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
  });
}
