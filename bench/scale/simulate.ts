/**
 * Many workers on other machines, simulated: the admission and the order of groups are the queue's own code
 * (distribute/async/queue.ts); seconds and bytes are drawn from distributions. Deterministic under its seed.
 *
 * What is modelled as nats/ does it: a worker asks for another group when fewer episodes than it has places for are
 * playing or waiting in it; before a group begins, it reads the newest policy, and one that comes while it plays at
 * once; episodes are stored one by one. What is simpler: the server's link carries one transfer after another; nothing
 * fails; groups go to whoever has asked first; no worker's places differ from another's.
 */
import { check } from "../../engine/errors.ts";
import { Rng } from "../../engine/random.ts";
import { StalenessQueue } from "../../distribute/async/queue.ts";
import { Events } from "./events.ts";

/** How long things take, and how large they are. */
export interface World {
  /** Seconds for which an episode has a place in a worker, its tokens, and the bytes in which it travels. */
  readonly episode: (rng: Rng) => { readonly seconds: number; readonly tokens: number; readonly bytes: number };
  /** Seconds in which the learner learns from so many tokens. */
  readonly learn: (rng: Rng, tokens: number) => number;
  /** Bytes of the weights that a worker reads: a whole model's or an adapter's. */
  readonly weights: number;
  /** Bytes per second that the server's link carries, all transfers together. */
  readonly link: number;
  /** Seconds that every transfer takes beside its bytes. They do not occupy the link. */
  readonly latency: number;
}

/** What is run. */
export interface Plan {
  readonly workers: number;
  /** Episodes that a worker plays at a time. */
  readonly places: number;
  readonly groups: number;
  readonly groupSize: number;
  readonly staleness: number;
  readonly steps: number;
  readonly seed: number;
}

/** What came out: rates and shares of the second half of the steps, and sums over the whole run. */
export interface Simulated {
  readonly tokensPerSecond: number;
  readonly secondsPerStep: number;
  /** Steps between the policy that drew an episode's first token and the step that learns from it: mean and most. */
  readonly staleness: number;
  readonly oldest: number;
  /** Share of the groups that were played and are too old when their turn comes. */
  readonly wasted: number;
  /** Shares of the time in which these were busy; `workers`: of all places. */
  readonly learner: number;
  readonly link: number;
  readonly workers: number;
  /** Of the whole run: for what Little's law says of it. */
  readonly whole: {
    readonly seconds: number;
    /** Groups that arrived at the learner. */
    readonly arrived: number;
    /** Seconds from ticket to arrival, summed over groups, those that are still under way included. */
    readonly sojourn: number;
    /** `sojourn` by the clock: the integral of the number of groups that are under way. */
    readonly area: number;
    /** Seconds of episodes, and seconds for which places were taken. */
    readonly episodes: number;
    readonly taken: number;
  };
}

/** A group that a worker has. */
interface Group {
  readonly ticket: number;
  readonly given: number;
  left: number;
  tokens: number;
  /** The version that the first of its episodes began with. */
  oldest: number;
}

interface Player {
  /** The policy that it has, and whether it is reading another. */
  version: number;
  isReading: boolean;
  /** Groups that wait for the policy. */
  readonly arriving: Group[];
  /** Episodes that wait for a place. */
  readonly queued: Group[];
  busy: number;
  isAsking: boolean;
}

/** A run of so many workers. */
export function simulate(plan: Plan, world: World): Simulated {
  for (const name of ["workers", "places", "groups", "groupSize", "steps"] as const) {
    const value = plan[name];
    check(Number.isInteger(value) && value >= 1, () => `simulate: ${name} must be an integer ≥ 1, got ${value}`);
  }
  return new Simulation(plan, world).run();
}

const ZERO = { learning: 0, playing: 0, link: 0, stale: 0, oldest: 0, taken: 0, dropped: 0, arrived: 0, tokens: 0 };

class Simulation {
  readonly #plan: Plan;
  readonly #world: World;
  readonly #queue: StalenessQueue<number>;
  readonly #episodes: Rng;
  readonly #steps: Rng;
  readonly #events: Events = new Events();
  readonly #players: readonly Player[];
  /** Workers that ask, in the order in which they do. */
  readonly #asking: number[];
  #nextAsking = 0;
  readonly #tickets: { readonly ticket: number; readonly given: number }[] = [];
  #nextTicket = 0;
  readonly #underWay = new Map<number, number>();
  #now = 0;
  #linkFree = 0;
  #isLearning = false;
  /** The newest policy that is at the server. */
  #published = 0;
  #counts = { ...ZERO };
  #begun = 0;
  #whole = { arrived: 0, sojourn: 0, area: 0, episodes: 0, taken: 0 };
  #busyPlaces = 0;

  constructor(plan: Plan, world: World) {
    this.#plan = plan;
    this.#world = world;
    this.#queue = new StalenessQueue({ batch: plan.groups, maxStaleness: plan.staleness });
    const rng = new Rng(plan.seed);
    [this.#episodes, this.#steps] = [rng.split("episodes"), rng.split("steps")];
    this.#players = Array.from({ length: plan.workers }, () => ({
      version: -1,
      isReading: false,
      arriving: [],
      queued: [],
      busy: 0,
      isAsking: true,
    }));
    this.#asking = this.#players.map((_, i) => i);
  }

  run(): Simulated {
    const { steps, workers, places } = this.#plan;
    this.#publish(0);
    while (this.#queue.version < steps && !this.#events.isEmpty) {
      const { time, run } = this.#events.next();
      this.#pass(time);
      run();
    }
    const counts = this.#counts;
    const seconds = this.#now - this.#begun;
    const halfSteps = steps - Math.floor(steps / 2);
    for (const given of this.#underWay.values()) this.#whole.sojourn += this.#now - given;
    return {
      tokensPerSecond: counts.tokens / seconds,
      secondsPerStep: seconds / halfSteps,
      staleness: counts.stale / counts.taken,
      oldest: counts.oldest,
      wasted: counts.dropped / Math.max(1, counts.arrived),
      learner: counts.learning / seconds,
      link: counts.link / seconds,
      workers: counts.playing / (seconds * workers * places),
      whole: { ...this.#whole, seconds: this.#now },
    };
  }

  /** Lets the clock run. */
  #pass(time: number): void {
    const passed = time - this.#now;
    this.#whole.area += passed * this.#underWay.size;
    this.#whole.taken += passed * this.#busyPlaces;
    this.#counts.playing += passed * this.#busyPlaces;
    this.#counts.link += Math.min(passed, Math.max(0, this.#linkFree - this.#now));
    this.#now = time;
  }

  /** Sends bytes through the link, behind those that wait. */
  #transfer(bytes: number, then: () => void): void {
    this.#linkFree = Math.max(this.#now, this.#linkFree) + bytes / this.#world.link;
    this.#events.add(this.#linkFree + this.#world.latency, then);
  }

  /** Brings a version to the server. Tickets that it admits are written after it. */
  #publish(version: number): void {
    this.#transfer(this.#world.weights, () => {
      this.#published = version;
      this.#players.forEach((player, i) => {
        if (player.busy > 0 || player.queued.length > 0) this.#read(player, i);
      });
      const { steps, groups } = this.#plan;
      for (const ticket of this.#queue.admit(steps * groups - 1)) this.#ticket(ticket);
      this.#give();
      this.#learn();
    });
  }

  #ticket(ticket: number): void {
    this.#tickets.push({ ticket, given: this.#now });
    this.#underWay.set(ticket, this.#now);
  }

  /** A worker reads the newest policy, unless it has it or is reading one. */
  #read(player: Player, worker: number): void {
    if (player.isReading || player.version === this.#published) return;
    const version = this.#published;
    player.isReading = true;
    this.#transfer(this.#world.weights, () => {
      player.isReading = false;
      player.version = version;
      const isNewest = version === this.#published;
      if (!isNewest && (player.busy > 0 || player.arriving.length > 0)) this.#read(player, worker);
      for (const group of player.arriving.splice(0)) this.#queueEpisodes(player, group);
      this.#fill(player, worker);
    });
  }

  /** Tickets go to the workers that ask. */
  #give(): void {
    while (this.#nextTicket < this.#tickets.length && this.#nextAsking < this.#asking.length) {
      const { ticket, given } = this.#tickets[this.#nextTicket++]!;
      const worker = this.#asking[this.#nextAsking++]!;
      const player = this.#players[worker]!;
      player.isAsking = false;
      const group = { ticket, given, left: this.#plan.groupSize, tokens: 0, oldest: Infinity };
      this.#read(player, worker);
      if (player.isReading && player.version !== this.#published) player.arriving.push(group);
      else {
        this.#queueEpisodes(player, group);
        this.#fill(player, worker);
      }
    }
  }

  #queueEpisodes(player: Player, group: Group): void {
    for (let i = 0; i < this.#plan.groupSize; i++) player.queued.push(group);
  }

  /** Episodes that wait take free places; a worker that has too few asks for more. */
  #fill(player: Player, worker: number): void {
    while (player.busy < this.#plan.places && player.queued.length > 0) {
      const group = player.queued.shift()!;
      group.oldest = Math.min(group.oldest, player.version);
      const { seconds, tokens, bytes } = this.#world.episode(this.#episodes);
      this.#occupy(player, 1);
      this.#events.add(this.#now + seconds, () => {
        this.#occupy(player, -1);
        this.#whole.episodes += seconds;
        this.#transfer(bytes, () => this.#stored(group, tokens));
        this.#fill(player, worker);
        this.#give();
      });
    }
    const waits = player.arriving.length > 0;
    if (!player.isAsking && !waits && player.busy + player.queued.length < this.#plan.places) {
      player.isAsking = true;
      this.#asking.push(worker);
      this.#give();
    }
  }

  #occupy(player: Player, change: 1 | -1): void {
    player.busy += change;
    this.#busyPlaces += change;
  }

  #stored(group: Group, tokens: number): void {
    group.tokens += tokens;
    if (--group.left > 0) return;
    this.#whole.arrived++;
    this.#whole.sojourn += this.#now - this.#underWay.get(group.ticket)!;
    this.#underWay.delete(group.ticket);
    this.#counts.arrived++;
    this.#queue.push({ ticket: group.ticket, value: group.tokens, oldest: group.oldest });
    this.#learn();
  }

  #learn(): void {
    if (this.#isLearning) return;
    for (const { ticket } of this.#queue.expire()) {
      this.#counts.dropped++;
      this.#ticket(ticket);
    }
    this.#give();
    const units = this.#queue.take();
    if (units === undefined) return;
    this.#isLearning = true;
    const tokens = units.reduce((sum, { value }) => sum + value, 0);
    const seconds = this.#world.learn(this.#steps, tokens);
    for (const { oldest } of units) {
      this.#counts.stale += this.#queue.version - oldest;
      this.#counts.oldest = Math.max(this.#counts.oldest, this.#queue.version - oldest);
    }
    this.#counts.taken += units.length;
    this.#events.add(this.#now + seconds, () => {
      this.#isLearning = false;
      this.#queue.advance();
      this.#counts.learning += seconds;
      this.#counts.tokens += tokens;
      if (this.#queue.version === Math.floor(this.#plan.steps / 2)) {
        [this.#counts, this.#begun] = [{ ...ZERO }, this.#now];
      }
      if (this.#queue.version >= this.#plan.steps) return;
      this.#publish(this.#queue.version);
      this.#learn();
    });
  }
}
