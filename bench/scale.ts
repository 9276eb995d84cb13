/**
 * `npx tsx bench/scale.ts`: what many workers on other machines would give, by simulation. The admission and the order
 * of groups are the queue's own code (rl/async/queue.ts); seconds and bytes come from distributions, whose parameters
 * are flags: --name=value. A table in Markdown, for docs/scale.md.
 *
 * Assumptions: a worker plays a group at a time, and a group takes as long as its slowest episode; episode seconds are
 * log-normal; tickets wait in one line and go to idle workers; every worker reads every version once, through the
 * server's one link, in which all bytes wait in line; learning takes a fixed time and a time per token. No faults.
 */
import process from "node:process";
import { Rng } from "../engine/random.ts";
import { StalenessQueue } from "../rl/async/queue.ts";

const DEFAULTS = {
  steps: 12,
  groups: 256,
  groupSize: 8,
  staleness: 2,
  /** Median seconds of an episode on one worker, and the spread of its logarithm. */
  seconds: 8,
  spread: 0.6,
  /** Tokens of an episode; 32 bytes of each travel. */
  tokens: 400,
  /** Bytes of the weights, or of an adapter. */
  weights: 40e6,
  /** Bytes per second that the server's link carries. */
  link: 125e6,
  /** Seconds of learning: per step, and per token. */
  step: 1,
  perToken: 20e-6,
};
type Settings = typeof DEFAULTS;

interface Result {
  readonly tokensPerSecond: number;
  readonly staleness: number;
  readonly wasted: number;
  readonly learner: number;
  readonly workers: number;
  readonly link: number;
}

/** An event at a time; the lowest time is next. */
class Events {
  readonly #heap: { readonly time: number; readonly run: () => void }[] = [];

  get isEmpty(): boolean {
    return this.#heap.length === 0;
  }

  add(time: number, run: () => void): void {
    const heap = this.#heap;
    let i = heap.push({ time, run }) - 1;
    for (let up = (i - 1) >> 1; i > 0 && heap[up]!.time > time; [i, up] = [up, (up - 1) >> 1])
      [heap[i], heap[up]] = [heap[up]!, heap[i]!];
  }

  next(): { readonly time: number; readonly run: () => void } {
    const heap = this.#heap;
    const first = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return first;
    heap[0] = last;
    for (let i = 0; ;) {
      let least = i;
      for (const child of [2 * i + 1, 2 * i + 2])
        if (child < heap.length && heap[child]!.time < heap[least]!.time) least = child;
      if (least === i) return first;
      [heap[i], heap[least], i] = [heap[least]!, heap[i]!, least];
    }
  }
}

/** A run with so many workers. Rates are of the second half of its steps. */
function simulate(count: number, s: Settings): Result {
  const rng = new Rng(1);
  const queue = new StalenessQueue<number>({ batch: s.groups, maxStaleness: s.staleness });
  const events = new Events();
  const bytes = s.groupSize * s.tokens * 32;
  let [now, linkFree, linkBusy, learning, playing, stale, taken, dropped, played] = [0, 0, 0, 0, 0, 0, 0, 0, 0];
  let [isLearning, begun] = [false, 0];
  const waiting: number[] = [];
  const idle = Array.from({ length: count }, (_, i) => i);
  const version = new Int32Array(count).fill(-1);

  const transfer = (size: number): number => {
    linkFree = Math.max(now, linkFree) + size / s.link;
    linkBusy += size / s.link;
    return linkFree;
  };
  const draw = (): number => {
    let slowest = 0;
    for (let i = 0; i < s.groupSize; i++) slowest = Math.max(slowest, s.seconds * Math.exp(s.spread * rng.normal()));
    return slowest;
  };
  const give = (): void => {
    while (waiting.length > 0 && idle.length > 0) {
      const [ticket, worker] = [waiting.shift()!, idle.shift()!];
      const own = queue.version;
      // Between two groups a worker takes the newest policy.
      const start = version[worker] === own ? now : transfer(s.weights);
      version[worker] = own;
      const seconds = draw();
      playing += seconds;
      events.add(start + seconds, () => {
        idle.push(worker);
        events.add(transfer(bytes), () => {
          played++;
          queue.push({ ticket, value: own, oldest: own });
          learn();
        });
        give();
      });
    }
  };
  const learn = (): void => {
    if (isLearning) return;
    for (const { ticket } of queue.expire()) {
      dropped++;
      waiting.push(ticket);
    }
    const units = queue.take();
    if (units) {
      isLearning = true;
      const seconds = s.step + s.perToken * s.groups * s.groupSize * s.tokens;
      for (const { value } of units) stale += queue.version - value;
      taken += units.length;
      learning += seconds;
      events.add(now + seconds, () => {
        isLearning = false;
        queue.advance();
        if (queue.version === s.steps / 2) {
          [begun, linkBusy, learning, playing, stale, taken, dropped, played] = [now, 0, 0, 0, 0, 0, 0, 0];
        }
        if (queue.version >= s.steps) return;
        waiting.push(...queue.admit(s.steps * s.groups - 1));
        learn();
      });
    }
    give();
  };
  waiting.push(...queue.admit(s.steps * s.groups - 1));
  learn();
  while (queue.version < s.steps && !events.isEmpty) {
    const event = events.next();
    now = event.time;
    event.run();
  }
  const seconds = now - begun;
  return {
    tokensPerSecond: (taken * s.groupSize * s.tokens) / seconds,
    staleness: stale / taken,
    wasted: dropped / Math.max(1, played),
    learner: learning / seconds,
    workers: playing / (seconds * count),
    link: linkBusy / seconds,
  };
}

const said = process.argv.slice(2).map((flag): [string, number] => {
  const [name = "", value] = flag.replace(/^--/, "").split("=");
  return [name, Number(value)];
});
for (const [name] of said) if (!Object.hasOwn(DEFAULTS, name)) throw new Error(`unknown flag --${name}`);
const settings: Settings = {
  ...DEFAULTS,
  ...Object.fromEntries(said),
};
console.log(JSON.stringify(settings));
console.log("| Workers | Tokens/s | Staleness | Wasted | Learner busy | Workers busy | Link busy |");
console.log("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;
for (const count of [1, 10, 30, 100, 300, 1000, 3000, 10_000]) {
  const { tokensPerSecond, staleness, wasted, learner, workers, link } = simulate(count, settings);
  const cells = [tokensPerSecond.toFixed(0), staleness.toFixed(2), ...[wasted, learner, workers, link].map(percent)];
  console.log(`| ${count.toLocaleString("en")} | ${cells.join(" | ")} |`);
}
