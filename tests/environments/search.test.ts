/**
 * `search`: the contract of games, answers worked out a second time from the words of the question, and the ranking.
 */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { SIZED } from "../../environments/game.ts";
import { settleOptions } from "../../environments/options.ts";
import { Ranking } from "../../environments/ranking.ts";
import { pageText, RELATIONS, type Corpus } from "../../environments/search/corpus.ts";
import { search } from "../../environments/search/index.ts";
import { FAMILIES, type SearchTask } from "../../environments/search/episode.ts";
import { makeTask } from "../../environments/search/rules.ts";
import { SPLITS, start, testGame } from "./suite.ts";

describe("search", () => {
  testGame(search, { verbs: ["search", "open", "answer"], luck: 0.01, ends: /^answer/ });
});

/** What a noun phrase stands for, by reading it: every name that the pages allow. */
function meaning(phrase: string, corpus: Corpus): string[] {
  const relation = (name: string, title: string): string[] => {
    const value = corpus.pages.find((page) => page.title === title)?.facts.get(name);
    return value === undefined ? [] : [value];
  };
  const compared = /^(older|younger) of (\w+) and (\w+)$/.exec(phrase);
  if (compared) {
    const [, which, ...people] = compared;
    const byAge = people.sort((a, b) => Number(relation("year", a)[0]) - Number(relation("year", b)[0]));
    return [byAge.at(which === "older" ? 0 : 1)!];
  }
  const described = /^(\w+) with (\w+) (\w+)(?: and (\w+) (\w+))?$/.exec(phrase);
  if (described) {
    const [, kind, a, x, b, y] = described;
    const found = corpus.pages.filter(({ facts }) => facts.get(a!) === x && (b === undefined || facts.get(b) === y));
    return found.filter((page) => page.kind === kind).map(({ title }) => title);
  }
  const nested = /^(\w+) of (?:the )?(.+)$/.exec(phrase);
  return nested ? meaning(nested[2]!, corpus).flatMap((title) => relation(nested[1]!, title)) : [phrase];
}

const taskOf = (family: string, seed: number, split: "train" | "heldout" = "train"): SearchTask =>
  makeTask(
    new Rng(seed).split("test"),
    FAMILIES.find(({ name }) => name === family)!,
    settleOptions("search", SIZED, { split }),
  );

describe.each(FAMILIES)("$name", ({ name }) => {
  it("has exactly one answer, which the question does not tell", () => {
    for (const split of SPLITS)
      for (let seed = 0; seed < 100; seed++) {
        const { text, answer, corpus } = taskOf(name, seed, split);
        expect(meaning(text.replace(/^(Name|Find) the /, ""), corpus), text).toEqual([answer]);
        expect(text.split(" ")).not.toContain(answer);
      }
  });

  it("takes no other answer", async () => {
    for (let seed = 0; seed < 20; seed++) {
      const { env, task } = await start(search, seed, { families: [name] });
      while (!search.expert!(env).startsWith("answer")) await env.step(search.expert!(env));
      const right = search.expert!(env).replace("answer ", "");
      for (const wrong of [`${right}x`, right.slice(1), `${right} ${right}`, `${right}, lomika`, task, "0", "*"]) {
        const { reward, done } = await env.clone!().step(`answer ${wrong}`);
        expect([reward, done], `${task} — ${wrong}`).toEqual([0, true]);
      }
      for (const same of [right.toUpperCase(), ` ${right}  `, `${right}.`])
        expect((await env.clone!().step(`ANSWER ${same}`)).reward).toBe(1);
    }
  });
});

describe("cite", () => {
  it("wants the relation before the value, as the last page of the path has both, and else nothing more", async () => {
    for (const { name } of FAMILIES)
      for (let seed = 0; seed < 20; seed++) {
        const { env } = await start(search, seed, { families: [name], cite: true });
        const { env: plain } = await start(search, seed, { families: [name] });
        let page = "";
        while (!search.expert!(env).startsWith("answer")) {
          page = (await env.step(search.expert!(env))).observation;
          await plain.step(search.expert!(plain));
        }
        const [cited, answer] = [search.expert!(env), search.expert!(plain)].map((said) => said.replace("answer ", ""));
        const isName = ["reverse", "both"].includes(name);
        expect(cited!.split(" ").at(-1)).toBe(answer);
        expect(cited!.split(" ").length).toBe(isName ? 1 : 2);
        if (name !== "older") expect(page).toContain(cited);
        expect((await env.clone!().step(`answer ${answer!}`)).reward).toBe(isName ? 1 : 0);
        expect((await env.step(`answer ${cited!}`)).reward).toBe(1);
      }
  });
});

describe("families", () => {
  it("that ask for what another page says cannot be answered from the first page", () => {
    for (const name of ["bridge", "chain", "junction", "elder"])
      for (let seed = 0; seed < 100; seed++) {
        const { corpus, hops, answer } = taskOf(name, seed);
        expect(hops.length).toBeGreaterThan(1);
        for (const { title } of hops.slice(0, -1)) expect(title).not.toBe(answer);
        expect(pageText(corpus.page(hops.at(-1)!.title)).split(/[ ,:]+/)).toContain(answer);
      }
  });

  it("older and elder: the wrong person leads to a wrong answer", () => {
    for (let seed = 0; seed < 100; seed++) {
      const { text, answer, corpus } = taskOf("older", seed);
      const swapped = text.replace(/older|younger/, (word) => (word === "older" ? "younger" : "older"));
      expect(meaning(swapped.replace(/^(Name|Find) the /, ""), corpus)).not.toEqual([answer]);
    }
  });

  it("pages state each relation of their kind once, and nobody teaches himself", () => {
    const { corpus } = taskOf("fact", 0);
    for (const { title, kind, facts } of corpus.pages) {
      expect([...facts.keys()]).toEqual(RELATIONS.filter(({ of }) => of === kind).map(({ name }) => name));
      expect([...facts.values()]).not.toContain(title);
    }
  });
});

describe("the episode", () => {
  it("tells what is wrong with an action", async () => {
    const { env } = await start(search, 0);
    const answers: [string, string][] = [
      ["search", "search what?"],
      ["answer  ", "answer what?"],
      ["open 1", "no such result"],
      ["search person", ""],
      ["open first", "no such result"],
      ["open 0", "no such result"],
      ["open 4", "no such result"],
      ["search zebra", "no results"],
      ["open 1", "no such result"],
    ];
    for (const [action, observation] of answers) {
      const result = await env.step(action);
      if (observation !== "") expect(result.observation, action).toBe(observation);
      else expect(result.observation.split("\n").length).toBe(3);
    }
  });
});

describe("Ranking", () => {
  it("is BM25: two documents, worked out by hand", () => {
    // "mug" is in both: idf = ln(1 + .5/2.5) = .1823; "red" in one: ln(1 + 1.5/1.5) = .6931. Mean length 2.
    // "red mug": (.1823 + .6931)·1·2.2/(1 + 1.2·1) = .8755; "mug mug": .1823·2·2.2/(2 + 1.2) = .2507.
    const ranking = new Ranking(["mug mug", "red mug"]);
    expect(ranking.rank("red mug")).toEqual([1, 0]);
    expect(ranking.rank("mug")).toEqual([0, 1]); // .2507 against .1823
  });

  it("prefers rare words, shorter texts, and the order of the texts; leaves out what holds no word", () => {
    expect(new Ranking(["a b", "a c", "a d", "x"]).rank("a d")).toEqual([2, 0, 1]);
    expect(new Ranking(["a b c d e", "a b"]).rank("a")).toEqual([1, 0]);
    expect(new Ranking(["b a", "a b"]).rank("A?")).toEqual([0, 1]);
    expect(new Ranking(["a", "b"]).rank("")).toEqual([]);
  });

  it("looks at a limited number of words", () => {
    const many = Array.from({ length: 1_000 }, (_, i) => `w${i}`).join(" ");
    expect(new Ranking(["a", "b"]).rank(`${many} a`)).toEqual([]);
  });
});
