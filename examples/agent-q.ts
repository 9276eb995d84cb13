/**
 * Agent Q: a policy learns from its own searches. There are three doors in a row, each with a sign. One of four keys
 * fits, a wrong one ends the game, and only the last door pays. The policy knows only that keys are letters. It tries
 * several keys from every point, in clones of the game, and learns to prefer what led further, with three seeds.
 */
import { AdamW, byteTokenizer, device, evaluate, initParams, modelConfig, playScripted, Rng } from "../index.ts";
import { type EnvironmentSpec, SingleUseEnvironment, SPECIAL_TOKENS, type StepResult } from "../index.ts";
import { Template, trainAgentQ, trainSft } from "../index.ts";

const SIGNS = "wxyz";
const KEYS = "cadb"; // the key for each sign; no player is told

class Doors extends SingleUseEnvironment {
  readonly name = "doors";
  signs = "";
  passed = 0;

  protected begin(seed: number): string {
    const rng = new Rng(seed);
    this.signs = Array.from({ length: 3 }, () => rng.choice([...SIGNS])).join("");
    return this.signs[0]!;
  }

  protected act(action: string): StepResult {
    const opens = action === KEYS[SIGNS.indexOf(this.signs[this.passed]!)];
    const success = (this.passed += Number(opens)) === 3;
    const observation = opens ? (this.signs[this.passed] ?? "won") : "lost";
    return { observation, reward: Number(success), done: !opens || success, info: { success } };
  }

  /** A copy of the game: a search tries several actions from one point, each in a copy. */
  clone(): Doors {
    const copy = new Doors();
    copy.resumeFrom(this);
    [copy.signs, copy.passed] = [this.signs, this.passed];
    return copy;
  }
}

const doors: EnvironmentSpec = {
  name: "doors",
  description: "three doors, four keys",
  families: [],
  make: () => new Doors(),
  expert: (env) => (env instanceof Doors ? KEYS[SIGNS.indexOf(env.signs[env.passed]!)]! : ""),
  random: (rng) => rng.choice([..."abcd"]),
};

const on = await device("wasm");
const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
const { vocabSize } = template.tokenizer;
const config = modelConfig({ vocabSize, hiddenSize: 32, layers: 2, heads: 4, maxPositions: 48 });

for (const seed of [1, 2, 3]) {
  const rng = new Rng(seed);
  const model = { config, params: initParams(config, rng.split("init"), on) };
  const learner = { model, template, optimizer: new AdamW(model.params, { clipNorm: 1 }), lr: () => 3e-3 };
  const limits = { maxTurns: 3, maxActionTokens: 3 };
  async function wonGames(): Promise<string> {
    const games = { env: doors, envOptions: {}, seeds: [...Array(100).keys()], rng: new Rng(0) };
    const { successes } = await evaluate({ model, template, ...games, rollout: limits });
    return `${successes} of 100 games won`;
  }

  const novice = (i: number) =>
    playScripted(doors, {}, i, template, (_, turn) => doors.random(rng.split(i).split(turn)));
  const demonstrations = await Promise.all([...Array(40).keys()].map(novice));
  for await (const _ of trainSft({ ...learner, demonstrations, batchSize: 8, steps: 120, rng: rng.split("sft") }));
  console.log(`seed ${seed}, after watching somebody who knows nothing: ${await wonGames()}`);

  const search = { candidates: 8, iterations: 80, parallel: 4, exploration: 0.5, maxTurns: 3 };
  const task = { env: doors, envOptions: {}, tasks: 24, iterations: 8, search };
  // The default loss, IPO with imitation, asks for a margin and no more. Plain DPO would push both keys towards 0.
  const learning = { steps: 40, batchSize: 16 };
  const actor = { maxActionTokens: 3, temperature: 1.2 };
  for await (const { iteration, metrics } of trainAgentQ({ ...learner, ...task, ...learning, actor, rng })) {
    console.log(`  ${iteration}: ${metrics["pairs"]} pairs, a simulation earns ${metrics["search/value"]!.toFixed(2)}`);
  }
  console.log(`seed ${seed}, after Agent Q: ${await wonGames()}`);
}
