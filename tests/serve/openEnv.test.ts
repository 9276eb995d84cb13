/**
 * A built-in environment served over OpenEnv's protocol, played by our OpenEnv client: the same episode as without a
 * server, and mistakes, full servers and sessions as the protocol has them.
 */
import { WebSocket } from "ws";
import { afterEach, expect, it } from "vitest";
import { ENVIRONMENTS, openEnv } from "../../environments/index.ts";
import { connect } from "../../environments/openenv/index.ts";
import { type OpenEnvServer, serveOpenEnv } from "../../serve/index.ts";

let server: OpenEnvServer;
afterEach(() => server.close(), 60_000);
const patience = { timeout: 30_000, reconnect: { attempts: 0, pause: 5 } } as const;

it("an episode of terminal over the wire is the episode itself", async () => {
  const spec = ENVIRONMENTS["terminal"]!;
  server = await serveOpenEnv(spec, { levels: [1, 1] });
  const own = spec.make({ levels: [1, 1] });
  const text = ({ text }: Readonly<Record<string, unknown>>): string => String(text);
  const remote = openEnv({ url: server.url, WebSocket, action: "message", observe: text, ...patience }).make();
  expect(await remote.reset(11)).toBe(await own.reset(11));
  for (let isDone = false; !isDone;) {
    const action = spec.expert(own);
    const [here, there] = [await own.step(action), await remote.step(action)];
    expect([there.observation, there.reward, there.done]).toEqual([here.observation, here.reward, here.done]);
    isDone = here.done;
  }
}, 60_000);

it("refuses what the protocol refuses", async () => {
  server = await serveOpenEnv(ENVIRONMENTS["calculator"]!, {}, { maxSessions: 1 });
  const session = await connect({ url: server.url, WebSocket, ...patience });
  await expect(session.step({ message: "1" })).rejects.toMatchObject({ code: "EXECUTION_ERROR" });
  const { observation, reward, done } = await session.reset({ seed: 3, episode_id: "mine" });
  expect([Object.keys(observation), reward, done]).toEqual([["text"], null, false]);
  await expect(session.step({ massage: "1" })).rejects.toMatchObject({
    code: "VALIDATION_ERROR",
    details: { errors: [{ loc: ["message"] }, { loc: ["massage"] }] },
  });
  await expect(session.step({ message: 1 })).rejects.toMatchObject({ code: "VALIDATION_ERROR" });
  await session.step({ message: "nonsense" });
  expect(await session.state()).toEqual({ episode_id: "mine", step_count: 1 });
  const second = await connect({ url: server.url, WebSocket, ...patience });
  await expect(second.reset()).rejects.toMatchObject({ code: "CAPACITY_REACHED" });
  await expect(session.mcp("tools/list")).rejects.toMatchObject({ code: "UNKNOWN_TYPE" });
  await session.reset();
  session.close();
  await expect(serveOpenEnv(ENVIRONMENTS["calculator"]!, { levels: [9, 9] })).rejects.toThrow("calculator");
}, 60_000);
