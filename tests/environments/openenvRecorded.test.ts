/**
 * The tests' OpenEnv server says, frame by frame, what a real one said (openenv-recorded.json, made by
 * scripts/checkOpenEnv.ts with openenv-room.py), so that tests against it are tests against the protocol.
 */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { socketUrl } from "../../environments/openenv/session.ts";
import { closeAfterEach, serve } from "../support/openEnv.ts";
import { converse, type Dialogue, ROOM } from "../support/openEnvDialogue.ts";

closeAfterEach();

it("the protocol-true server answers as the recorded one", async () => {
  const recorded = JSON.parse(readFileSync(new URL("./openenv-recorded.json", import.meta.url), "utf8")) as {
    source: string;
    dialogues: Dialogue[];
  };
  expect(recorded.source).toMatch(/OpenEnv \d/);
  const said = recorded.dialogues.flatMap(({ turns }) => turns);
  expect(said.length).toBeGreaterThan(30);
  const { url } = await serve({ maxSessions: 2 });
  expect(await converse(socketUrl(url), ROOM)).toEqual(recorded.dialogues);
});
