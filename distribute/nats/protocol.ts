/**
 * The messages between learner and workers, which go through a NATS server: names, formats and checks. Nothing that
 * arrives is trusted: a message that is too large, of a wrong type, out of range or not asked for throws a
 * WorldgradError, and its reader drops it.
 *
 *     KV `policy`           {run, life, version, object, sha256, configuration, setup}: written last, replaced
 *     store `weights`       an object for each version, and the setup (model, template, limits of an episode)
 *     stream `tickets`      work queue: episodes to play, and the version of the policy that they are for
 *     stream `episodes`     an episode, or "failed", or the name of an object in store `large` that is an episode
 */
import { check } from "../../engine/errors.ts";
import { estimateParameters, validateConfig } from "../../nn/index.ts";
import { SAMPLING } from "../../nn/sampler.ts";
import type { FrozenWeight } from "../async/frozen.ts";
import type { Job, Policy, WireRequest } from "../async/messages.ts";
import type { WireSetup } from "../async/workers.ts";
import type { KnownActions } from "../../data/given.ts";
import { arraysFromBytes, arraysToBytes, floats, jsonFromArray, jsonToArray, type Sent } from "./arrays.ts";
import { Fields, fromJson, toJson } from "./json.ts";

/** The version of the messages. Learner and workers with different versions refuse each other. */
export const PROTOCOL = 2;
/** The version of this package, which decides what environments do: workers of another one are refused. */
export const LIBRARY = "0.1.0";

/** The largest number of episodes in a ticket. */
const MOST_JOBS = 4096;

/** The names of a queue's streams, subjects and buckets. */
export interface Names {
  readonly tickets: { readonly stream: string; readonly subject: string };
  readonly episodes: { readonly stream: string; readonly subject: string };
  /** Workers say here that they are there, and what they refuse. */
  readonly presence: string;
  /** The consumer that all workers share. */
  readonly workers: string;
  readonly weights: string;
  readonly large: string;
  readonly policy: string;
}

/** The names of a queue. One server may hold several queues. */
export const namesOf = (queue: string): Names => ({
  tickets: { stream: `${queue}_tickets`, subject: `${queue}.tickets` },
  episodes: { stream: `${queue}_episodes`, subject: `${queue}.episodes` },
  presence: `${queue}.presence`,
  workers: "workers",
  weights: `${queue}_weights`,
  large: `${queue}_large`,
  policy: `${queue}_policy`,
});

/** The entry `policy` of the key-value bucket: the newest policy. */
export interface PolicyEntry {
  /** The run, a random number in hexadecimal digits. */
  readonly run: string;
  /** The number of times that a learner has begun or continued a run in this queue. */
  readonly life: number;
  readonly version: number;
  /** The object with the weights, and its hash. */
  readonly object: string;
  readonly sha256: string;
  /** The hash of everything except the weights that decides what is played: protocol, library and setup. */
  readonly configuration: string;
  /** The object of the setup, whose hash is `configuration`. */
  readonly setup: string;
}

export const policyToJson = (entry: PolicyEntry): string => toJson({ protocol: PROTOCOL, library: LIBRARY, ...entry });

/** @throws if the learner has another version, or the entry is malformed */
export function policyFromJson(text: string): PolicyEntry {
  const fields = new Fields("policy", fromJson("policy", text));
  checkVersions("the learner", fields);
  return {
    run: fields.text("run"),
    life: fields.integer("life"),
    version: fields.integer("version"),
    object: fields.text("object"),
    sha256: fields.hash("sha256"),
    configuration: fields.hash("configuration"),
    setup: fields.text("setup"),
  };
}

/** @throws unless the other side has this version of protocol and library */
export function checkVersions(who: string, fields: Fields): void {
  const [protocol, library] = [fields.any("protocol"), fields.any("library")];
  check(
    protocol === PROTOCOL && library === LIBRARY,
    () =>
      `nats: ${who} speaks protocol ${toJson(protocol)} of worldgrad ${toJson(library)}, this side protocol ` +
      `${PROTOCOL} of worldgrad ${LIBRARY}; both need the same`,
  );
}

/** An episode of a ticket. */
export interface TicketJob {
  /** The hash of the request: the same episode has the same key in every life of a learner. */
  readonly key: string;
  /** The number of times that this life has asked for it before. */
  readonly turn: number;
  readonly request: WireRequest;
  readonly sampling: Job["sampling"];
}

/** Episodes to play. */
export interface Ticket {
  readonly run: string;
  readonly life: number;
  readonly configuration: string;
  /** The number of times that these episodes were given out in this life before. */
  readonly attempt: number;
  /** The version that plays them; if they are not pinned, the oldest version that may play them. */
  readonly version: number;
  readonly object: string;
  readonly sha256: string;
  readonly pinned: boolean;
  readonly jobs: readonly TicketJob[];
}

export const ticketToJson = (ticket: Ticket): string => toJson({ protocol: PROTOCOL, library: LIBRARY, ...ticket });

/** @throws if the ticket is malformed */
export function ticketFromJson(text: string): Ticket {
  const fields = new Fields("ticket", fromJson("ticket", text));
  checkVersions("the learner", fields);
  return {
    run: fields.text("run"),
    life: fields.integer("life"),
    configuration: fields.hash("configuration"),
    attempt: fields.integer("attempt"),
    version: fields.integer("version"),
    object: fields.text("object"),
    sha256: fields.hash("sha256"),
    pinned: fields.flag("pinned"),
    jobs: fields.list("jobs", MOST_JOBS).map(jobFrom),
  };
}

function jobFrom(value: unknown): TicketJob {
  const fields = new Fields("ticket: job", value);
  const request = new Fields("ticket: request", fields.any("request"));
  const rng = new Fields("ticket: rng", request.any("rng"));
  const key = rng.list("key", 2);
  const isKey = key.length === 2 && key.every((x) => Number.isInteger(x) && (x as number) >>> 0 === x);
  check(isKey, () => "ticket: rng.key must be two words of 32 bits");
  const sampling = new Fields("ticket: sampling", fields.any("sampling"));
  const temperature = sampling.any("temperature");
  const { accepts, expected } = SAMPLING.fields.temperature;
  const isTemperature = (value: unknown): value is number | undefined => value === undefined || accepts(value);
  check(isTemperature(temperature), () => `ticket: temperature must be ${expected}, got ${toJson(temperature)}`);
  return {
    key: fields.hash("key"),
    turn: fields.integer("turn"),
    request: {
      env: request.text("env"),
      // The environment checks the values against its own table of options.
      options: request.plain("options", 1000),
      seed: request.integer("seed"),
      group: request.integer("group"),
      rng: { key: key as [number, number], counter: rng.integer("counter") },
      given: request.list("given", 16).map(givenFrom),
    },
    sampling: temperature === undefined ? {} : { temperature },
  };
}

function givenFrom(value: unknown): KnownActions {
  const fields = new Fields("ticket: given", value);
  const kind = fields.any("kind");
  if (kind === "expertPrefix") return { kind, length: fields.integer("length", 0, 1e6) };
  check(kind === "explore", () => `ticket: given actions are of no known kind: ${toJson(kind)}`);
  const epsilon = fields.number("epsilon", 1);
  check(epsilon >= 0, () => `ticket: epsilon must be in [0, 1], got ${epsilon}`);
  return { kind, epsilon };
}

/** The bytes of a policy's weights, for the object store. */
export const weightsToBytes = ({ weights }: Policy): Uint8Array => arraysToBytes(weights);

/** @throws if the bytes are no weights */
export function weightsFromBytes(version: number, bytes: Uint8Array): Policy {
  const arrays = arraysFromBytes("weights", bytes);
  return { version, weights: arrays.map((x, i) => floats("weights", x, i)) };
}

/**
 * The bytes of the setup, for the object store: what workers are told once, and the frozen weights under an adapter.
 */
export function setupToBytes({ adapter, ...setup }: WireSetup): Uint8Array {
  const frozen = Object.entries(adapter?.frozen ?? {});
  const paths = frozen.map(([path]) => path);
  const settings = adapter ? { adapter: adapter.settings } : {};
  const facts = jsonToArray({ protocol: PROTOCOL, library: LIBRARY, setup, ...settings, paths });
  return arraysToBytes([facts, ...frozen.map(([, weight]) => weight)]);
}

/**
 * @param most the largest number of bytes of weights; a larger model is refused before anything is made for it
 * @throws if the bytes are no setup, or are of another version. The tokenizer and the options of template, rollout and
 *   adapter are checked by those who read them
 */
export function setupFromBytes(bytes: Uint8Array, most: number): WireSetup {
  const [facts, ...weights] = arraysFromBytes("setup", bytes);
  const fields = new Fields("setup", jsonFromArray("setup", facts));
  checkVersions("the learner", fields);
  const paths = fields.list("paths", weights.length).map(String);
  check(paths.length === weights.length, () => `setup: ${paths.length} paths for ${weights.length} arrays`);
  const frozen = Object.fromEntries(paths.map((path, i) => [path, frozenFrom(weights[i]!, i + 1)]));
  const setup = new Fields("setup", fields.any("setup"));
  const adapter = fields.any("adapter") === undefined ? undefined : fields.object("adapter");
  const kind = setup.choice("kind", ["setup"]);
  const config = setup.object("config") as WireSetup["config"];
  validateConfig(config);
  const size = 4 * estimateParameters(config);
  // Frozen weights came with these bytes.
  check(adapter !== undefined || size <= most, () => `setup: a model of ${size} bytes, at most ${most} are taken`);
  const device = new Fields("setup: device", setup.object("device"));
  const wire: Omit<WireSetup, "adapter"> = {
    kind,
    config,
    device: {
      kind: device.choice("kind", ["reference", "wasm", "webgpu"]),
      precision: device.choice("precision", ["f32", "f64"]),
    },
    tokenizer: setup.object("tokenizer"),
    template: setup.object("template"),
    rollout: setup.object("rollout"),
    rows: setup.integer("rows", 1),
  };
  return adapter === undefined
    ? wire
    : { ...wire, adapter: { settings: adapter as Readonly<Record<string, unknown>>, frozen } };
}

const frozenFrom = (x: Sent, i: number): FrozenWeight => ("words" in x ? x : floats("setup", x, i));
