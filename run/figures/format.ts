/**
 * Formats of numbers for people, in the terminal and on the page alike. Every function takes any number, including NaN,
 * and returns a short string without escape codes.
 */

/** The format of a metric. */
export type NumberFormat = "number" | "percent" | "count" | "seconds";

/** Four significant digits, in the shortest form: 0.1234, 12.35, 1.2e-5, 41.2k. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 10_000) return formatCount(value);
  if (size < 0.001) return minus(value.toExponential(1));
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
  const text = value.toFixed(digits);
  return minus(Number.isInteger(value) ? String(value) : text);
}

/** Whole numbers with a unit prefix: 950, 12.3k, 4.56M. */
export function formatCount(value: number): string {
  if (!Number.isFinite(value)) return formatNumber(value);
  const size = Math.abs(value);
  for (const [unit, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (size >= unit) return minus(`${Number((value / unit).toPrecision(3))}${letter}`);
  }
  return minus(String(Number(value.toPrecision(3))));
}

/** 0.4375 → "43.8 %". */
export function formatPercent(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const percent = value * 100;
  return minus(`${Math.abs(percent) >= 99.95 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`);
}

/** Seconds as m:ss, or h:mm:ss. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return "–:––";
  const whole = Math.round(seconds);
  const pad = (n: number): string => String(n).padStart(2, "0");
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h > 0 ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`;
}

export function formatAs(format: NumberFormat, value: number): string {
  if (format === "percent") return formatPercent(value);
  if (format === "count") return formatCount(value);
  if (format === "seconds") return `${formatNumber(value)} s`;
  return formatNumber(value);
}

/** With an explicit sign, for changes: +0.12, −3, ±0. */
export function formatSigned(value: number, format: (value: number) => string = formatNumber): string {
  if (Number.isNaN(value)) return "–";
  return value > 0 ? `+${format(value)}` : value === 0 ? `±${format(0)}` : format(value);
}

/** A true minus sign, which is as wide as a plus, so that columns line up. */
function minus(text: string): string {
  return text.replaceAll("-", "−");
}
