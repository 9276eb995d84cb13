/** What is assumed, each assumption a flag: the command line of bench/scale.ts, and its help. */
import { number, type Option, options, text } from "../../engine/optionTable.ts";
import { parse } from "../../run/node/flags.ts";
import { UsageError } from "../../run/usage.ts";

/** Of the large case, in which everything is assumed. */
export const ASSUMED = options("assumed", {
  groups: number(256, "groups that a step learns from", { integer: true, min: 1 }),
  groupSize: number(8, "episodes of a group", { integer: true, min: 1 }),
  places: number(8, "episodes that a worker plays at a time", { integer: true, min: 1 }),
  seconds: number(8, "median seconds of an episode (log-normal)", { above: 0 }),
  spread: number(0.6, "standard deviation of their logarithm", { min: 0 }),
  tokens: number(400, "tokens of an episode", { integer: true, min: 1 }),
  tokenBytes: number(32, "bytes in which a token travels", { min: 0 }),
  weights: number(40e6, "bytes of the weights", { min: 0 }),
  adapter: number(1e6, "bytes of the weights in the second case, an adapter", { min: 0 }),
  link: number(125e6, "bytes per second that the server's link carries", { above: 0 }),
  latency: number(0.05, "seconds of a transfer beside its bytes", { min: 0 }),
  step: number(1, "seconds of learning for each step", { min: 0 }),
  perToken: number(20e-6, "seconds of learning for each token", { min: 0 }),
});

/** Of all cases. */
export const COMMON = options("simulation", {
  staleness: number(2, "steps at most between the policy that plays and the step that learns", {
    integer: true,
    min: 0,
  }),
  steps: number(24, "steps that are simulated; the second half counts", { integer: true, min: 2 }),
  seed: number(1, "seed of everything random", { integer: true, min: 0 }),
});

/** Of what is measured. */
export const MEASURED = options("measurement", {
  measuredSteps: number(16, "steps that are measured for each number of workers", { integer: true, min: 4 }),
  wait: number(0.25, "seconds that each answer of the environment takes in the second measurement", { above: 0 }),
});

const FILES = options("files", {
  from: text("bench/scale/measured.json", "file of the measurement"),
  page: text("runs/scale.html", "the page that is written"),
});

export type AssumedSettings = ReturnType<typeof ASSUMED.read>;
export type CommonSettings = ReturnType<typeof COMMON.read>;
export type MeasuredSettings = ReturnType<typeof MEASURED.read>;

export interface ScaleOptions {
  readonly assumed: AssumedSettings;
  readonly common: CommonSettings;
  readonly measured: MeasuredSettings;
  readonly files: ReturnType<typeof FILES.read>;
  /** Measures first, and writes the file. */
  readonly measure: boolean;
}

const TABLES = [COMMON, ASSUMED, MEASURED, FILES];

/** Options in code are in camelCase, flags have hyphens. */
const flagOf = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

const lines = ({ fields }: { readonly fields: Readonly<Record<string, Option<unknown>>> }): string =>
  Object.entries(fields)
    .map(([name, option]) => `  --${flagOf(name)} X`.padEnd(22) + `${option.about} (${String(option.default)})`)
    .join("\n");

export const HELP: string = `Many workers on other machines: tokens per second, measured here and simulated up to 10,000

  npx tsx bench/scale.ts            simulates, from the file of a measurement and from assumptions; writes a page
  npx tsx bench/scale.ts --measure  measures first, with a real nats-server and 1, 2 and 4 processes that play

Both kinds of case
${lines(COMMON)}

The large case: all of it is assumed
${lines(ASSUMED)}

The measurement
${lines(MEASURED)}
${lines(FILES)}
`;

/** @throws UsageError one line for a mistake */
export function parseScale(args: readonly string[]): ScaleOptions | "help" {
  const names = TABLES.flatMap(({ fields }) => Object.keys(fields));
  const flags = Object.fromEntries(names.map((name) => [flagOf(name), { type: "string" as const }]));
  const values = parse(args, { ...flags, measure: { type: "boolean" }, help: { type: "boolean" } });
  if (values["help"]) return "help";
  const given = ({ fields }: (typeof TABLES)[number]): Record<string, string | number> =>
    Object.fromEntries(
      Object.entries(fields).flatMap(([name, { kind }]) => {
        const said = values[flagOf(name)] as string | undefined;
        if (said === undefined) return [];
        const isNumber = kind === "number" && said.trim() !== "" && Number.isFinite(Number(said));
        return [[name, isNumber ? Number(said) : said]];
      }),
    );
  try {
    return {
      common: COMMON.read(given(COMMON)),
      assumed: ASSUMED.read(given(ASSUMED)),
      measured: MEASURED.read(given(MEASURED)),
      files: FILES.read(given(FILES)),
      measure: values["measure"] === true,
    };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
