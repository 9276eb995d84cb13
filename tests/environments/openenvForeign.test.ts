/**
 * Servers of OpenEnv's own repository, as they answered (openenv-foreign.json, made by scripts/checkOpenEnv.ts; only
 * frames, no code of theirs): the client says exactly what they were told, and makes of their answers what is in them.
 */
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { expect, it } from "vitest";
import { WebSocket } from "ws";
import type { Environment, StepResult } from "../../rl/environment.ts";
import { openEnv, type OpenEnvOptions } from "../../environments/openenv/index.ts";
import { closeAfterEach, closeAfterwards, patience, serve } from "../support/openEnv.ts";
import { type Dialogue, FOREIGN } from "../support/openEnvDialogue.ts";

closeAfterEach();

const { source, dialogues } = JSON.parse(readFileSync(new URL("./openenv-foreign.json", import.meta.url), "utf8")) as {
  source: string;
  dialogues: Dialogue[];
};

/** An episode on a server that answers what `name` answered, as long as it is told what `name` was told. */
async function replayed(name: string, options: Pick<OpenEnvOptions, "action" | "tool">): Promise<Environment> {
  const { turns } = dialogues.find((dialogue) => dialogue.name === name)!;
  const { url } = await serve({
    intercept: (message, link, count) => {
      const { send, answer } = turns[count] ?? {};
      const isSame = send !== undefined && isDeepStrictEqual(JSON.parse(send), message);
      if (message["type"] === "close") return false;
      link.json(isSame ? answer : { type: "error", data: { code: "OTHER", message: JSON.stringify(message) } });
      return true;
    },
  });
  return closeAfterwards(
    openEnv({ url, WebSocket, ...patience, ...options }).make() as Environment & { close(): void },
  );
}

const playAll = async (environment: Environment, actions: Iterable<string>): Promise<StepResult[]> => {
  const results: StepResult[] = [];
  for (const action of actions) results.push(await environment.step(action));
  return results;
};
const total = (results: readonly StepResult[]): number => results.reduce((sum, { reward }) => sum + reward, 0);

it("was recorded from servers whose versions are known, and all that is said to them", () => {
  expect(source).toMatch(/OpenEnv \d.*huggingface\/OpenEnv at [\da-f]{8}.*BSD-3-Clause/);
  const said = (of: readonly { name: string }[]): string[] => of.map(({ name }) => name).toSorted();
  expect(said(dialogues)).toEqual(said(FOREIGN));
  for (const { name, says } of FOREIGN) {
    expect(dialogues.find((dialogue) => dialogue.name === name)!.turns.map(({ send }) => send)).toEqual(says);
  }
});

it("grid_world_env: ten moves, one that is no move, and the goal", async () => {
  const environment = await replayed("grid_world_env", { action: "action" });
  expect(await environment.reset(7)).toBe("x: 0\ny: 0\nmessage: Welcome to Grid World! Goal is at [4, 4].");
  const moves = ["down", "UP", "DOWN", "RIGHT", "DOWN", "RIGHT", "DOWN", "RIGHT", "DOWN", "RIGHT"];
  const results = await playAll(environment, moves);
  expect(results[0]).toMatchObject({
    observation: "invalid action: action: Input should be 'UP', 'DOWN', 'LEFT' or 'RIGHT'",
    reward: 0,
    done: false,
  });
  expect(results.map(({ done }) => done)).toEqual([...Array<boolean>(9).fill(false), true]);
  expect(total(results)).toBeCloseTo(1 - 8 * 0.1, 12);
  expect(results.at(-1)).toMatchObject({
    observation: "x: 4\ny: 4\nmessage: You found the goal!",
    info: { success: true, turns: 10, toolErrors: 1 },
  });
});

it("maze_env: a digit is a number there; a wall costs 0.75, the way out earns 10", async () => {
  const environment = await replayed("maze_env", { action: "action" });
  expect(await environment.reset(7)).toBe("legal_actions: [3]\ncurrent_position: [0,0]\nprevious_position: [0,0]");
  const results = await playAll(environment, ["right", ..."033331133131111"]);
  expect(results[0]!.observation).toBe(
    "invalid action: action: Input should be a valid integer, unable to parse string as an integer",
  );
  expect(results[1]!.reward).toBe(-0.75);
  expect(total(results)).toBeCloseTo(10 - 0.75 - 13 * 0.05, 12);
  expect(results.at(-1)).toMatchObject({ done: true, info: { success: true, toolErrors: 1 } });
});

it("connect4_env: four in a column win, and the board is read as JSON", async () => {
  const environment = await replayed("connect4_env", { action: "column" });
  expect(await environment.reset(7)).toContain("[0,0,0,0,0,0,0]]\nlegal_actions: [0,1,2,3,4,5,6]");
  const results = await playAll(environment, ["left", ..."0101010"]);
  expect(results.map(({ reward }) => reward)).toEqual([0, 0, 0, 0, 0, 0, 0, 1]);
  expect(results.at(-1)!.observation).toContain("[1,-1,0,0,0,0,0],[1,-1,0,0,0,0,0],[1,-1,0,0,0,0,0]]");
  expect(results.at(-1)!.done).toBe(true);
});

it("echo_env: an action calls a tool, and its answer is the tool's text or why there is none", async () => {
  const echo = await replayed("echo_env", { tool: "echo_message", action: "message" });
  expect(await echo.reset(7)).toBe(""); // its task is empty
  expect(await echo.step("größe 🙂")).toMatchObject({ observation: "größe 🙂", reward: 0, done: false });

  const session = await replayed("echo_env", {
    action: (text) => JSON.parse(text) as object as Record<string, unknown>,
  });
  await session.reset(7);
  const says = dialogues.find(({ name }) => name === "echo_env")!.turns.slice(1);
  const actions = says.map(({ send }) => JSON.stringify((JSON.parse(send!) as { data: object }).data));
  const answers = (await playAll(session, actions)).map(({ observation }) => observation.split("\n")[0]);
  expect(answers).toEqual([
    "größe 🙂",
    '{"message":"abc","length":3}',
    "error: Unknown tool: 'echo_loudly'",
    "error: 2 validation errors for call[echo_message]",
    "invalid action: tool_name: Field required; message: Extra inputs are not permitted",
  ]);
});
