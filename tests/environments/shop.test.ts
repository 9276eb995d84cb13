/** `shop`: the contract of games, the match score by hand, and every purchase that can be made. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import { SIZED } from "../../environments/game.ts";
import { settleOptions } from "../../environments/options.ts";
import { type Goal, KINDS, matchScore, type Product } from "../../environments/shop/catalogue.ts";
import { shop } from "../../environments/shop/index.ts";
import { FAMILIES } from "../../environments/shop/episode.ts";
import { makeTask } from "../../environments/shop/rules.ts";
import { play, SPLITS, start, testGame } from "./suite.ts";

describe("shop", () => {
  testGame(shop, { verbs: ["search", "next", "open", "choose", "buy"], luck: 0.08, ends: /^buy/ });
});

describe("the match score", () => {
  const goal: Goal = {
    maker: "lomika",
    kind: "shirt",
    attributes: ["soft", "warm"],
    options: { color: "red", size: "small" },
    limit: 30,
  };
  const product: Product = {
    maker: "lomika",
    kind: "shirt",
    price: 30,
    attributes: ["soft", "warm"],
    options: { color: ["red", "blue"], size: ["small", "large"] },
  };
  const chosen = { color: "red", size: "small" };

  // Six parts are asked for: maker, two attributes, two options, price.
  const cases: [string, Partial<Product>, Record<string, string>, number][] = [
    ["all as asked", {}, chosen, 1],
    ["too expensive by a dollar", { price: 31 }, chosen, 5 / 6],
    ["one attribute missing", { attributes: ["soft", "thin"] }, chosen, 5 / 6],
    ["more attributes than asked", { attributes: ["soft", "warm", "thin"] }, chosen, 1],
    ["another maker", { maker: "tekaru" }, chosen, 5 / 6],
    ["wrong color", {}, { color: "blue", size: "small" }, 5 / 6],
    ["values of the wrong options", {}, { color: "small", size: "red" }, 4 / 6],
    ["nothing chosen", {}, {}, 4 / 6],
    ["another kind of the department", { kind: "coat" }, chosen, 1 / 2],
    ["another department", { kind: "mug" }, chosen, 0],
    ["all wrong but the kind", { maker: "tekaru", price: 99, attributes: [] }, {}, 0],
  ];
  it.each(cases)("%s", (_, change, choice, score) => {
    expect(matchScore({ ...product, ...change }, choice, goal)).toBeCloseTo(score, 12);
  });

  it("is 1 for no price limit, and for nothing else asked the maker and the price are all", () => {
    const plain: Goal = { maker: "lomika", kind: "shirt", attributes: [], options: {}, limit: undefined };
    expect(matchScore(product, {}, plain)).toBe(1);
    expect(matchScore({ ...product, maker: "tekaru" }, {}, plain)).toBe(0.5);
  });
});

/** All choices of options of a product, none chosen included. */
function choicesOf({ options }: Product): Record<string, string>[] {
  return Object.entries(options).reduce<Record<string, string>[]>(
    (all, [name, values]) => all.flatMap((one) => [one, ...values.map((value) => ({ ...one, [name]: value }))]),
    [{}],
  );
}

describe.each(FAMILIES)("$name", (family) => {
  it("exactly one purchase of all that are possible is worth 1, and it is what the text asks for", () => {
    for (const split of SPLITS)
      for (let seed = 0; seed < 60; seed++) {
        const options = settleOptions("shop", SIZED, { split });
        const { goal, products, text } = makeTask(new Rng(seed).split("test"), family, options);
        const perfect = products.flatMap((product) =>
          choicesOf(product)
            .filter((chosen) => matchScore(product, chosen, goal) === 1)
            .map((chosen) => ({ product, chosen })),
        );
        expect(perfect.length, text).toBe(1);
        const { product, chosen } = perfect[0]!;
        const wishes = text.split(": ")[1]?.split(", ") ?? [];
        expect(text.split(": ")[0]!.endsWith(`a ${product.maker} ${product.kind}`)).toBe(true);
        for (const wish of wishes) {
          const limit = /^at most \$(\d+)$/.exec(wish)?.[1];
          if (limit !== undefined) expect(product.price).toBeLessThanOrEqual(Number(limit));
          else expect([...product.attributes, ...Object.values(chosen)]).toContain(wish);
        }
        expect(wishes.length).toBe(family.attributes + family.options.length + (family.limit ? 1 : 0));
        const [least] = family.nearMisses;
        const near = products.filter(({ maker, kind }) => maker === goal.maker && kind === goal.kind);
        expect(near.length).toBeGreaterThan(least);
        expect(new Set(products.map(({ price }) => price)).size).toBe(products.length);
      }
  });
});

describe("the episode", () => {
  it("pays the score, or only for all that is asked", async () => {
    for (const reward of ["score", "success"] as const) {
      const { env, task } = await start(shop, 3, { families: ["color"], reward });
      await env.step(shop.expert!(env));
      await env.step(shop.expert!(env));
      const bought = await env.step("buy"); // no color chosen: the maker and the price, of three
      expect(bought.info, task).toMatchObject({ success: false, ending: "buy" });
      expect(bought.info["score"]).toBeCloseTo(2 / 3, 12);
      expect(bought.reward).toBeCloseTo(reward === "score" ? 2 / 3 : 0, 12);
    }
    const { env } = await start(shop, 3, { reward: "success" });
    expect((await play(env, () => shop.expert!(env))).total).toBe(1);
    expect(() => shop.make({ reward: "sparse" as "score" })).toThrow('reward must be "score" or "success"');
  });

  it("tells what is wrong with an action", async () => {
    const { env } = await start(shop, 0, { families: ["find"] });
    const answers: [string, string][] = [
      ["buy", "no product is open"],
      ["choose red", "no product is open"],
      ["open 1", "no such result"],
      ["next", "no results"],
      ["search zebra", "no results"],
      ["open", "open what?"],
      ["buy now", "unknown action; use search, next, open, choose or buy"],
    ];
    for (const [action, observation] of answers) expect((await env.step(action)).observation).toBe(observation);
    await env.step(shop.expert!(env));
    await env.step("open 1");
    expect((await env.step("choose red")).observation).toBe("no such option");
  });

  it("lists three products at a time, and opens only what was listed", async () => {
    const { env } = await start(shop, 0);
    const first = (await env.step(`search ${KINDS.join(" ")}`)).observation.split("\n");
    expect(first.map((line) => line[0])).toEqual(["1", "2", "3"]);
    expect((await env.step("open 4")).observation).toBe("no such result");
    expect((await env.step("next")).observation).toMatch(/^4 /);
    expect((await env.step("open 4")).info).toMatchObject({ toolErrors: 1 });
    for (let i = 0; i < 9; i++) await env.step("next");
    expect((await env.step("next")).observation).toBe("no more results");
  });

  it("forgets what was chosen when another page is opened", async () => {
    const { env } = await start(shop, 1, { families: ["color"] });
    while (shop.expert!(env) !== "buy") await env.step(shop.expert!(env));
    await env.step("open 1");
    expect(shop.expert!(env)).toMatch(/^choose /);
  });
});
