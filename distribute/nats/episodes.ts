/**
 * The messages of stream `episodes`: an episode as a header in JSON and columns in binary (32 bytes a token), or the
 * report that one cannot be played. `checkEpisode` compares an episode with its request. It cannot tell whether the
 * worker has really played it: everybody who has a worker's password is trusted in that.
 */
import { check } from "../../engine/errors.ts";
import type { WireRequest } from "../async/messages.ts";
import {
  hasFailed,
  isAgentToken,
  longestRead,
  returnOf,
  ROLES,
  STOP_REASONS,
  type Trajectory,
} from "../../rl/episode/stream.ts";
import { Fields, fromJson, isRecord, toJson } from "./json.ts";
import { checkVersions, LIBRARY, PROTOCOL } from "./protocol.ts";

/** The name of the episode that a message is about. */
export interface EpisodeName {
  readonly run: string;
  readonly life: number;
  readonly configuration: string;
  readonly key: string;
  readonly turn: number;
  readonly attempt: number;
  readonly worker: string;
}

/** A worker's message about an episode. */
export type EpisodeMessage = EpisodeName &
  (
    | {
        readonly kind: "episode";
        readonly trajectory: Trajectory;
        /** The hash of the weights of every version that drew a token. */
        readonly weights: Readonly<Record<string, string>>;
      }
    | { readonly kind: "failed"; readonly message: string }
    | { readonly kind: "object"; readonly object: string; readonly sha256: string; readonly size: number }
  );

/** The largest number of tokens of an episode for any model; it bounds what is read before the message is checked. */
const MOST_TOKENS = 2 ** 22;
const MAGIC = 0x57474531; // "WGE1"
const COLUMNS = [
  ["ids", Int32Array],
  ["turns", Int32Array],
  ["versions", Int32Array],
  ["oldLogProbs", Float64Array],
  ["temperatures", Float64Array],
  ["roles", Uint8Array],
  ["targets", Uint8Array],
] as const;
const BYTES_PER_TOKEN: number = COLUMNS.reduce((sum, [, Type]) => sum + Type.BYTES_PER_ELEMENT, 0);

/** The bytes of a message. */
export function episodeToBytes(message: EpisodeMessage): Uint8Array<ArrayBuffer> {
  const { trajectory, ...rest } = message.kind === "episode" ? message : { ...message, trajectory: undefined };
  const { stream, ...outcome } = trajectory ?? {};
  const tokens = stream?.ids.length ?? 0;
  const header = new TextEncoder().encode(
    toJson({ protocol: PROTOCOL, library: LIBRARY, ...rest, ...(trajectory ? { tokens, outcome } : {}) }),
  );
  const bytes = new Uint8Array(8 + header.length + tokens * BYTES_PER_TOKEN);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC);
  view.setUint32(4, header.length);
  bytes.set(header, 8);
  if (stream === undefined) return bytes;
  let at = 8 + header.length;
  for (const [name, Type] of COLUMNS) {
    const column = new Type(
      name === "roles"
        ? stream.roles.map((role) => ROLES.indexOf(role))
        : name === "targets"
          ? stream.targets.map(Number)
          : stream[name],
    );
    bytes.set(new Uint8Array(column.buffer), at);
    at += column.byteLength;
  }
  return bytes;
}

/** @throws if the bytes are no message of this version */
export function episodeFromBytes(bytes: Uint8Array): EpisodeMessage {
  check(bytes.length >= 8, () => `episode: ${bytes.length} bytes are no message`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  check(view.getUint32(0) === MAGIC, () => "episode: the message does not begin as one");
  const end = 8 + view.getUint32(4);
  check(end <= bytes.length, () => `episode: the header ends after the message's ${bytes.length} bytes`);
  const text = new TextDecoder("utf-8", { fatal: false }).decode(bytes.subarray(8, end));
  const fields = new Fields("episode", fromJson("episode", text));
  checkVersions("a worker", fields);
  const name: EpisodeName = {
    run: fields.text("run"),
    life: fields.integer("life"),
    configuration: fields.hash("configuration"),
    key: fields.hash("key"),
    turn: fields.integer("turn"),
    attempt: fields.integer("attempt"),
    worker: fields.text("worker"),
  };
  const kind = fields.any("kind");
  if (kind === "failed") return { ...name, kind, message: fields.text("message", 4096) };
  if (kind === "object") {
    const [object, size] = [fields.text("object"), fields.integer("size")];
    return { ...name, kind, object, sha256: fields.hash("sha256"), size };
  }
  check(kind === "episode", () => `episode: the message is of no known kind: ${toJson(kind)?.slice(0, 40)}`);
  const tokens = fields.integer("tokens", 0, MOST_TOKENS);
  check(
    bytes.length - end === tokens * BYTES_PER_TOKEN,
    () => `episode: ${bytes.length - end} bytes of columns for ${tokens} tokens`,
  );
  const weights = fields.any("weights");
  check(
    isRecord(weights) && Object.values(weights).every((hash) => typeof hash === "string"),
    () => "episode: weights must name a hash for each version",
  );
  return {
    ...name,
    kind,
    weights: weights as Readonly<Record<string, string>>,
    trajectory: trajectoryFrom(new Fields("episode", fields.any("outcome")), bytes, end, tokens),
  };
}

function trajectoryFrom(outcome: Fields, bytes: Uint8Array, from: number, tokens: number): Trajectory {
  let at = from;
  const columns: readonly number[][] = COLUMNS.map(([, Type]) => {
    const size = tokens * Type.BYTES_PER_ELEMENT;
    // A copy, because `slice` of Node's buffers makes none.
    const own = new Uint8Array(bytes.subarray(at, at + size)).buffer;
    at += size;
    return [...new Type(own)];
  });
  const [ids, turns, versions, oldLogProbs, temperatures, roles, targets] = columns;
  const named = roles!.map((role) => {
    check(role < ROLES.length, () => `episode: there is no role ${role}`);
    return ROLES[role]!;
  });
  const stopReason = STOP_REASONS.find((reason) => reason === outcome.any("stopReason"));
  check(stopReason !== undefined, () => "episode: stopReason is none");
  const stepRewards = outcome.list("stepRewards", MOST_TOKENS);
  check(
    stepRewards.every((x) => typeof x === "number" && !(Math.abs(x) > 1e9)),
    () => "episode: stepRewards must be numbers",
  );
  return {
    stream: {
      ids: ids!,
      roles: named,
      turns: turns!,
      oldLogProbs: oldLogProbs!,
      temperatures: temperatures!,
      versions: versions!,
      targets: targets!.map((target) => target === 1),
    },
    group: outcome.integer("group"),
    reward: outcome.number("reward"),
    stepRewards: stepRewards as readonly number[],
    stopReason,
    masked: outcome.flag("masked"),
    ...(outcome.any("scoredAtEnd") === true ? { scoredAtEnd: true } : {}),
    env: outcome.text("env"),
    task: outcome.text("task", 2 ** 20),
    seed: outcome.integer("seed"),
    info: outcome.facts("info", 256, 2 ** 16),
  };
}

/** The values that an episode must agree with. */
export interface Expected {
  readonly request: WireRequest;
  /** The temperature that its tokens were drawn at. */
  readonly temperature: number;
  readonly vocabSize: number;
  /** The largest numbers of tokens and of actions. */
  readonly maxTokens: number;
  readonly maxTurns: number;
  /** The hash of a version's weights; undefined: this learner has no such version. */
  readonly weightsOf: (version: number) => string | undefined;
}

/** @throws unless `message` agrees with the request of the episode */
export function checkEpisode(
  { trajectory, weights }: Extract<EpisodeMessage, { kind: "episode" }>,
  { request, temperature, vocabSize, maxTokens, maxTurns, weightsOf }: Expected,
): void {
  const { stream, stopReason, masked, stepRewards, reward } = trajectory;
  const same = trajectory.env === request.env && trajectory.seed === request.seed && trajectory.group === request.group;
  check(same, () => `episode: of another task than ${request.env}, seed ${request.seed}, group ${request.group}`);
  const T = stream.ids.length;
  const read = longestRead(stream);
  check(read <= maxTokens, () => `episode: ${read} tokens, the context has ${maxTokens}`);
  check(T > 0 || masked, () => "episode: it has no tokens");
  check(masked === hasFailed(trajectory), () => `episode: masked is ${masked} after ${stopReason}`);
  check(stepRewards.length <= maxTurns, () => `episode: ${stepRewards.length} step rewards in ${maxTurns} turns`);
  const sum = returnOf(trajectory);
  check(
    Object.is(sum, reward) || sum === reward,
    () => `episode: the reward ${reward} is not that of its steps, ${sum}`,
  );
  for (let t = 0; t < T; t++) {
    const role = stream.roles[t]!;
    const drawn = isAgentToken(role);
    const [id, turn, version] = [stream.ids[t]!, stream.turns[t]!, stream.versions[t]!];
    const at = (): string => `episode: token ${t}:`;
    check(id >= 0 && id < vocabSize, () => `${at()} id ${id} is not in a vocabulary of ${vocabSize}`);
    check(role !== "pad", () => `${at()} padding`);
    const least = t === 0 ? 0 : stream.turns[t - 1]!;
    check(turn >= least && turn < maxTurns, () => `${at()} turn ${turn} is not in [${least}, ${maxTurns})`);
    check(!stream.targets[t] || role === "observation", () => `${at()} a target with the role ${role}`);
    const [logProb, heat] = [stream.oldLogProbs[t]!, stream.temperatures[t]!];
    if (drawn) {
      check(logProb <= 1e-3 && logProb >= -1e4, () => `${at()} log-probability ${logProb}`);
      check(heat === temperature, () => `${at()} temperature ${heat}, expected ${temperature}`);
      const hash = weightsOf(version);
      check(
        hash !== undefined && weights[version] === hash,
        () => `${at()} drawn by version ${version}, which this learner has not published with these weights`,
      );
    } else {
      const isPlain = logProb === 0 && heat === 1 && version === -1;
      check(isPlain, () => `${at()} not drawn, yet with log-probability ${logProb} of version ${version}`);
    }
  }
}
