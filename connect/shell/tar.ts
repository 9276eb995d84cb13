/** Reading of tar archives: as far as GNU tar writes them of small files (POSIX.1-1988, `ustar`). */

const BLOCK = 512;

/**
 * The entries of an archive: paths without a slash at the end → the text of a file, or null for a directory.
 * @param archive one character for each byte
 * @returns undefined if it is no archive, or has entries of other kinds
 */
export function tarEntries(archive: string): ReadonlyMap<string, string | null> | undefined {
  const entries = new Map<string, string | null>();
  let at = 0;
  for (;;) {
    const header = archive.slice(at, at + BLOCK);
    if (header.length < BLOCK) return undefined;
    if (/^\0+$/.test(header)) return entries;
    const field = (from: number, length: number): string => header.slice(from, from + length).replace(/\0.*$/s, "");
    const octal = (from: number, length: number): number => {
      const digits = field(from, length).trim();
      return /^[0-7]{1,11}$/.test(digits) ? parseInt(digits, 8) : NaN;
    };
    const size = octal(124, 12);
    // The sum of all bytes, those of the sum itself counted as blanks.
    const sum = [...header].reduce((total, byte, i) => total + (i >= 148 && i < 156 ? 32 : byte.charCodeAt(0)), 0);
    const isWhole = field(257, 6).startsWith("ustar") && field(345, 155) === "" && octal(148, 8) === sum;
    if (!isWhole || Number.isNaN(size)) return undefined;
    const kind = field(156, 1);
    const path = field(0, 100).replace(/^\.\//, "").replace(/\/$/, "");
    at += BLOCK;
    if (kind === "5") entries.set(path, null);
    else if (kind === "0" || kind === "") {
      const bytes = archive.slice(at, at + size);
      if (bytes.length < size) return undefined;
      entries.set(path, Buffer.from(bytes, "latin1").toString("utf8"));
    } else return undefined;
    at += BLOCK * Math.ceil(size / BLOCK);
  }
}
