/**
 * Atropos' trajectory API (NousResearch/atropos, atroposlib/api/server.py, 296a0bc): environments send groups of scored
 * episodes to a server, POST /scored_data, and a trainer takes batches of them, GET /batch. Both sides are here: our
 * episodes for their trainers, and their environments for our trainer.
 *
 * A group is { tokens, masks, scores, inference_logprobs, … }, a list for each episode. `masks` are the token ids where
 * the model is trained and −100 elsewhere. `inference_logprobs` are as long as `tokens`; Atropos writes 1 where nothing
 * was sampled.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { emptyStream, isAgentToken, type Trajectory } from "../../rl/episode/stream.ts";
import { isFields } from "../fields.ts";
import { RemoteError, type RemoteOptions, request } from "./sampler.ts";

const IGNORED = -100;
/** Atropos' placeholder for the log-probability of a token that was not sampled. */
const NOT_SAMPLED = 1;

/** A group of scored episodes on the wire. */
export interface ScoredData {
  readonly tokens: readonly (readonly number[])[];
  readonly masks: readonly (readonly number[])[];
  readonly scores: readonly number[];
  readonly inference_logprobs?: readonly (readonly number[])[] | null;
  readonly env_id?: number | null;
}

/** The registration of a trainer; names and meaning are Atropos'. */
export interface AtroposRegistration {
  readonly wandb_group: string;
  readonly wandb_project: string;
  readonly batch_size: number;
  readonly max_token_len: number;
  readonly checkpoint_dir: string;
  readonly save_checkpoint_interval: number;
  readonly starting_step: number;
  readonly num_steps: number;
}

/** A group of our episodes as Atropos takes it. Masked episodes are left out. */
export function toScoredData(group: readonly Trajectory[], envId?: number): ScoredData {
  const played = group.filter(({ masked, reward }) => !masked && Number.isFinite(reward));
  const columns = <T>(of: (stream: Trajectory["stream"], t: number) => T): T[][] =>
    played.map(({ stream }) => stream.ids.map((_, t) => of(stream, t)));
  return {
    tokens: columns(({ ids }, t) => ids[t]!),
    masks: columns(({ ids, roles }, t) => (isAgentToken(roles[t]!) ? ids[t]! : IGNORED)),
    scores: played.map(({ reward }) => reward),
    inference_logprobs: columns(({ oldLogProbs, roles }, t) =>
      isAgentToken(roles[t]!) ? oldLogProbs[t]! : NOT_SAMPLED,
    ),
    ...(envId === undefined ? {} : { env_id: envId }),
  };
}

/**
 * The episodes of a group that Atropos gave. Tokens that are trained have the role `action`, tokens before the first of
 * them `prompt`, later ones `observation`; a turn begins with each stretch of actions.
 * @param group the number that the episodes share
 * @param version the policy's, which the data does not contain
 * @throws RemoteError if a list is missing or of another length
 */
export function fromScoredData(data: unknown, group: number, version = 0, temperature = 1): Trajectory[] {
  const lists = (name: string): readonly (readonly number[])[] => {
    const value = isFields(data) ? data[name] : undefined;
    const isLists = Array.isArray(value) && value.every((row) => Array.isArray(row) && row.every(Number.isFinite));
    if (!isLists) throw new RemoteError(`atropos: ${name} must be lists of numbers, got ${showValue(value)}`);
    return value as number[][];
  };
  const [tokens, masks, logProbs] = [lists("tokens"), lists("masks"), lists("inference_logprobs")];
  const { scores } = data as { scores?: unknown };
  if (!Array.isArray(scores) || scores.length !== tokens.length || !scores.every(Number.isFinite)) {
    throw new RemoteError(`atropos: scores must be ${tokens.length} numbers, got ${showValue(scores)}`);
  }
  return tokens.map((ids, i) => {
    const [mask, old] = [masks[i] ?? [], logProbs[i] ?? []];
    if (mask.length !== ids.length || old.length !== ids.length) {
      throw new RemoteError(
        `atropos: episode ${i} has ${ids.length} tokens, ${mask.length} masks, ${old.length} log-probabilities`,
      );
    }
    const stream = emptyStream();
    let turn = -1;
    ids.forEach((id, t) => {
      const isAction = mask[t] !== IGNORED;
      if (isAction && (t === 0 || mask[t - 1] === IGNORED)) turn++;
      if (isAction && (mask[t] !== id || old[t]! > 0)) {
        throw new RemoteError(
          `atropos: episode ${i}: token ${t} is trained, but its mask is ${mask[t]} and its log-probability ${old[t]}`,
        );
      }
      stream.ids.push(id);
      stream.roles.push(isAction ? "action" : turn < 0 ? "prompt" : "observation");
      stream.turns.push(Math.max(0, turn));
      stream.oldLogProbs.push(isAction ? old[t]! : 0);
      stream.temperatures.push(isAction ? temperature : 1);
      stream.versions.push(isAction ? version : -1);
      stream.targets.push(!isAction && turn >= 0);
    });
    const reward = scores[i] as number;
    return {
      stream,
      group,
      reward,
      stepRewards: [],
      stopReason: "completed",
      masked: false,
      env: "atropos",
      task: "",
      seed: 0,
      info: { success: reward > 0 },
    };
  });
}

/** A server of Atropos. */
export interface Atropos {
  /** Registers a trainer; needed before `batch`. */
  register(registration: AtroposRegistration): Promise<void>;
  /** Sends a group of our episodes. */
  send(group: readonly Trajectory[], envId?: number): Promise<"received" | "buffered">;
  /** The next batch as groups of episodes, or undefined if none is ready. */
  batch(version?: number, temperature?: number): Promise<Trajectory[] | undefined>;
}

/** The client of an Atropos server. */
export function atropos(options: RemoteOptions): Atropos {
  let groups = 0;
  return {
    async register(registration) {
      const answer = await request(options, "POST", "/register", { body: { ...registration } });
      check(isFields(answer) && "uuid" in answer, () => `atropos: expected a uuid, got ${showValue(answer)}`);
    },
    async send(group, envId) {
      const data = toScoredData(group, envId);
      check(data.tokens.length > 0, () => "atropos: no episode of the group can be scored");
      const answer = await request(options, "POST", "/scored_data", { body: { ...data } });
      const status = isFields(answer) ? answer["status"] : undefined;
      if (status === "received" || status === "buffered") return status;
      throw new RemoteError(`atropos: the group was not taken: ${showValue(answer)}`);
    },
    async batch(version, temperature) {
      const answer = await request(options, "GET", "/batch");
      const batch = isFields(answer) ? answer["batch"] : undefined;
      if (isFields(answer) && answer["status"] === "error") {
        throw new RemoteError(`atropos: ${showValue(answer["message"])}`);
      }
      if (batch === null) return undefined;
      if (!Array.isArray(batch)) throw new RemoteError(`atropos: expected a batch, got ${showValue(answer)}`);
      return batch.flatMap((data) => fromScoredData(data, groups++, version, temperature));
    },
  };
}
