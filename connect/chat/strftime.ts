/**
 * Python's `datetime.strftime`, as it is on Linux in the C locale: the directives of C, Python's `%f`, and the flags
 * `-` (no padding), `_` (spaces), `0`, `^` (upper case). The date has no time zone, as `datetime.now()` has none.
 */
const MONTHS = "January February March April May June July August September October November December".split(" ");
const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const DAY = 86_400_000;

/** A number and how it is padded. */
type Field = readonly [value: number, width: number, pad: "0" | " "];

/** The date, in local time, as the format says. An unknown directive stays as it is. */
export function strftime(date: Date, format: string): string {
  return format.replace(/%([-_0^#]*)([A-Za-z%])/g, (whole, flags: string, letter: string) => {
    const expanded = WHOLES[letter];
    const field = expanded === undefined ? fieldOf(date, letter) : strftime(date, expanded);
    if (field === undefined) return whole;
    if (typeof field === "string") return flags.includes("^") ? field.toUpperCase() : field;
    const [value, width, pad] = field;
    if (flags.includes("-")) return String(value);
    return String(value).padStart(width, flags.includes("_") ? " " : flags.includes("0") ? "0" : pad);
  });
}

/** Directives that stand for several. */
const WHOLES: Readonly<Record<string, string>> = {
  c: "%a %b %e %H:%M:%S %Y",
  D: "%m/%d/%y",
  F: "%Y-%m-%d",
  R: "%H:%M",
  r: "%I:%M:%S %p",
  T: "%H:%M:%S",
  X: "%H:%M:%S",
  x: "%m/%d/%y",
};

function fieldOf(date: Date, letter: string): string | Field | undefined {
  const [year, month, weekday] = [date.getFullYear(), date.getMonth(), date.getDay()];
  const hour = date.getHours();
  const yearDay = dayOf(year, month, date.getDate()) - dayOf(year, 0, 1);
  const two = (value: number, pad: "0" | " " = "0"): Field => [value, 2, pad];
  switch (letter) {
    case "a":
      return DAYS[weekday]!.slice(0, 3);
    case "A":
      return DAYS[weekday]!;
    case "b":
    case "h":
      return MONTHS[month]!.slice(0, 3);
    case "B":
      return MONTHS[month]!;
    case "C":
      return two(Math.floor(year / 100));
    case "d":
      return two(date.getDate());
    case "e":
      return two(date.getDate(), " ");
    case "f":
      return [date.getMilliseconds() * 1000, 6, "0"];
    case "G":
      return [isoWeek(date)[0], 1, "0"];
    case "g":
      return two(isoWeek(date)[0] % 100);
    case "H":
      return two(hour);
    case "I":
      return two(hour % 12 || 12);
    case "j":
      return [yearDay + 1, 3, "0"];
    case "k":
      return two(hour, " ");
    case "l":
      return two(hour % 12 || 12, " ");
    case "M":
      return two(date.getMinutes());
    case "m":
      return two(month + 1);
    case "n":
      return "\n";
    case "P":
      return hour < 12 ? "am" : "pm";
    case "p":
      return hour < 12 ? "AM" : "PM";
    case "S":
      return two(date.getSeconds());
    case "s":
      return [Math.floor(date.getTime() / 1000), 1, "0"];
    case "t":
      return "\t";
    case "U":
      return two(Math.floor((yearDay + 7 - weekday) / 7));
    case "u":
      return [weekday || 7, 1, "0"];
    case "V":
      return two(isoWeek(date)[1]);
    case "W":
      return two(Math.floor((yearDay + 7 - ((weekday + 6) % 7)) / 7));
    case "w":
      return [weekday, 1, "0"];
    case "Y":
      return [year, 1, "0"];
    case "y":
      return two(year % 100);
    case "Z":
    case "z":
      return "";
    case "%":
      return "%";
    default:
      return undefined;
  }
}

/** The number of a day since 1970. */
const dayOf = (year: number, month: number, day: number): number => Date.UTC(year, month, day) / DAY;

/** Year and week of ISO 8601: a week belongs to the year of its Thursday. */
function isoWeek(date: Date): [year: number, week: number] {
  const thursday = dayOf(date.getFullYear(), date.getMonth(), date.getDate()) + 4 - (date.getDay() || 7);
  const year = new Date(thursday * DAY).getUTCFullYear();
  return [year, Math.floor((thursday - dayOf(year, 0, 1)) / 7) + 1];
}
