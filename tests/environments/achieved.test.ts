/** What episodes have achieved, as `household` and `web` say it: tasks that their verifiers find solved, then first. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { EnvironmentSpec, ShownTurn } from "../../rl/environment.ts";
import { withFaults } from "../../environments/faults.ts";
import { GameEnvironment } from "../../environments/game.ts";
import { household } from "../../environments/household/index.ts";
import type { HouseholdEpisode } from "../../environments/household/episode.ts";
import { act, PLACES } from "../../environments/household/house.ts";
import { pending } from "../../environments/household/tasks.ts";
import { readCommand } from "../../environments/actions.ts";
import { ENVIRONMENTS } from "../../environments/index.ts";
import { HOME, type WebEpisode } from "../../environments/web/episode.ts";
import { web } from "../../environments/web/index.ts";
import { play } from "../../environments/web/rules.ts";
import { start } from "./suite.ts";

const turnsOf = (...pairs: [action: string, observation: string][]): ShownTurn[] =>
  pairs.map(([action, observation]) => ({ action, observation }));

describe("household", () => {
  const AT = "house: shelf, table";
  const says = (...turns: ShownTurn[]) => household.achieved!(`Cool lomika and put it on table. ${AT}`, turns);

  it("what was put elsewhere first is on its place, and was not before", async () => {
    for (let seed = 0; seed < 40; seed++) {
      const { env, task } = await start(household, seed, { families: ["two"] });
      const { house, start: state } = (env as unknown as { episode: HouseholdEpisode }).episode.task;
      const states = [state];
      const turns: ShownTurn[] = [];
      for (let done = false; !done;) {
        const action = household.expert!(env);
        states.push(act(house, states.at(-1)!, ...readCommand(action)).state ?? states.at(-1)!);
        const result = await env.step(action);
        turns.push({ action, observation: result.observation });
        done = result.done;
      }
      const found = (await household.achieved!(task, turns))!;
      const [, thing, place] = /^Put (\w+) (?:in|on) (\w+)\. house: /.exec(found.task)!;
      expect(PLACES.some(({ name }) => name === place)).toBe(true);
      const open = states.map((one) => pending(one, { kind: "put", things: [thing!], target: place! }).length);
      expect(open.indexOf(0)).toBe(found.turns);
      expect(found.turns).toBeLessThan(turns.length); // the other thing takes longer
      expect(await household.achieved!(task, turns.slice(0, found.turns - 1))).toBeUndefined();
    }
  });

  it("is nothing if a thing is put back, or only taken", async () => {
    const took = turnsOf(["go shelf", "shelf: lomika"], ["take lomika", "you have lomika"]);
    expect(await says(...took)).toBeUndefined();
    expect(await says(...took, ...turnsOf(["put lomika", "shelf: lomika"]))).toBeUndefined();
    expect(await says(...took, ...turnsOf(["hand", "you have lomika"], ["put lomika", "no"]))).toBeUndefined();
    const elsewhere = turnsOf(["go table", "table: nothing"], ["put lomika", "table: teka, lomika"]);
    expect(await says(...took, ...elsewhere)).toEqual({ task: `Put lomika on table. ${AT}`, turns: 4 });
    const box = turnsOf(["open box", "box: nothing"], ["put lomika", "box: lomika"], ["look", "box: lomika"]);
    expect(await says(...took, ...box)).toEqual({ task: `Put lomika in box. ${AT}`, turns: 4 });
    expect(await says(...elsewhere)).toBeUndefined();
    // Where it was taken is not where the agent looks at its hands, nor where it is refused another thing.
    const [gone, put] = elsewhere;
    for (const between of [turnsOf(["hand", "you have lomika"]), turnsOf(["take teka", "your hands are full"])])
      expect(await says(...took, gone!, ...between, put!)).toEqual({ task: `Put lomika on table. ${AT}`, turns: 5 });
    expect(await says(...took, gone!, ...turnsOf(["put lomika", "table: teka"]))).toBeUndefined();
  });
});

describe("web", () => {
  /** The goal that a task of hindsight asks for. */
  const goalOf = (asks: string): WebEpisode["task"]["goal"] => {
    if (asks.startsWith("Click ")) return { page: asks.slice(6), values: {} };
    const fields = asks
      .slice(4)
      .split(", ")
      .map((part) => part.split(" to ") as [string, string]);
    return { page: "sent", values: { [HOME]: Object.fromEntries(fields) } };
  };

  it.each(["change", "page"] as const)("what chance achieves, the verifier accepts (answers: %s)", async (answer) => {
    const kinds = new Set<string>();
    for (let seed = 0; seed < 600; seed++) {
      const families = ["click", "enter", "choose", "scroll", "form"];
      const { env, task } = await start(web, seed, { families, answer });
      const live = env as unknown as GameEnvironment<never, never, never, never>;
      const { episode } = live as unknown as { episode: WebEpisode };
      const rng = new Rng(seed);
      const turns: ShownTurn[] = [];
      for (let done = false, i = 0; !done && i < 12; i++) {
        const action = rng.int(2) === 0 ? web.random(rng, task) : web.novice!(env, rng, i, task).action;
        const result = await env.step(action);
        turns.push({ action, observation: result.observation });
        done = result.done;
      }
      const found = await web.achieved!(task, turns);
      if (found === undefined) continue;
      expect(found.turns).toBe(turns.length);
      const [asks = "", ...page] = found.task.split("\n");
      kinds.add(asks.split(" ")[0]!);
      expect(page).toEqual(task.split("\n").slice(1));
      const other = { ...episode.task, goal: goalOf(asks) };
      let { state } = episode;
      let score: number | undefined;
      for (const { action } of turns) {
        const move = play({ ...episode, task: other, state }, action);
        state = move.state ?? state;
        score = move.ending?.score;
      }
      expect(score, asks).toBe(1);
    }
    expect(kinds).toEqual(new Set(["Click", "Set"]));
  });

  it("an episode that has not ended, or ended elsewhere, is nothing", async () => {
    const links = "Click b\n<a 1 aa>\n<a 2 b>";
    expect(await web.achieved!(links, turnsOf(["click 1", "<p aa>"]))).toEqual({
      task: "Click aa\n<a 1 aa>\n<a 2 b>",
      turns: 1,
    });
    expect(await web.achieved!(links, turnsOf(["click 3", "<p cc>"]))).toBeUndefined();
    expect(await web.achieved!(links, turnsOf(["click 1", "<p aa>"], ["back", "<a 1 aa>"]))).toBeUndefined();
    expect(await web.achieved!(links, [])).toBeUndefined();
    // A link that was scrolled to, and a line that is none.
    const scrolled = turnsOf(["scroll", "<a 3 dd>\n<b 4 ee>"]);
    expect((await web.achieved!(links, [...scrolled, ...turnsOf(["click 3", "<p dd>"])]))!.task).toMatch(/^Click dd\n/);
    expect(await web.achieved!(links, [...scrolled, ...turnsOf(["click 4", "<p ee>"])])).toBeUndefined();
    const form = "Set x to y\n<input 1 x>\n<input 2 z>\n<button 3 send>";
    const sent: [string, string] = ["click 3", "<p sent>"];
    expect(await web.achieved!(form, turnsOf(sent))).toBeUndefined();
    const typed = turnsOf(["type 2 v", "<input 2 z=v>"], ["type 1 w", "<input 1 x=w>"], sent);
    expect((await web.achieved!(form, typed))!.task).toMatch(/^Set z to v, x to w\n</);
    const emptied = turnsOf(["type 2 v", "<input 2 z=v>"], ['type 2 ""', "<input 2 z>"], sent);
    expect(await web.achieved!(form, emptied)).toBeUndefined();
    expect(await web.achieved!(form, turnsOf(["type 2 v", "<input 2 z=v>"], ["click 3", "<p saved>"]))).toBeUndefined();
  });
});

it("no other environment says what was achieved; with faults they still do, and rules have it as the head says", () => {
  const names = Object.values<EnvironmentSpec>(ENVIRONMENTS).flatMap(({ name, achieved }) => (achieved ? [name] : []));
  expect(names.toSorted()).toEqual(["household", "web"]);
  expect(withFaults(web).achieved).toBe(web.achieved);
});
