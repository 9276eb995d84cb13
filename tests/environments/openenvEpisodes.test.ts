/** Episodes and rollouts on an OpenEnv server: texts, rewards, mistakes, places given back, servers that die. */
import { describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { Rng } from "../../engine/random.ts";
import { playScripted } from "../../data/demonstrations.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { observationText, openEnv, OpenEnvEnvironment, type OpenEnvOptions } from "../../environments/openenv/index.ts";
import { rollout } from "../../rl/play/rollout.ts";
import { rolloutsOf } from "../../rl/episode/stream.ts";
import { closeAfterEach, onStep, patience, serve, until } from "../support/openEnv.ts";
import { echoWorld, type OpenEnvServer } from "../support/openEnvServer.ts";
import { reference } from "../support/rlExecutors.ts";
import { endingModel, toyTemplate } from "../support/rlToy.ts";

closeAfterEach();

const specOf = (server: OpenEnvServer, options: Partial<OpenEnvOptions> = {}): EnvironmentSpec =>
  openEnv({ url: server.url, WebSocket, action: "message", ...patience, ...options });

describe("an environment", () => {
  it("plays an episode and gives its place back", async () => {
    const server = await serve();
    const env = specOf(server).make();
    expect(await env.reset(2)).toBe("c");
    const first = await env.step("ab");
    expect(first).toMatchObject({ observation: "echoed: ab\nlength: 2", reward: 0, done: false });
    expect(first.info).toEqual({ family: "openenv", level: 1, success: false, turns: 1, toolErrors: 0 });
    expect(await env.step("abc")).toMatchObject({ reward: 3, done: true, info: { success: true, turns: 2 } });
    await until(() => server.sessions() === 0);
    await expect(env.step("x")).rejects.toThrow("openenv.step: called after the episode ended");
  });

  it("null at the end is not scorable, or what `missingReward` says", async () => {
    const server = await serve({ world: echoWorld({ turns: 1, reward: () => null }) });
    for (const [options, expected] of [
      [{}, NaN],
      [{ missingReward: 0 }, 0],
    ] as const) {
      const env = specOf(server, options).make();
      await env.reset(0);
      expect(await env.step("a")).toMatchObject({ reward: expected, done: true, info: { success: false } });
    }
  });

  it("an action that does not fit is the agent's mistake; what the server cannot go on from is not", async () => {
    const server = await serve({ world: echoWorld({ turns: 9 }) });
    const spec = specOf(server, {
      action: (text) => {
        if (text === "") throw new Error("say something");
        return text === "wrong" ? { massage: text } : { message: text };
      },
    });
    const env = spec.make();
    await env.reset(0);
    expect(await env.step("wrong")).toMatchObject({
      observation: "invalid action: message: Field required; massage: Extra inputs are not permitted",
      reward: 0,
      done: false,
      info: { toolErrors: 1, turns: 1 },
    });
    expect(await env.step("")).toMatchObject({ observation: "invalid action: say something", info: { toolErrors: 2 } });
    expect(await env.step("fine")).toMatchObject({ observation: "echoed: fine\nlength: 4" });
    await expect(env.step("crash")).rejects.toThrow("EXECUTION_ERROR");
    await until(() => server.sessions() === 0);
    await expect(env.step("on")).rejects.toThrow("called after a call failed");
  });

  it("asks for tasks as it is told to, and has no held-out ones otherwise", async () => {
    const server = await serve();
    const spec = specOf(server, {
      task: (seed, split) => ({ seed: seed + 1, split }),
      observe: (o) => `<${String(o["prompt"])}>`,
    });
    expect(await spec.make({ split: "heldout" }).reset(1)).toBe("<c>");
    expect(server.received).toEqual([{ type: "reset", data: { seed: 2, split: "heldout" } }]);
    expect(() => specOf(server).make({ split: "heldout" })).toThrow("openenv: the server knows no held-out tasks");
    expect(() => specOf(server).make({ families: ["x"] })).toThrow("openenv: unknown family 'x'");
  });

  it("lends its session for what goes beyond the contract", async () => {
    const server = await serve();
    const env = specOf(server).make();
    await env.reset(3);
    expect(env).toBeInstanceOf(OpenEnvEnvironment);
    expect(await (env as OpenEnvEnvironment).session.state()).toEqual({ episode_id: "episode-3", step_count: 0 });
    env.close!();
    await until(() => server.sessions() === 0);
  });

  it("shows observations as text", () => {
    expect(observationText({ stdout: "hi\n", stderr: "", exit_code: 0 })).toBe("stdout: hi\n\nexit_code: 0");
    expect(observationText({ prompt: "go", legal: [], extra: {}, none: null })).toBe("go");
    expect(observationText({ board: [[1, 2]], ok: false })).toBe("board: [[1,2]]\nok: false");
    expect(observationText({})).toBe("");
  });

  it("refuses options that make no sense, in one line", async () => {
    const url = "http://localhost:1";
    const make = (bad: object): unknown => openEnv({ url, action: "x", WebSocket, ...bad });
    expect(() => make({ acton: "y" })).toThrow("openEnv: unknown option 'acton'; did you mean 'action'?");
    expect(() => make({ action: "" })).toThrow("openenv: action must be the name of the field");
    expect(() => make({ timeout: 0 })).toThrow("connect: timeout must be > 0, got 0");
    expect(() => make({ reconnect: { attempts: -1 } })).toThrow("reconnect: attempts must be an integer ≥ 0, got -1");
    expect(() => make({ reconnect: { tries: 1 } })).toThrow("connect: reconnect: unknown option 'tries'");
    expect(() => make({ url: "ftp://x" })).toThrow('connect: url must be http(s) or ws(s), got "ftp://x"');
    expect(() => make({ url: "https://x.org/env/?token=1" })).not.toThrow();
    expect((make({ url: "https://x.org/env/?token=1" }) as EnvironmentSpec).description).toContain(
      "wss://x.org/env/ws?token=1",
    );
    const spec = make({ actions: ["up"] }) as EnvironmentSpec;
    expect(spec.random(new Rng(0))).toBe("up");
    expect(() => spec.expert!(spec.make())).toThrow("a remote environment has no expert");
    expect(() => (make({}) as EnvironmentSpec).random(new Rng(0))).toThrow("the random baseline needs `actions`");
    if (!("WebSocket" in globalThis)) {
      expect(() => openEnv({ url, action: "x" })).toThrow("there is no global WebSocket here");
    }
  });
});

describe("a rollout", () => {
  const play = async (spec: EnvironmentSpec, options: object = {}): Promise<Awaited<ReturnType<typeof rollout>>> => {
    const device = await reference.open();
    const requests = Array.from({ length: 4 }, (_, e) => ({
      spec,
      options: {},
      seed: e % 2,
      group: e % 2,
      rng: new Rng(1).split(e),
    }));
    try {
      return await rollout(endingModel(device), toyTemplate, requests, { maxActionTokens: 12, ...options });
    } finally {
      device.dispose();
    }
  };

  it("of four episodes: the model's actions are what the server got, its answers are observations", async () => {
    const server = await serve();
    const spec = specOf(server, { observe: (o) => String(o["prompt"] ?? o["echoed"]) });
    const episodes = await play(spec);
    expect(server.mostSessions()).toBe(4);
    await until(() => server.sessions() === 0);
    const steps = server.received
      .filter(({ type }) => type === "step")
      .map(({ data }) => (data as { message: string }).message);
    const finished = episodes.filter(({ stopReason }) => stopReason === "completed");
    expect(finished.length).toBeGreaterThan(0);
    for (const { stream, stepRewards, reward, seed, task, masked } of episodes) {
      expect([task, masked]).toEqual(["ab"[seed], false]);
      for (let turn = 0; turn < stepRewards.length; turn++) {
        const said = toyTemplate.actionText(
          stream.ids.filter((_, t) => stream.roles[t] === "action" && stream.turns[t] === turn),
        );
        expect(steps).toContain(said);
        expect(
          toyTemplate.tokenizer.decode(
            stream.ids.filter((_, t) => stream.roles[t] === "observation" && stream.turns[t] === turn),
          ),
        ).toBe(said);
        if (turn === 1) expect(reward).toBe(said.length);
      }
    }
  });

  it("repeats itself, also on a server with one place", async () => {
    const [wide, narrow] = [await serve(), await serve({ maxSessions: 1 })];
    const episodes = await play(specOf(wide));
    const inTurn = await play(specOf(narrow, { reconnect: { attempts: 30, pause: 5 } }), { maxConcurrent: 1 });
    expect(inTurn).toEqual(episodes);
    expect(narrow.mostSessions()).toBe(1);
  });

  it("has no more episodes at a time than the environment says", async () => {
    const [wide, narrow] = [await serve(), await serve()];
    expect(await play({ ...specOf(narrow), atOnce: () => 1 })).toEqual(await play(specOf(wide)));
    expect(narrow.mostSessions()).toBe(1);
  });

  it("episodes that are cut short give their places back", async () => {
    const server = await serve({ world: echoWorld({ turns: 99 }) });
    const episodes = await play(specOf(server), { maxTurns: 1 });
    expect(new Set(episodes.map(({ stopReason }) => stopReason))).toContain("max_turns");
    await until(() => server.sessions() === 0);
    const last = await playScripted(specOf(server), {}, 0, toyTemplate, () => "abc", { maxTurns: 2 });
    expect(last.stopReason).toBe("max_turns");
    await until(() => server.sessions() === 0);
  });

  it("null at the end of an episode makes it unscorable, not zero", async () => {
    const server = await serve({ world: echoWorld({ turns: 1, reward: () => null }) });
    const episodes = (await play(specOf(server), { maxActionTokens: 40 })).filter((e) => e.stopReason === "completed");
    expect(episodes.length).toBeGreaterThan(0);
    expect(rolloutsOf(episodes).map(({ scorable }) => scorable)).toEqual(episodes.map(() => false));
  });

  it("a server that dies or goes silent masks the episodes that it has, and the rollout ends", async () => {
    const dying = await serve({ intercept: onStep((link) => link.destroy()) });
    const silent = await serve({ intercept: onStep(() => undefined) });
    for (const [server, reason, error, timeout] of [
      [dying, "tool_error", /was closed/, 5_000],
      [silent, "timeout", /no answer within 300 ms/, 300],
    ] as const) {
      const episodes = await play(specOf(server), { timeout, maxActionTokens: 40 });
      const ended = episodes.filter(({ stopReason }) => stopReason === reason);
      expect(ended.length).toBeGreaterThan(0);
      for (const { masked, info } of ended)
        expect([masked, info["error"]]).toEqual([true, expect.stringMatching(error)]);
      await until(() => server.sessions() === 0);
    }
  });
});
