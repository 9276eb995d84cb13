/** What learner and workers say to each other: every field is checked, and nothing that was changed gets past. */
import { describe, expect, it } from "vitest";
import { WorldgradError } from "../../../engine/errors.ts";
import { Rng } from "../../../engine/random.ts";
import { arraysToBytes, jsonToArray } from "../../../distribute/nats/arrays.ts";
import { addressOf, publicAddress, sha256 } from "../../../distribute/nats/connection.ts";
import {
  checkEpisode,
  episodeFromBytes,
  type EpisodeMessage,
  episodeToBytes,
} from "../../../distribute/nats/episodes.ts";
import { fromJson, toJson } from "../../../distribute/nats/json.ts";
import { Ledger } from "../../../distribute/nats/ledger.ts";
import {
  LIBRARY,
  policyFromJson,
  policyToJson,
  PROTOCOL,
  setupFromBytes,
  setupToBytes,
  type Ticket,
  ticketFromJson,
  ticketToJson,
  weightsFromBytes,
  weightsToBytes,
} from "../../../distribute/nats/protocol.ts";
import { modelConfig } from "../../../nn/index.ts";
import { unplayed } from "../../support/rlAsync.ts";
import { V } from "../../support/rlToy.ts";
import packageJson from "../../../package.json" with { type: "json" };

const hash = sha256("weights of version 3");
const request = {
  env: "toy",
  options: { levels: [2, 3] as const, split: "train" as const },
  seed: 7,
  group: 1,
  rng: new Rng(3).split(4).state,
  given: [],
};
const trajectory = unplayed({ id: 0, request, sampling: {}, pinned: false }, [3, 3]);
const name = { run: "r", life: 1, configuration: hash, key: hash, turn: 0, attempt: 0, worker: "w" };
const message: EpisodeMessage = { ...name, kind: "episode", trajectory, weights: { 3: hash } };
const expected = {
  request,
  temperature: 1,
  vocabSize: V,
  maxTokens: 64,
  maxTurns: 3,
  weightsOf: (version: number) => (version === 3 ? hash : undefined),
};
type Episode = Extract<EpisodeMessage, { kind: "episode" }>;

describe("an episode", () => {
  it("comes back as it was, NaN and −0.1 and all", () => {
    const odd = { ...trajectory, reward: NaN, stepRewards: [NaN, -0.1], info: { success: true, entropy: NaN } };
    for (const own of [trajectory, odd]) {
      const back = episodeFromBytes(episodeToBytes({ ...message, trajectory: own })) as Episode;
      expect(back).toEqual({ ...message, trajectory: own });
    }
    expect(() => checkEpisode(message, expected)).not.toThrow();
  });

  const stream = (
    column: Exclude<keyof Episode["trajectory"]["stream"], "contexts">,
    at: number,
    value: number | string,
  ) => {
    const values: unknown[] = [...trajectory.stream[column]];
    values[at] = value;
    return { ...trajectory, stream: { ...trajectory.stream, [column]: values } } as Episode["trajectory"];
  };
  const drawn = trajectory.stream.roles.indexOf("action");
  it.each<[string, Partial<Episode>]>([
    ["of another task", { trajectory: { ...trajectory, seed: 8 } }],
    ["masked is true after completed", { trajectory: { ...trajectory, masked: true } }],
    ["the reward 9 is not that of its steps", { trajectory: { ...trajectory, reward: 9 } }],
    ["id 17 is not in a vocabulary of 17", { trajectory: stream("ids", drawn, V) }],
    ["id -1 is not", { trajectory: stream("ids", 0, -1) }],
    ["padding", { trajectory: stream("roles", 0, "pad") }],
    ["turn 3 is not in", { trajectory: stream("turns", trajectory.stream.turns.length - 1, 3) }],
    ["log-probability 0.5", { trajectory: stream("oldLogProbs", drawn, 0.5) }],
    ["log-probability NaN", { trajectory: stream("oldLogProbs", drawn, NaN) }],
    ["log-probability -Infinity", { trajectory: stream("oldLogProbs", drawn, -Infinity) }],
    ["temperature 2, expected 1", { trajectory: stream("temperatures", drawn, 2) }],
    ["drawn by version 4", { trajectory: stream("versions", drawn, 4) }],
    ["drawn by version 3", { weights: { 3: sha256("other weights") } }],
    ["not drawn, yet with log-probability", { trajectory: stream("oldLogProbs", 0, -1) }],
  ])("is refused: %s", (why, change) => {
    const wrong = episodeFromBytes(episodeToBytes({ ...message, ...change })) as Episode;
    expect(() => checkEpisode(wrong, expected)).toThrow(why);
  });

  it("with any bytes changed is refused with a WorldgradError, or still is one that could be", () => {
    const rng = new Rng(1);
    const good = episodeToBytes(message);
    let refused = 0;
    for (let tries = 0; tries < 600; tries++) {
      let bytes = new Uint8Array(good);
      for (let n = rng.int(4); n >= 0; n--) bytes[rng.int(bytes.length)] = rng.int(256);
      if (tries % 3 === 0) bytes = bytes.subarray(0, rng.int(bytes.length));
      try {
        checkEpisode(episodeFromBytes(bytes) as Episode, expected);
      } catch (error) {
        expect((error as Error).name).toBe("WorldgradError");
        refused++;
      }
    }
    expect(refused).toBeGreaterThan(400);
  });
});

const ticket: Ticket = {
  run: "r",
  life: 0,
  configuration: hash,
  attempt: 0,
  version: 3,
  object: "r.0.3",
  sha256: hash,
  pinned: true,
  jobs: [{ key: hash, turn: 0, request: { ...request, given: [{ kind: "explore", epsilon: 0.1 }] }, sampling: {} }],
};

describe("a setup", () => {
  const config = modelConfig({ vocabSize: 17, hiddenSize: 16, layers: 2, heads: 2 });
  const device = { kind: "reference", precision: "f64" } as const;
  const setup = { kind: "setup", config, device, tokenizer: {}, template: {}, rollout: {}, rows: 2 } as const;
  const most = 1e6;
  /** Bytes of a setup with these parts, whatever they are. */
  const bytes = (facts: object): Uint8Array =>
    arraysToBytes([jsonToArray({ protocol: PROTOCOL, library: LIBRARY, paths: [], ...facts })]);
  const worker = (change: object, adapter?: unknown): unknown =>
    setupFromBytes(bytes({ setup: { ...setup, ...change }, ...(adapter === undefined ? {} : { adapter }) }), most);

  it("comes back as it was", () => {
    expect(setupFromBytes(setupToBytes(setup), most)).toEqual(setup);
    expect(worker({}, { r: 2 })).toEqual({ ...setup, adapter: { settings: { r: 2 }, frozen: {} } });
  });

  const large = { ...config, layers: 16_384 };
  it.each<[string, () => unknown]>([
    ["setup: expected an object, got nothing", () => setupFromBytes(bytes({}), most)],
    ["setup: kind must be setup, got nothing", () => worker({ kind: undefined })],
    ["setup: config must be an object, got nothing", () => worker({ config: undefined })],
    ["config: layers is 1000000000, expected at most 16384", () => worker({ config: { ...config, layers: 1e9 } })],
    ["config: layers is -1, expected an integer ≥ 1", () => worker({ config: { ...config, layers: -1 } })],
    ["config: family is", () => worker({ config: { ...config, family: "toString" } })],
    ["config: rotaryLayers is", () => worker({ config: { ...config, rotaryLayers: { length: 2 } } })],
    ["setup: a model of", () => worker({ config: large })],
    ["setup: device must be an object, got 3", () => worker({ device: 3 })],
    ["setup: device: kind must be reference or wasm or webgpu, got nothing", () => worker({ device: {} })],
    ['precision must be f32 or f64, got "f8"', () => worker({ device: { kind: "wasm", precision: "f8" } })],
    ["setup: tokenizer must be an object, got null", () => worker({ tokenizer: null })],
    ["setup: template must be an object, got nothing", () => worker({ template: undefined })],
    ["setup: rollout must be an object, got []", () => worker({ rollout: [] })],
    ["setup: rows must be an integer in [1", () => worker({ rows: 0 })],
    ["setup: adapter must be an object, got 7", () => worker({}, 7)],
  ])("is refused before anything is made: %s", (why, read) => {
    expect(read).toThrow(WorldgradError);
    expect(read).toThrow(why);
  });
});

describe("tickets, policies and weights", () => {
  it("come back as they were", () => {
    expect(ticketFromJson(ticketToJson(ticket))).toEqual(ticket);
    const entry = { run: "r", life: 2, version: 3, object: "o", sha256: hash, configuration: hash, setup: "s" };
    expect(policyFromJson(policyToJson(entry))).toEqual(entry);
    const policy = { version: 3, weights: [new Float32Array([1, NaN, -0]), new Float64Array([1e-300])] };
    expect(weightsFromBytes(3, weightsToBytes(policy))).toEqual(policy);
    // Node's buffers share memory; what was read must not.
    expect(weightsFromBytes(3, Buffer.from(weightsToBytes(policy)))).toEqual(policy);
  });

  const job = ticket.jobs[0]!;
  it.each<[string, object]>([
    ["protocol 9 of worldgrad", { protocol: 9 }],
    ['worldgrad "9.9.9"', { library: "9.9.9" }],
    ["life must be an integer", { life: -1 }],
    ["sha256 must be a SHA-256", { sha256: "abc" }],
    ["jobs must be a list", { jobs: {} }],
    ["rng.key must be two words", { jobs: [{ ...job, request: { ...request, rng: { key: [1], counter: 0 } } }] }],
    ["options has more than 1000 values", { jobs: [{ ...job, request: { ...request, options: { f: Array(1001) } } }] }],
    ["temperature must be in [0.000001, 1000000], or 0, got -1", { jobs: [{ ...job, sampling: { temperature: -1 } }] }],
    ["of no known kind", { jobs: [{ ...job, request: { ...request, given: [{ kind: "x" }] } }] }],
    ["epsilon must be", { jobs: [{ ...job, request: { ...request, given: [{ kind: "explore", epsilon: -1 }] } }] }],
  ])("a ticket is refused: %s", (why, change) => {
    const text = toJson({ ...(JSON.parse(ticketToJson(ticket)) as object), ...change });
    expect(() => ticketFromJson(text)).toThrow(why);
  });

  it("weights are refused if sizes and bytes differ", () => {
    const bytes = weightsToBytes({ version: 0, weights: [new Float32Array(4)] });
    expect(() => weightsFromBytes(0, bytes.subarray(0, bytes.length - 1))).toThrow("ends after the object's");
    expect(() => weightsFromBytes(0, new Uint8Array([...bytes, 0]))).toThrow("1 bytes too many");
    expect(() => weightsFromBytes(0, new TextEncoder().encode('[["f32",1e300]]\n'))).toThrow("no type and length");
    expect(() => weightsFromBytes(0, new Uint8Array(8))).toThrow("the header is missing");
  });

  it("JSON takes no prototype", () => {
    expect(() => fromJson("here", '{"__proto__": {"polluted": 1}}')).toThrow('here: not valid JSON: "__proto__"');
    expect(() => fromJson("here", "{")).toThrow("here: not valid JSON");
  });

  it("the version that is compared is the package's", () => expect(LIBRARY).toBe(packageJson.version));
});

describe("addresses", () => {
  it("have a queue, and lose user and password where they are written down", () => {
    expect(addressOf("nats://u:p%40@h:1/q")).toMatchObject({
      server: "nats://h:1",
      queue: "q",
      user: "u",
      password: "p@",
    });
    expect(addressOf("tls://h")).toMatchObject({ server: "tls://h:4222", queue: "worldgrad", tls: true });
    expect(publicAddress("nats://u:p@h:1/q")).toBe("nats://h:1/q");
    expect(publicAddress("nats://h:80")).toBe("nats://h:80");
  });
  it.each([
    ["http://h", "expected nats://HOST:PORT"],
    ["nats://", "expected nats://HOST:PORT"],
    ["nats://u:secret@h:99999", 'got "nats://h:99999"'],
    ["nats://h/a.b", "a queue has up to 32 letters"],
  ])("%s is none", (server, why) => expect(() => addressOf(server)).toThrow(why));
});

describe("Ledger", () => {
  it("names the last message that is done with, and those beyond it", () => {
    const ledger = new Ledger({ messages: 100, bytes: 1e6 });
    for (let n = 1; n <= 6; n++) ledger.add(n, 10, "given");
    for (const n of [1, 2, 4, 6]) ledger.mark(n, "learnt");
    expect(ledger.save()).toEqual({ sequence: 2, learnt: [4, 6] });
    const next = new Ledger({ messages: 100, bytes: 1e6 });
    next.restore(ledger.save());
    expect([1, 2, 3, 4, 5, 6, 7].filter((n) => next.isDone(n))).toEqual([1, 2, 4, 6]);
  });

  it("keeps what was learnt until the checkpoint before the last one knows it", () => {
    const ledger = new Ledger({ messages: 100, bytes: 1e6 });
    for (let n = 1; n <= 3; n++) ledger.add(n, 10, n === 3 ? "given" : "learnt");
    ledger.saved(ledger.save());
    expect(ledger.excess()).toEqual([]);
    ledger.saved(ledger.save());
    expect(ledger.excess()).toEqual([1, 2]);
  });

  it("makes room: first what was learnt, then what nobody asked for, then what the learner has", () => {
    const ledger = new Ledger({ messages: 10, bytes: 1e6 });
    for (let n = 1; n <= 4; n++) ledger.add(n, 10, "given");
    for (let n = 5; n <= 7; n++) ledger.add(n, 10, "learnt");
    expect(ledger.excess()).toEqual([5, 6]);
    for (const n of ledger.excess()) ledger.remove(n);
    for (let n = 8; n <= 12; n++) ledger.add(n, 10, "stored");
    expect(ledger.excess()).toEqual([7, 8]);
    const small = new Ledger({ messages: 100, bytes: 1000 });
    for (let n = 1; n <= 3; n++) small.add(n, 10, "given");
    expect(small.excess()).toEqual([1, 2]); // two more must fit, with what the server adds
  });
});
