/** The command line of `npm run ablate`. */
import { DEVICES, folderName, MODEL_SIZES, type ModelSize, oneOf, parse, UsageError, wholeNumber } from "../options.ts";

export interface AblateOptions {
  readonly envs: readonly string[];
  /** The first one is what the others are compared with. */
  readonly methods: readonly string[];
  /** Seeds 0 to `seeds` − 1. */
  readonly seeds: number;
  /** RL steps; undefined: the main job's. */
  readonly steps: number | undefined;
  /** Steps of the warm start; undefined: the main job's. */
  readonly warmSteps: number | undefined;
  /** Tasks of an RL step; undefined: the main job's. */
  readonly groups: number | undefined;
  /** RL steps between two evaluations. */
  readonly every: number;
  /** Held-out episodes of each evaluation. */
  readonly episodes: number;
  readonly model: ModelSize;
  readonly device: (typeof DEVICES)[number];
  readonly quick: boolean;
  /** Cells that are trained at the same time, a process each. */
  readonly jobs: number;
  /** Of success, in [0, 1]. It changes the tables and not the training. */
  readonly threshold: number;
  readonly name: string;
  /** Trains nothing, shows what there is. */
  readonly reportOnly: boolean;
}

export const HELP = `worldgrad: compare methods, from the same warm starts, over seeds

  npm run ablate -- --env terminal,calculator --methods grpo,grpo+echo --seeds 5 [flags]

  --env NAMES       environments, with commas; calculator:1-2 takes only its levels 1 and 2
                                                          (default terminal)
  --methods NAMES   methods as npm start takes them; the others are compared with the first
                                                          (default grpo,grpo+echo,grpo+paw,grpo+actfocus,grpo+echo+actfocus)
  --seeds N         seeds 0 to N - 1, each with a warm start of its own, which all methods share
                                                          (default 5)
  --steps N         RL steps of every method              (default: as npm start)
  --warm-steps N    steps of the warm start               (default: as npm start)
  --groups N        tasks of an RL step, tried 8 times each
                                                          (default: as npm start)
  --every N         RL steps between two evaluations      (default 10)
  --episodes N      held-out episodes of an evaluation    (default 120)
  --threshold X     success to count the steps to, between 0 and 1
                                                          (default 0.6; may be changed later, nothing is trained anew)
  --model SIZE      tiny | small | base                   (default small)
  --device NAME     auto | wasm | webgpu | reference      (default wasm)
  --jobs N          cells at a time, a process with one thread each
                                                          (default 2)
  --name NAME       the folder in runs/                   (default ablate, with --quick ablate-quick)
  --report          train nothing; tables and page from what is finished
  --quick           a comparison of seconds that shows every part
  --list            every method and environment in a line, with its source
  --help            this text

It may be stopped or killed at any time: the same command goes on. With more methods, seeds or environments it adds those.
`;

const FLAGS = {
  env: { type: "string" },
  methods: { type: "string" },
  seeds: { type: "string" },
  steps: { type: "string" },
  "warm-steps": { type: "string" },
  groups: { type: "string" },
  every: { type: "string" },
  episodes: { type: "string" },
  threshold: { type: "string" },
  model: { type: "string" },
  device: { type: "string" },
  jobs: { type: "string" },
  name: { type: "string" },
  report: { type: "boolean" },
  quick: { type: "boolean" },
  list: { type: "boolean" },
  help: { type: "boolean" },
} as const;

const DEFAULT_METHODS = "grpo,grpo+echo,grpo+paw,grpo+actfocus,grpo+echo+actfocus";

/** @returns the options, or what is to be printed instead @throws UsageError with one line that says what was expected */
export function parseAblate(args: readonly string[]): AblateOptions | "help" | "list" {
  const values = parse(args, FLAGS);
  if (values["help"]) return "help";
  if (values["list"]) return "list";
  const text = (flag: keyof typeof FLAGS): string | undefined => values[flag] as string | undefined;
  const whole = (flag: keyof typeof FLAGS): number | undefined =>
    text(flag) === undefined ? undefined : wholeNumber(flag, text(flag)!, 1);
  const quick = values["quick"] === true;
  return {
    envs: names("env", text("env") ?? "terminal"),
    methods: names("methods", text("methods") ?? DEFAULT_METHODS),
    seeds: whole("seeds") ?? (quick ? 2 : 5),
    steps: whole("steps"),
    warmSteps: whole("warm-steps"),
    groups: whole("groups"),
    every: whole("every") ?? (quick ? 2 : 10),
    episodes: whole("episodes") ?? (quick ? 10 : 120),
    threshold: fraction("threshold", text("threshold") ?? "0.6"),
    model: oneOf("model", text("model") ?? "small", MODEL_SIZES),
    device: oneOf("device", text("device") ?? "wasm", DEVICES),
    jobs: whole("jobs") ?? 2,
    name: folderName(text("name") ?? (quick ? "ablate-quick" : "ablate")),
    reportOnly: values["report"] === true,
    quick,
  };
}

function names(flag: string, value: string): string[] {
  const list = value.split(",").map((name) => name.trim());
  if (list.includes("")) throw new UsageError(`--${flag}: expected names with commas between them, got "${value}"`);
  const twice = list.find((name, i) => list.indexOf(name) < i);
  if (twice !== undefined) throw new UsageError(`--${flag}: "${twice}" is there twice`);
  return list;
}

function fraction(flag: string, value: string): number {
  const x = Number(value);
  if (value.trim() === "" || !(x > 0 && x <= 1)) {
    throw new UsageError(`--${flag}: expected a number in (0, 1], got "${value}"`);
  }
  return x;
}
