/**
 * Comparison of a real OpenEnv server with the committed recording, by which the client and the tests' server are
 * checked. The server needs the package `openenv` of `pip`, or its sources (`PYTHONPATH=src`, with fastapi,
 * uvicorn, pydantic, websockets, fastmcp and requests):
 *
 *     python tests/environments/openenv-room.py 8765 &
 *     npx tsx scripts/checkOpenEnv.ts http://127.0.0.1:8765
 *
 * The name of a folder in `envs/` of OpenEnv's repository chooses that server, started there:
 *
 *     PYTHONPATH=src:. uvicorn envs.grid_world_env.server.app:app --port 8901 &
 *     npx tsx scripts/checkOpenEnv.ts http://127.0.0.1:8901 grid_world_env
 *
 * It sends what tests/support/openEnvDialogue.ts lists and compares the frames with the recording
 * (tests/environments/openenv-recorded.json, openenv-foreign.json; `--record` writes it), then plays an episode of the
 * room with the client. The exit code is 1 on a difference: this version of the server has another protocol or another
 * environment.
 */
import { WebSocket } from "ws";
import { isDeepStrictEqual } from "node:util";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { format } from "prettier";
import { openEnv } from "../environments/openenv/index.ts";
import { socketUrl } from "../environments/openenv/session.ts";
import { converse, type Dialogue, FOREIGN, ROOM } from "../tests/support/openEnvDialogue.ts";

const isRecording = process.argv.includes("--record");
const [url = "http://127.0.0.1:8765", server] = process.argv.slice(2).filter((word) => word !== "--record");
const scripts = server === undefined ? ROOM : FOREIGN.filter(({ name }) => name === server);
if (scripts.length === 0) {
  throw new Error(`expected one of ${FOREIGN.map(({ name }) => name).join(", ")}, got ${String(server)}`);
}
const file = server === undefined ? "openenv-recorded.json" : "openenv-foreign.json";
const recording = new URL(`../tests/environments/${file}`, import.meta.url);

const heard = await converse(socketUrl(url), scripts);
const { source, dialogues } = JSON.parse(readFileSync(recording, "utf8")) as { source: string; dialogues: Dialogue[] };
const recorded = (name: string): Dialogue | undefined => dialogues.find((dialogue) => dialogue.name === name);
if (isRecording) {
  const others = dialogues.filter(({ name }) => scripts.every((script) => script.name !== name));
  const all = JSON.stringify({ source, dialogues: [...others, ...heard] });
  writeFileSync(recording, await format(all, { parser: "json", printWidth: 120 }));
  console.log("recorded; put the versions into its `source`");
}

let differences = 0;
for (const { name, turns } of heard) {
  for (const [k, { send, answer }] of turns.entries()) {
    const expected = recorded(name)?.turns[k]?.answer;
    if (isRecording || isDeepStrictEqual(answer, expected)) continue;
    differences++;
    console.log(
      `${name}: ${send ?? "(unasked)"}\n  server    ${JSON.stringify(answer)}\n  recording ${JSON.stringify(expected)}`,
    );
  }
}
if (server === undefined) {
  const environment = openEnv({ url, action: "message", WebSocket }).make();
  const episode: unknown[] = [await environment.reset(3)];
  for (const text of ["hello", "worldgrad"]) {
    const { observation, reward, done } = await environment.step(text);
    episode.push([observation, reward, done]);
  }
  environment.close?.();
  console.log(`an episode with the client: ${JSON.stringify(episode)}`);
}
console.log(`${differences} differences from ${source}`);
process.exitCode = differences > 0 ? 1 : 0;
