/**
 * A training step on episodes that other people's agents play: `trainStep(options, agentEpisodes(…), step)`. Each step
 * opens episodes on a `PolicyServer` that serves the model in training, starts an agent for each, and waits for their
 * rewards. The server samples nothing while the step computes; afterwards it serves the new version of the weights.
 */
import { inCode, number, options, type OptionsOf, REQUIRED } from "../../engine/optionTable.ts";
import { check, reasonOf } from "../../engine/errors.ts";
import type { EpisodeSource } from "../../rl/train/episodes.ts";
import { emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import type { PolicyServer } from "./server.ts";

/** The information that an agent gets when it is started. */
export interface AgentCall {
  /** The address of its API: `baseURL` of an OpenAI client. */
  readonly baseUrl: string;
  readonly id: string;
  /** The number of its task; agents of a group play the same. */
  readonly group: number;
  /** The number of the agent within its group. */
  readonly member: number;
  readonly step: number;
  /** Aborted when the episode is over, however it ended. */
  readonly signal: AbortSignal;
}

const AGENTS = options("agentEpisodes", {
  play: inCode<(call: AgentCall) => Promise<number | void>>(
    "plays an episode: starts a process or calls a service. It resolves to the reward; or to nothing, and then the " +
      "agent sends it to /rollouts/ID/reward",
    "a function",
    (value) => typeof value === "function",
    REQUIRED,
  ),
  groups: number(REQUIRED, "tasks in a step", { integer: true, min: 1 }),
  groupSize: number(REQUIRED, "episodes of each task", { integer: true, min: 1 }),
});
/** Options of `agentEpisodes`: how an agent is started, and how many play in a step. */
export type AgentEpisodesOptions = OptionsOf<typeof AGENTS>;

/**
 * Episodes that agents play through `server`. If an agent fails, its episode is masked, so that nothing of it is
 * trained, and `info.error` says why, even if it has sampled nothing. A few steps in which every agent fails end the
 * run. The trajectories are in the order of the groups, whichever ends first.
 *
 * @throws if all agents of a step end without having asked for a token
 */
export function agentEpisodes(server: PolicyServer, given: AgentEpisodesOptions): EpisodeSource {
  const { play, groups, groupSize } = AGENTS.read(given);
  const one = async (step: number, group: number, member: number): Promise<readonly Trajectory[]> => {
    const number = step * groups + group;
    const { rollout, baseUrl } = server.openRollout({ group: number, seed: number, env: "agent" });
    const { id, signal, finished } = rollout;
    let failure: string | undefined;
    const began = async (): Promise<number | void> => play({ baseUrl, id, group: number, member, step, signal });
    void began()
      .then((reward) => {
        if (reward !== undefined && !rollout.state.end) rollout.end({ reward });
      })
      .catch((error: unknown) => {
        if (rollout.state.end) return;
        failure = reasonOf(error);
        rollout.end({ reward: 0, masked: true, stopReason: "tool_error", error: failure });
      });
    const rows = await finished;
    if (rows.length > 0 || failure === undefined) return rows;
    // An agent that failed before it sampled a token still has an episode, which is counted and says why.
    const info = { success: false, error: failure };
    const nothing = { stream: emptyStream(), reward: 0, stepRewards: [], masked: true, task: "", seed: number };
    return [{ ...nothing, group: number, stopReason: "tool_error", env: "agent", info }];
  };
  return {
    async play(step) {
      server.engine.resume();
      const all = Array.from({ length: groups * groupSize }, (_, i) =>
        one(step, Math.floor(i / groupSize), i % groupSize),
      );
      const rows = await Promise.all(all);
      await server.engine.pause();
      check(
        rows.some((own) => own.length > 0),
        () => `agentEpisodes: no agent of step ${step} has asked for a token; each has to use the baseUrl that it gets`,
      );
      return {
        trajectories: rows.flat(),
        metrics: {
          "agents/without_tokens": rows.filter((r) => r.every(({ stream }) => stream.ids.length === 0)).length,
        },
      };
    },
    async updated(report) {
      server.engine.refresh(report.step + 1);
      return report;
    },
  };
}
