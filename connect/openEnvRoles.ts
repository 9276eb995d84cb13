/**
 * Streams in the format of OpenEnv's RFC 010, "Env-token World Modeling (ECHO)" (draft of 2026-06-14,
 * huggingface/OpenEnv PR 819): token ids with a role each, as labels and as the three masks of the RFC's reference
 * code, and the options of its world-model loss.
 *
 * | RFC 010      | ours                                                     |
 * | ------------ | -------------------------------------------------------- |
 * | `context`    | `prompt`, `scaffold` (none of them is trained)           |
 * | `action`     | `action`, `thought`                                      |
 * | `env_output` | `observation` that is a target                           |
 * | `warning`    | `observation` that is not a target: added by the harness |
 *
 * The RFC has no log-probabilities, but a policy loss needs those of the sampler, so our records have an additional
 * column, `old_log_probs`. The RFC mentions rollout filters without defining them; `echo`'s `filter` is our definition.
 */
import { check, fail } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { oneOf, options, type OptionsOf } from "../engine/optionTable.ts";
import { ECHO, echo, type WorldObjective } from "../rl/objective/echo.ts";
import {
  append,
  emptyStream,
  isAgentToken,
  type Role,
  type TokenStream,
  type Trajectory,
} from "../rl/episode/stream.ts";

/** The roles of RFC 010. */
export const TOKEN_ROLES = ["context", "action", "env_output", "warning"] as const;
/**
 * A role of RFC 010: `context` is `prompt` and `scaffold` here, `action` is `action` and `thought`, `env_output` an
 * `observation` that is a world-model target, `warning` one that is not.
 */
export type TokenRole = (typeof TOKEN_ROLES)[number];

/** The environment tokens that are targets of the world-model loss: `env_only` leaves out warnings. */
export type WorldLossTarget = "env_only" | "all";

/** An episode in the format of RFC 010, as plain JSON. All columns have the same length. */
export interface TokenRoleRecord {
  readonly input_ids: readonly number[];
  readonly roles?: readonly TokenRole[];
  readonly action_mask: readonly boolean[];
  /** The targets of the world-model loss; with `all` also the warnings. */
  readonly obs_mask: readonly boolean[];
  readonly warning_mask: readonly boolean[];
  /** The return; `null` if the episode could not be scored. */
  readonly reward: number | null;
  /** Not in the RFC: the log-probability of each action token when it was sampled, 0 elsewhere. */
  readonly old_log_probs?: readonly number[];
}

function roleOf({ roles, targets }: TokenStream, t: number): TokenRole {
  const role = roles[t]!;
  if (isAgentToken(role)) return "action";
  if (role === "observation") return targets[t] ? "env_output" : "warning";
  check(role !== "pad", () => `toTokenRoles: token ${t} is padding, which RFC 010 has no role for`);
  return "context";
}

/** An episode in the format of RFC 010. The tokens' turns and temperatures are not part of it. */
export function toTokenRoles(
  { stream, reward }: Pick<Trajectory, "stream" | "reward">,
  target: WorldLossTarget = "env_only",
): TokenRoleRecord {
  const roles = stream.ids.map((_, t) => roleOf(stream, t));
  return {
    input_ids: [...stream.ids],
    roles,
    action_mask: roles.map((role) => role === "action"),
    obs_mask: roles.map((role) => role === "env_output" || (target === "all" && role === "warning")),
    warning_mask: roles.map((role) => role === "warning"),
    reward: Number.isNaN(reward) ? null : reward,
    old_log_probs: [...stream.oldLogProbs],
  };
}

/**
 * The stream and the reward of a record, from its roles or, without them, from its masks. Context before the first
 * action becomes `prompt`, later context `scaffold`. Each run of action tokens begins a new turn.
 *
 * A record without `old_log_probs` can be used like a demonstration, for supervised and world-model losses. A policy
 * loss needs the log-probabilities of the sampler.
 * @throws if columns differ in length, a role is unknown, or two masks contradict each other
 */
export function fromTokenRoles(record: TokenRoleRecord): { readonly stream: TokenStream; readonly reward: number } {
  const { input_ids: ids, old_log_probs: old, reward } = record;
  const { roles = rolesFromMasks(record) } = record;
  for (const [name, column] of Object.entries({ roles, ...(old ? { old_log_probs: old } : {}) })) {
    check(column.length === ids.length, () => `fromTokenRoles: ${ids.length} tokens but ${column.length} ${name}`);
  }
  const stream = emptyStream();
  let turn = -1;
  roles.forEach((role, t) => {
    check(
      TOKEN_ROLES.includes(role),
      () => `fromTokenRoles: the role of token ${t} is ${showValue(role)}, expected ${TOKEN_ROLES.join(", ")}`,
    );
    if (role === "action" && roles[t - 1] !== "action") turn++;
    const ours: Role =
      role === "context" ? (turn < 0 ? "prompt" : "scaffold") : role === "action" ? "action" : "observation";
    append(stream, ours, Math.max(0, turn), [ids[t]!], {
      target: role === "env_output",
      ...(role === "action" && old ? { oldLogProbs: [old[t]!] } : {}),
    });
  });
  return { stream, reward: reward ?? NaN };
}

function rolesFromMasks({ input_ids, action_mask, obs_mask, warning_mask }: TokenRoleRecord): TokenRole[] {
  for (const [name, mask] of Object.entries({ action_mask, obs_mask, warning_mask })) {
    check(
      Array.isArray(mask) && mask.length === input_ids.length,
      () => `fromTokenRoles: ${input_ids.length} tokens, but ${name} is ${showValue(mask)}`,
    );
  }
  return input_ids.map((_, t) => {
    const isOutput = obs_mask[t]! || warning_mask[t]!;
    if (action_mask[t] && isOutput) fail(`fromTokenRoles: token ${t} is in action_mask and in the environment's masks`);
    return action_mask[t] ? "action" : warning_mask[t] ? "warning" : isOutput ? "env_output" : "context";
  });
}

const WORLD_MODEL = options("worldModelObjective", {
  /** The RFC says that its default is too much for some models. */
  world_model_coeff: ECHO.fields.lambda,
  world_loss_target: oneOf(["env_only", "all"], "env_only", "which tokens are targets"),
});
/** The world-model part of a trainer's configuration, with the RFC's names. */
export type WorldModelConfig = OptionsOf<typeof WORLD_MODEL>;

/**
 * ECHO as RFC 010's reference code computes it: the coefficient times the mean cross-entropy over all target tokens of
 * the batch (`token-mean`; the paper divides by each episode's length instead).
 */
export function worldModelObjective(config?: WorldModelConfig): WorldObjective {
  const { world_model_coeff: lambda, world_loss_target: target } = WORLD_MODEL.read(config);
  const objective = echo({ lambda, normalization: "token-mean" });
  if (target === "env_only") return objective;
  return { ...objective, weights: (trajectories, step) => objective.weights(trajectories.map(withWarnings), step) };
}

/** The episode with all observation tokens as targets, including warnings. */
const withWarnings = (trajectory: Trajectory): Trajectory => ({
  ...trajectory,
  stream: { ...trajectory.stream, targets: trajectory.stream.roles.map((role) => role === "observation") },
});
