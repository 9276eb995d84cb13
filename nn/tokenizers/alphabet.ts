/**
 * The alphabet of byte-level BPE and the pattern that cuts text into pieces before merging. The alphabet (Radford et
 * al. 2019) writes each byte as one printable character, so that tokens can be keys of a JSON file: bytes that print in
 * Latin-1 stand for themselves, the other 68 are U+0100 and up, in order; a space is "Ġ", a newline "Ċ".
 */

/**
 * Pieces: a word with at most one space before it; one digit; a run of other signs with at most one space before it;
 * one newline (so "\n" is always the same single token, in any context); white space, without its last character where
 * that can lead a word. Every character belongs to exactly one kind. Written without `\s`, `\d` and `\v`, whose
 * meanings differ between JavaScript and Oniguruma, the engine in which `tokenizers` will run it.
 */
export const DEFAULT_PATTERN: string = [
  String.raw` ?[\p{L}\p{M}]+`,
  String.raw`\p{N}`,
  String.raw` ?[^\n\t\r\p{Z}\p{L}\p{M}\p{N}]+`,
  String.raw`\n`,
  String.raw`[\t\r\p{Z}]+(?![^\n\t\r\p{Z}])`,
  String.raw`[\t\r\p{Z}]+`,
].join("|");

/** byte → its character's code */
const CODE_OF_BYTE: readonly number[] = codes();
const BYTE_OF_CODE: ReadonlyMap<number, number> = new Map(CODE_OF_BYTE.map((code, byte) => [code, byte]));

function codes(): number[] {
  let next = 256;
  const prints = (byte: number): boolean => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
  return Array.from({ length: 256 }, (_, byte) => (prints(byte) ? byte : next++));
}

/** Bytes as a string of the alphabet, one character a byte. */
export function toAlphabet(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(CODE_OF_BYTE[byte]!);
  return text;
}

/** The bytes that a string of the alphabet stands for, or undefined if it has a character of no byte. */
export function fromAlphabet(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const byte = BYTE_OF_CODE.get(text.charCodeAt(i));
    if (byte === undefined) return undefined;
    bytes[i] = byte;
  }
  return bytes;
}
