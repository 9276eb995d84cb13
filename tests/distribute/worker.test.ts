/**
 * An agent behind a port, as a page has it behind a worker: it trains as `trainRl` does, bit for bit, however its steps
 * are asked for; it plays, is paused, saved and loaded; it may play in an environment of the page; what fails is told.
 * tests/browser/embed.long.test.ts has the same in workers of pages.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { device as makeDevice, type Device } from "../../engine/index.ts";
import { AdamW, type Files } from "../../nn/index.ts";
import {
  AgentWorker,
  type AgentWorkerOptions,
  type ServedAgent,
  serveAgent,
  type PageSide,
  type TrainedStep,
} from "../../distribute/worker/index.ts";
import { Template } from "../../rl/episode/template.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { toyRlOptions } from "../support/rlRuns.ts";
import { letters, toyModel, toySpec } from "../support/rlToy.ts";

interface Settings {
  readonly seed: number;
  readonly hidden?: number;
  readonly inPage?: boolean;
}

let on: Device;
beforeAll(async () => void (on = await makeDevice("wasm", { threads: 1 })));
afterAll(() => on.dispose());

const ports: MessagePort[] = [];
afterEach(() => ports.splice(0).forEach((port) => port.close()));

const agentOf = ({ seed, hidden = 8, inPage }: Settings, page?: PageSide): ServedAgent => {
  const model = toyModel(on, seed, { layers: 1, hiddenSize: hidden, maxPositions: 48 });
  const { steps: _, ...options } = toyRlOptions(model, inPage ? { env: page!.environment } : {});
  return options;
};

function served(options: AgentWorkerOptions = {}, create = agentOf): AgentWorker<Settings> {
  const { port1, port2 } = new MessageChannel();
  ports.push(port1, port2);
  serveAgent(create, port2);
  return new AgentWorker<Settings>(port1, options);
}

async function stepsOf(steps: AsyncIterable<TrainedStep>): Promise<TrainedStep[]> {
  const all: TrainedStep[] = [];
  for await (const step of steps) all.push(step);
  return all;
}

/** What `trainRl` reports of the same agent. */
async function expected(steps: number, agent: ServedAgent = agentOf({ seed: 1 })): Promise<TrainedStep[]> {
  const all: TrainedStep[] = [];
  for await (const { step, metrics } of trainRl({ ...agent, steps })) all.push({ step, metrics });
  return all;
}

describe("training", () => {
  it("is trainRl's, bit for bit, in one call or in several", async () => {
    const wanted = await expected(4);
    const agent = served();
    await agent.create({ seed: 1 });
    expect(await stepsOf(agent.train(4))).toEqual(wanted);
    const other = served();
    await other.create({ seed: 1 });
    const parts = [await stepsOf(other.train(1)), await stepsOf(other.train(0)), await stepsOf(other.train(3))];
    expect(parts.map((part) => part.length)).toEqual([1, 0, 3]);
    expect(parts.flat()).toEqual(wanted);
  });

  it("without an end is paused by leaving the loop, and goes on where it was", async () => {
    const agent = served();
    await agent.create({ seed: 1 });
    const first: TrainedStep[] = [];
    for await (const step of agent.train()) {
      first.push(step);
      if (first.length === 2) break;
    }
    const { length } = first;
    const rest = await stepsOf(agent.train(2));
    // The worker may be a step or more ahead of the page when it hears of the pause.
    expect(rest[0]!.step).toBeGreaterThanOrEqual(length);
    const all = await expected(rest.at(-1)!.step + 1);
    expect(first).toEqual(all.slice(0, 2));
    expect(rest).toEqual(all.slice(-2));
  });

  it("that was asked for before a pause ends; what is asked for after it does not", async () => {
    const agent = served();
    await agent.create({ seed: 1 });
    const first = stepsOf(agent.train());
    const second = stepsOf(agent.train(1000));
    await new Promise((resolve) => setTimeout(resolve, 50)); // generators have begun
    agent.pause();
    const third = stepsOf(agent.train(1));
    expect((await first).length).toBeLessThan(1000);
    expect((await second).length).toBe(0);
    expect(await third).toHaveLength(1);
  });
});

describe("playing", () => {
  it("gives episodes in words, the same for the same seed, and learns nothing", async () => {
    const agent = served();
    await agent.create({ seed: 1 });
    const seeds = [...Array(12).keys()];
    const episodes = await agent.play({ seeds, temperature: 1 });
    expect(episodes.map(({ task }) => task)).toEqual(seeds.map((seed) => "ab"[seed % 2]));
    const completed = episodes.filter(({ stopReason }) => stopReason === "completed");
    expect(completed.length).toBeGreaterThan(0);
    for (const { turns } of completed) {
      expect(turns).toHaveLength(2);
      for (const { action, observation } of turns) expect(observation).toBe(`${action.slice(0, 2)}b!`);
    }
    const [greedy] = await agent.play({ seeds: [7] });
    expect(await agent.play({ seeds: [7], temperature: 0, split: "heldout" })).toEqual([greedy]);
    const drawn = await agent.play({ seeds: [7, 8], temperature: 1 });
    expect(await agent.play({ seeds: [7, 8], temperature: 1 })).toEqual(drawn);
    expect(await stepsOf(agent.train(2))).toEqual(await expected(2));
    expect(await agent.play({ seeds: [7, 8], temperature: 1 })).not.toEqual(drawn);
  });
});

describe("saving", () => {
  const memory = { value: 0, state: () => memory.value, restore: (x: unknown) => void (memory.value = x as number) };
  const withMemory = (settings: Settings): ServedAgent => ({ ...agentOf(settings), memories: { count: memory } });
  let files: Files;

  it("and loading into another agent: it goes on as the saved one would have, memories included", async () => {
    const agent = served({}, withMemory);
    await agent.create({ seed: 1 });
    await stepsOf(agent.train(2));
    memory.value = 17;
    files = await agent.save();
    expect(Object.keys(files).toSorted()).toEqual([
      "agent.json",
      "config.json",
      "model.safetensors",
      "optimizer.safetensors",
    ]);
    memory.value = 0;
    const other = served({}, withMemory);
    await other.create({ seed: 2 });
    await stepsOf(other.train(1));
    expect(await other.load(files)).toBe(2);
    expect(memory.value).toBe(17);
    expect(await stepsOf(other.train(2))).toEqual((await expected(4)).slice(2));
  });

  it("files of an agent whose ids mean other texts are refused; files of before that was kept are not", async () => {
    const other = served({}, (settings) => {
      const { template } = agentOf(settings);
      const decode = (ids: ArrayLike<number>): string => template.tokenizer.decode(ids).toUpperCase();
      return { ...withMemory(settings), template: new Template({ ...template.tokenizer, decode }) };
    });
    await other.create({ seed: 2 });
    await expect(other.load(files)).rejects.toThrow(
      "AgentWorker.load: the files are of an agent with another tokenizer",
    );
    const { tokenizer: _, ...state } = JSON.parse(files["agent.json"] as string) as Record<string, unknown>;
    expect(await other.load({ ...files, "agent.json": JSON.stringify(state) })).toBe(2);
  });

  it("files of another agent change nothing", async () => {
    const agent = served({}, withMemory);
    await agent.create({ seed: 1, hidden: 16 });
    await expect(agent.load(files)).rejects.toThrow("AgentWorker.load: the files are of a model of another size");
    await expect(agent.load(files)).rejects.toThrow("embedding [17, 8], and this agent's has embedding [17, 16]");
    await expect(agent.load({})).rejects.toThrow("AgentWorker.load: agent.json is missing");
    await expect(agent.load({})).rejects.toMatchObject({ code: "INVALID" });
    const plain = served();
    await plain.create({ seed: 1 });
    await expect(plain.load(files)).rejects.toThrow(
      'AgentWorker.load: expected the memories "", the files have "count"',
    );
    expect(await stepsOf(plain.train(1))).toEqual(await expected(1));
  });
});

describe("an environment of the page", () => {
  it("is where the agent plays, as it would in the same environment of its own", async () => {
    const wanted = await expected(2);
    let closed = 0;
    const spec = toySpec(letters(2));
    const counting = { ...spec, make: () => Object.assign(spec.make(), { close: () => void closed++ }) };
    const agent = served({ environment: counting });
    await agent.create({ seed: 1, inPage: true });
    expect(await stepsOf(agent.train(2))).toEqual(wanted);
    expect(closed).toBe(2 * 6); // two steps of 2 × 3 episodes
    expect((await agent.play({ seeds: [1] }))[0]!.task).toBe("b");
  });

  it("is told of an end from outside, and what it says of it counts", async () => {
    const heard: string[] = [];
    const spec = toySpec(letters(100));
    const end = async (reason: string) => (heard.push(reason), { reward: 2, info: { reached: 3 } });
    const agent = served({ environment: { ...spec, make: () => Object.assign(spec.make(), { end }) } });
    await agent.create({ seed: 1, inPage: true });
    const played = await agent.play({ seeds: [0, 1], temperature: 1 });
    expect(heard.toSorted()).toEqual(played.map(({ stopReason }) => stopReason).toSorted());
    expect(heard).toHaveLength(2);
    for (const { info, reward } of played) expect([info["reached"], reward >= 2]).toEqual([3, true]);
  });

  it("that fails while the agent trains is a warning in the page, one for each kind", async () => {
    const warnings: string[] = [];
    const failing = toySpec(() => expect.fail("broken on purpose"));
    const agent = served({ environment: failing, onWarning: (text) => warnings.push(text) });
    await agent.create({ seed: 1, inPage: true });
    await stepsOf(agent.train(2));
    expect(warnings.filter((text) => text.includes("failed (tool_error): broken on purpose"))).toHaveLength(1);
    // Where the worker's agent has a place of its own for them, the page is told nothing.
    const [own, told]: string[][] = [[], []];
    const other = served({ environment: failing, onWarning: (text) => told!.push(text) }, (settings, page) => ({
      ...agentOf(settings, page),
      warn: (text) => own!.push(text),
    }));
    await other.create({ seed: 1, inPage: true });
    await stepsOf(other.train(2));
    expect([own!.length > 0, told]).toEqual([true, []]);
  });

  it("that is missing or throws is a sentence, not a hang", async () => {
    const without = served();
    await without.create({ seed: 1, inPage: true });
    const sentence = "the agent plays in an environment of the page, but AgentWorker was given none";
    await expect(without.play({ seeds: [1] })).rejects.toThrow(sentence);
    await expect(stepsOf(without.train(1))).rejects.toThrow(sentence);
    const broken = served({ environment: toySpec(() => expect.fail("broken on purpose")) });
    await broken.create({ seed: 1, inPage: true });
    const played = await broken.play({ seeds: [...Array(12).keys()], temperature: 1 });
    const failed = played.filter(({ stopReason }) => stopReason === "tool_error");
    expect(failed.length).toBeGreaterThan(0);
    for (const { info } of failed) expect(info).toMatchObject({ error: "broken on purpose" });
  });
});

describe("a page's environment", () => {
  it("that answers what cannot be sent fails at once, by name", async () => {
    const answer = { observation: (() => "text") as never, reward: 0, done: true, info: {} };
    const agent = served({ environment: toySpec(() => answer) });
    await agent.create({ seed: 1, inPage: true });
    const began = performance.now();
    const played = await agent.play({ seeds: [...Array(12).keys()], temperature: 1 });
    expect(performance.now() - began).toBeLessThan(8_000); // an answer that never comes is waited for ten seconds
    const failed = played.filter(({ stopReason }) => stopReason === "tool_error");
    expect(failed.length).toBeGreaterThan(0);
    for (const { info } of failed) expect(info["error"]).toMatch(/could not be cloned/);
  });
});

describe("a worker that never calls serveAgent", () => {
  afterEach(() => void vi.useRealTimers());

  it("is told of, once, and waited for", async () => {
    vi.useFakeTimers();
    const said: string[] = [];
    const agent = new AgentWorker<Settings>(new Forgetful(), { onWarning: (text) => said.push(text) });
    const created = agent.create({ seed: 1 });
    vi.advanceTimersByTime(60_000);
    expect(said).toEqual(["AgentWorker: the worker has said nothing for 10 seconds; does its script call serveAgent?"]);
    agent.dispose();
    await expect(created).rejects.toThrow("has been disposed");
    new AgentWorker<Settings>(new Forgetful(), { onWarning: (text) => said.push(text) }).dispose();
    vi.advanceTimersByTime(60_000);
    expect(said).toHaveLength(1);
  });
});

/** Two ends that keep no message for a listener that comes later, as a worker whose script waits before it listens. */
class Forgetful {
  other: Forgetful | undefined;
  readonly #listeners: ((event: { readonly data: unknown }) => void)[] = [];
  addEventListener(type: string, listener: (event: { readonly data: unknown }) => void): void {
    if (type === "message") this.#listeners.push(listener);
  }
  postMessage(data: unknown): void {
    const { other } = this;
    const heard = other === undefined ? [] : [...other.#listeners];
    queueMicrotask(() => heard.forEach((tell) => tell({ data })));
  }
}

// GoogleChromeLabs/comlink#463; in Chromium a module that awaits something before `serveAgent` is such a worker.
describe("orders that are given before the worker listens", () => {
  const ends = (): [page: Forgetful, worker: Forgetful] => {
    const [page, worker] = [new Forgetful(), new Forgetful()];
    [page.other, worker.other] = [worker, page];
    return [page, worker];
  };

  it("are carried out when it does, once and in their order", async () => {
    const [page, worker] = ends();
    const agent = new AgentWorker<Settings>(page);
    const all = [agent.create({ seed: 1 }), agent.save(), agent.load({})] as const;
    const played = agent.play({ seeds: [1] });
    await new Promise((resolve) => setTimeout(resolve, 20));
    let created = 0;
    serveAgent((settings: Settings) => {
      created++;
      return agentOf(settings);
    }, worker);
    await all[0];
    expect(Object.keys(await all[1])).toContain("agent.json");
    await expect(all[2]).rejects.toThrow("AgentWorker.load: agent.json is missing");
    expect(await played).toHaveLength(1);
    expect(created).toBe(1);
  });

  it("are carried out by a worker that listened before the page did", async () => {
    const [page, worker] = ends();
    serveAgent(agentOf, worker);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const agent = new AgentWorker<Settings>(page);
    await agent.create({ seed: 1 });
    expect((await stepsOf(agent.train(1))).length).toBe(1);
  });
});

describe("what fails", () => {
  it("is told: creation, options, settings that cannot be sent", async () => {
    const agent = served({}, () => {
      throw new Error("no such seed");
    });
    await expect(agent.create({ seed: 1 })).rejects.toThrow("no such seed");
    await expect(agent.save()).rejects.toThrow("AgentWorker.save: there is no agent: call create first, and await it");
    const good = served();
    await expect(good.create({ seed: (() => 1) as never })).rejects.toThrow(/could not be cloned/);
    await good.create({ seed: 1 });
    await expect(good.create({ seed: 1 })).rejects.toThrow("serveAgent: the agent is there already; a worker has one");
    await expect(stepsOf(good.train(1.5))).rejects.toThrow(
      "AgentWorker.train: steps must be a whole number or Infinity, got 1.5",
    );
    await expect(stepsOf(good.train("3" as never))).rejects.toThrow('Infinity, got "3"');
    await expect(good.play({ seed: [1] } as never)).rejects.toThrow("AgentWorker.play");
    await expect(good.play({} as never)).rejects.toThrow(
      "AgentWorker.play: seeds must be a list of integers, got missing",
    );
    await expect(good.load(undefined as never)).rejects.toThrow("AgentWorker.load: expected the files that save gave");
    const early = served();
    await expect(early.load({})).rejects.toThrow(
      "AgentWorker.load: there is no agent: call create first, and await it",
    );
    const counted = served({}, (settings) => ({ ...agentOf(settings), steps: 5 }) as ServedAgent);
    await expect(counted.create({ seed: 1 })).rejects.toThrow(
      "serveAgent: the page says how long to train; create must",
    );
    expect(() => served({ onwarning: () => 0 } as never)).toThrow("AgentWorker: unknown option 'onwarning'");
    for (const port of ["./agent.js", undefined, new URL("https://a.b/agent.js")])
      expect(() => new AgentWorker(port as never)).toThrow(
        'AgentWorker: expected a worker, new Worker(new URL("./agent.js", import.meta.url), { type: "module" }), got ',
      );
    expect(() => serveAgent(agentOf)).toThrow("serveAgent: this is no worker of a page");
    expect(() => served({ environment: {} as never })).toThrow(
      "AgentWorker: environment must be the spec of an environ",
    );
    const wrong = served({}, (settings) => ({ ...agentOf(settings), groups: 0 }));
    await expect(wrong.create({ seed: 1 })).rejects.toThrow("trainRl: groups and groupSize must be integers ≥ 1");
  });

  it("heads cannot be saved", async () => {
    const agent = served({}, (settings) => {
      const options = agentOf(settings);
      const { params } = options.model;
      return {
        ...options,
        heads: { value: { head: {} as never, optimizer: new AdamW({ w: params.embedding }) as never } },
      };
    });
    await agent.create({ seed: 1 });
    await expect(agent.save()).rejects.toThrow(
      "AgentWorker.save: an agent with heads of terms (a critic) cannot be saved",
    );
  });

  it("disposed: what waits rejects, and so does what comes later", async () => {
    const agent = served();
    await agent.create({ seed: 1 });
    const training = stepsOf(agent.train());
    {
      using own = agent;
      expect(own).toBe(agent);
    }
    await expect(training).rejects.toThrow("AgentWorker: the agent's worker has been disposed");
    await expect(agent.save()).rejects.toThrow("AgentWorker: the agent's worker has been disposed");
  });
});
