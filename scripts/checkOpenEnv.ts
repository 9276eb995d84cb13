/**
 * Holds the OpenEnv client and the tests' server against a real OpenEnv server:
 *
 *     pip install openenv && python tests/environments/openenv-room.py 8765 &
 *     npx tsx scripts/checkOpenEnv.ts http://127.0.0.1:8765
 *
 * Sends what tests/support/openEnvDialogue.ts lists, compares the frames with the committed recording
 * (tests/environments/openenv-recorded.json; `--record` writes it), then plays an episode with the client. Exits with 1
 * on a difference: then this version of the server has another protocol.
 */
import { WebSocket } from "ws";
import { isDeepStrictEqual } from "node:util";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { format } from "prettier";
import { openEnv } from "../environments/openenv/index.ts";
import { socketUrl } from "../environments/openenv/session.ts";
import { converse, type Dialogue } from "../tests/support/openEnvDialogue.ts";

const recording = new URL("../tests/environments/openenv-recorded.json", import.meta.url);
const [url = "http://127.0.0.1:8765", flag] = process.argv.slice(2);

const heard = await converse(socketUrl(url));
const { source, dialogues } = JSON.parse(readFileSync(recording, "utf8")) as { source: string; dialogues: Dialogue[] };
if (flag === "--record") {
  writeFileSync(
    recording,
    await format(JSON.stringify({ source, dialogues: heard }), { parser: "json", printWidth: 120 }),
  );
  console.log("recorded; put the versions into its `source`");
}

let differences = 0;
for (const [i, { name, turns }] of heard.entries()) {
  for (const [k, { send, answer }] of turns.entries()) {
    const expected = dialogues[i]?.turns[k]?.answer;
    if (flag === "--record" || isDeepStrictEqual(answer, expected)) continue;
    differences++;
    console.log(
      `${name}: ${send ?? "(unasked)"}\n  server    ${JSON.stringify(answer)}\n  recording ${JSON.stringify(expected)}`,
    );
  }
}

const environment = openEnv({ url, action: "message", WebSocket }).make();
const task = await environment.reset(3);
const steps = [await environment.step("hello"), await environment.step("worldgrad")];
environment.close?.();
console.log(
  `an episode with the client: ${JSON.stringify([task, ...steps.map((s) => [s.observation, s.reward, s.done])])}`,
);
console.log(`${differences} differences from ${source}`);
process.exitCode = differences > 0 ? 1 : 0;
