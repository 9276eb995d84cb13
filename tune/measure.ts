/**
 * Schedules that are measured on the adapter at hand. The tables of `kernels/wgsl/` were measured on three adapters;
 * the GPU of a visitor is another. For each class of shapes the candidates (`candidates.ts`) solve the
 * same problems in turn, and the fastest takes the table's place if it is faster by a margin, twice and in nearly
 * every round, and on none of the problems slower.
 */
import type { AdapterProfile, Program, Schedules, WgslKernel } from "../kernels/kernel.ts";
import { type Contest, contestsFor } from "./candidates.ts";
import { generatorsFor } from "../kernels/wgsl/generators.ts";
import type { BackendOf, Buffer } from "../engine/backends/backend.ts";

/**
 * The place where measured schedules are kept, by the adapter's name: `localStorage` is one, and
 * `run/node/schedules.ts` makes one of a file.
 */
export interface ScheduleStore {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

type Gpu = BackendOf<"webgpu">;
/** Opens the adapter once more. */
type Open = () => Promise<Gpu>;

/** A part of the key under which schedules are kept: another number after a change of kernels or of candidates. */
const VERSION = 1;
/** The share of the table's time that a candidate may take at most to replace it, on average over the problems. */
const MARGIN = 0.92;
/** The same for each problem: a schedule that is slower on one of them is not for the whole class. */
const WORST = 1.03;
/** Milliseconds that a turn takes at least; a shorter one is repeated, as clocks of browsers are coarse. */
const TURN = 2;
/** A clock that stands, as some browsers' do within a millisecond, asks for no more. */
const MOST_REPEATS = 100;
const ROUNDS = 4;
/** Rounds of table and fastest candidate alone, and those that it must win: by chance 2 of 100 winners are none. */
const DUEL = 12;
const DUEL_WINS = 10;
/** A candidate that takes so many times the table's time in the first round is out. */
const HOPELESS = 1.5;

/** The schedules of this adapter: those that `store` has of it, else measured ones, which it then keeps. */
export async function tunedSchedules(open: Open, store?: ScheduleStore): Promise<Schedules> {
  const backend = await open();
  const { features = [] } = backend.profile;
  const key = `worldgrad schedules ${VERSION}: ${backend.description}, ${features.join(" ")}`;
  const kept = readSchedules(store?.getItem(key));
  if (kept !== undefined) {
    backend.dispose();
    return kept;
  }
  const measured = await measureSchedules(backend, open);
  store?.setItem(key, JSON.stringify(measured));
  return measured;
}

/** Reads schedules that were kept; undefined for a text that is none, which is then measured again. */
function readSchedules(text: string | null | undefined): Schedules | undefined {
  try {
    const { matmul, attention } = JSON.parse(text ?? "") as Partial<Schedules>;
    const isRecord = (part: unknown): boolean => typeof part === "object" && part !== null;
    return isRecord(matmul) && isRecord(attention) ? { matmul: matmul!, attention: attention! } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Measures every contest. One that fails (a driver that cannot compile a candidate loses the device) leaves the table
 * as it is, and the next has a device of its own.
 * @param backend is disposed at the end
 */
async function measureSchedules(backend: Gpu, open: Open): Promise<Schedules> {
  const matmul: Record<string, unknown> = {};
  const attention: Record<string, unknown> = {};
  let current = backend;
  try {
    for (const contest of contestsFor(backend.profile)) {
      try {
        const winner = await winnerOf(contest, current);
        if (winner !== undefined) (contest.family === "matmul" ? matmul : attention)[contest.name] = winner;
      } catch {
        current.dispose();
        current = await open();
      }
    }
  } finally {
    current.dispose();
  }
  return { matmul, attention };
}

type Schedule = Contest["candidates"][number];

/** A schedule with its programs, one for each problem; the table's has no schedule. */
interface Entry {
  readonly schedule: Schedule | undefined;
  readonly programs: readonly Program<WgslKernel>[];
  /** The shortest time of each problem, in milliseconds. */
  best: number[];
}

/** The schedule that is faster than the table's; undefined if none is. */
async function winnerOf(contest: Contest, backend: Gpu): Promise<Schedule | undefined> {
  const table = entryOf(contest, backend.profile, undefined);
  const seen = new Set([keyOf(table)]);
  const entries = [table];
  for (const schedule of contest.candidates) {
    const entry = entryOf(contest, backend.profile, schedule);
    if (seen.has(keyOf(entry))) continue;
    seen.add(keyOf(entry));
    entries.push(entry);
  }
  const operands = contest.specs.map((_, i) => operandsOf(contest, i, backend));
  try {
    const solve = (entry: Entry, i: number): void =>
      backend.run(entry.programs[i]!, operands[i]!, () => `tune ${contest.name}`);
    const run = (entry: Entry): void => contest.specs.forEach((_, i) => solve(entry, i));
    for (const entry of entries) run(entry); // they compile side by side
    await backend.synchronize();
    const right = await resultsOf(table, run, operands, contest, backend);
    const fit: Entry[] = [table];
    for (const entry of entries.slice(1)) {
      if (agree(await resultsOf(entry, run, operands, contest, backend), right)) fit.push(entry);
    }
    /** Milliseconds of one solution of problem i. */
    const turn = async (entry: Entry, i: number, repeats: number): Promise<number> => {
      const start = performance.now();
      for (let n = 0; n < repeats; n++) solve(entry, i);
      await backend.synchronize();
      return (performance.now() - start) / repeats;
    };
    const repeats: number[] = [];
    for (const i of contest.specs.keys())
      repeats.push(Math.min(MOST_REPEATS, Math.max(1, Math.ceil(TURN / (await turn(table, i, 1))))));
    /** The time of an entry in that of the table: the geometric mean over the problems, and the worst of them. */
    const against = ({ best }: Entry): { readonly mean: number; readonly worst: number } => {
      const ratios = best.map((time, i) => time / table.best[i]!);
      return {
        mean: Math.exp(ratios.reduce((all, r) => all + Math.log(r), 0) / ratios.length),
        worst: Math.max(...ratios),
      };
    };
    /** All take turns on each problem. Those that are hopeless are left out after a round. */
    const race = async (field: readonly Entry[]): Promise<void> => {
      for (const entry of field) entry.best = contest.specs.map(() => Infinity);
      let left = field;
      for (let round = 0; round < ROUNDS; round++) {
        for (const [i, times] of repeats.entries())
          for (const entry of left) entry.best[i] = Math.min(entry.best[i]!, await turn(entry, i, times));
        left = left.filter((entry) => entry === table || against(entry).mean <= HOPELESS);
      }
    };
    const isFaster = (entry: Entry): boolean => against(entry).mean <= MARGIN && against(entry).worst <= WORST;
    await race(fit);
    const faster = fit.filter(isFaster).toSorted((a, b) => against(a).mean - against(b).mean);
    if (faster.length === 0) return undefined;
    // The fastest of many was also the luckiest, so the two meet again. Where other work takes the table's turns its
    // shortest times say little, and the choice is kept: so the candidate has to win nearly every round, too.
    const [fastest] = faster as [Entry];
    for (const entry of [table, fastest]) entry.best = contest.specs.map(() => Infinity);
    let wins = 0;
    for (let round = 0; round < DUEL; round++) {
      let ahead = 0;
      for (const [i, times] of repeats.entries())
        for (const entry of round % 2 === 0 ? [table, fastest] : [fastest, table]) {
          const time = await turn(entry, i, times);
          entry.best[i] = Math.min(entry.best[i]!, time);
          ahead += entry === table ? Math.log(time) : -Math.log(time);
        }
      if (ahead > 0) wins++;
    }
    return wins >= DUEL_WINS && isFaster(fastest) ? fastest.schedule : undefined;
  } finally {
    for (const buffer of new Set(operands.flat())) backend.free(buffer);
  }
}

function entryOf(contest: Contest, profile: AdapterProfile, schedule: Schedule | undefined): Entry {
  const of = contest.family === "matmul" ? "matmul" : "attention";
  const none: Schedules = { matmul: {}, attention: {} };
  const schedules = schedule === undefined ? none : { ...none, [of]: { [contest.name]: schedule } };
  const generators = generatorsFor({ ...profile, schedules });
  const programs =
    contest.family === "matmul"
      ? contest.specs.map((spec) => generators.matmul(spec))
      : contest.specs.map((spec) => generators[contest.family](spec));
  return { schedule, programs, best: [] };
}

/** Equal for entries that are the same kernels with the same uniforms. */
const keyOf = ({ programs }: Entry): string =>
  JSON.stringify(
    programs.map(({ steps }) => steps.map(({ kernel: { key, uniforms, workgroups } }) => [key, uniforms, workgroups])),
  );

/** The words of the inputs of a problem, and the words of its outputs. */
function wordsOf(
  { family, specs }: Contest,
  i: number,
): readonly [inputs: readonly number[], outputs: readonly number[]] {
  if (family === "matmul") {
    const { m, n, k } = specs[i]!;
    return [[m * k, k * n], [m * n]];
  }
  const { batch, queries, heads, headDim } = specs[i]!;
  const [rows, all] = [batch * queries * heads, batch * queries * heads * headDim];
  return family === "attention"
    ? [
        [all, all, all],
        [all, rows],
      ]
    : [
        [all, all, all, all, rows, all],
        [all, all, all],
      ];
}

/** Buffers of a problem: inputs with numbers from −1 to 1, then outputs. Backward, o and lse are the forward pass's. */
function operandsOf(contest: Contest, i: number, backend: Gpu): readonly Buffer[] {
  const [inputs, outputs] = wordsOf(contest, i);
  const buffers = [...inputs, ...outputs].map((words) => backend.alloc(4 * words));
  inputs.forEach((words, place) => backend.write(buffers[place]!, noise(words, place)));
  if (contest.family === "attentionBackward")
    backend.run(backend.generators.attention(contest.specs[i]!), buffers.slice(0, 5), () => `tune ${contest.name}`);
  return buffers;
}

/** Numbers from −1 to 1 without a pattern that a kernel could profit from. */
function noise(words: number, seed: number): Float32Array {
  let state = seed + 1;
  return Float32Array.from({ length: words }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return state / 2 ** 31;
  });
}

/** The outputs of all problems, which begin as NaN: a kernel that writes nothing must not show another's results. */
async function resultsOf(
  entry: Entry,
  run: (entry: Entry) => void,
  operands: readonly (readonly Buffer[])[],
  contest: Contest,
  backend: Gpu,
): Promise<readonly Float32Array[]> {
  for (const [i, buffers] of operands.entries()) {
    const [inputs, outputs] = wordsOf(contest, i);
    for (const [place, words] of outputs.entries())
      backend.write(buffers[inputs.length + place]!, new Float32Array(words).fill(NaN));
  }
  run(entry);
  const reads = operands.flatMap((buffers, i) => {
    const [inputs, outputs] = wordsOf(contest, i);
    return outputs.map((words, place) => backend.read(buffers[inputs.length + place]!, 4 * words));
  });
  return (await Promise.all(reads)).map((bytes) => new Float32Array(bytes));
}

/** Whether two results differ by rounding only: a candidate that a driver computes wrongly is not taken. */
const agree = (results: readonly Float32Array[], right: readonly Float32Array[]): boolean =>
  results.every((values, i) => {
    const largest = right[i]!.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    return values.every((x, j) => Math.abs(x - right[i]![j]!) <= 1e-4 * largest);
  });
