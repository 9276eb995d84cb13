/**
 * Your own environment, and an agent that learns in it: it guesses a number from 1 to 5 in three turns, and the world
 * answers "higher" or "lower". A transformer with random weights sees twelve games of an expert, then plays by itself:
 * GRPO teaches it to win, and ECHO (a loss on the world's answers) to predict what the world will say.
 * `npx tsx examples/own-environment.ts`
 *
 * In a program of your own the imports come from "worldgrad".
 */
import { AdamW, byteTokenizer, demonstrate, device, initParams, modelConfig, Rng, schedule } from "../index.ts";
import { echo, type EnvironmentSpec, evaluate, grpo, ppoClip, SingleUseEnvironment } from "../index.ts";
import { SPECIAL_TOKENS, type StepResult, Template, trainRl, trainSft, worldModelLoss } from "../index.ts";

/** One game: text in, text out. The base class makes sure that a game is used once. */
class Guess extends SingleUseEnvironment {
  readonly name = "guess";
  secret = 0;
  low = 1;
  high = 5;
  turns = 0;

  protected begin(seed: number): string {
    this.secret = 1 + new Rng(seed).int(5);
    return "1-5?";
  }

  protected act(action: string): StepResult {
    const guess = /^[1-5]$/.test(action) ? Number(action) : undefined;
    const success = guess === this.secret;
    const done = success || ++this.turns === 3;
    if (guess !== undefined && guess < this.secret) this.low = Math.max(this.low, guess + 1);
    if (guess !== undefined && guess > this.secret) this.high = Math.min(this.high, guess - 1);
    // A bad action throws no exception: the world answers what is wrong with it.
    const answer = guess === undefined ? "a digit!" : success ? "yes" : guess < this.secret ? "higher" : "lower";
    return { observation: answer, reward: success ? 1 - 0.2 * this.turns : 0, done, info: { success } };
  }
}

const guess: EnvironmentSpec = {
  name: "guess",
  description: "guess a number",
  families: [],
  make: () => new Guess(),
  // The expert, for the warm start, may look inside; the player to compare with looks at nothing.
  expert: (env) => (env instanceof Guess ? String((env.low + env.high) >> 1) : ""),
  random: (rng) => String(1 + rng.int(5)),
};

const on = await device("wasm");
const rng = new Rng(1);
const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS })); // how an episode becomes tokens
const vocabSize = template.tokenizer.vocabSize;
const config = modelConfig({ vocabSize, hiddenSize: 32, layers: 2, heads: 4, maxPositions: 64 });
const model = { config, params: initParams(config, rng.split("init"), on) };
const learner = { model, template, optimizer: new AdamW(model.params, { clipNorm: 1 }), lr: schedule({ lr: 3e-3 }) };
const play = { env: guess, envOptions: {}, rollout: { maxTurns: 3, maxActionTokens: 2 } };

const games = [...Array(12).keys()];
const demonstrations = await Promise.all(games.map((seed) => demonstrate(guess, {}, seed, template)));
async function report(when: string): Promise<void> {
  const seeds = Array.from({ length: 60 }, (_, i) => 1000 + i); // the demonstrations have other seeds
  const { successes, episodes, meanTurns } = await evaluate({ model, template, ...play, seeds, rng });
  const world = (await worldModelLoss(model, template, demonstrations)).toFixed(2);
  console.log(
    `${when}: won ${successes} of ${episodes}, ${meanTurns.toFixed(1)} turns; world-model loss ${world} nats`,
  );
}

for await (const _ of trainSft({ ...learner, demonstrations, batchSize: 6, steps: 60, rng: rng.split("sft") }));
await report("after the demonstrations");
const world = echo({ lambda: 0.05 });
const objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean", world } as const;
const task = { ...play, groups: 8, groupSize: 8, steps: 80 };
const rewards: number[] = [];
for await (const { metrics } of trainRl({ ...learner, ...task, objective, lr: schedule({ lr: 2e-3 }), rng })) {
  if (rewards.push(metrics["reward"]!) % 20 > 0) continue;
  console.log(`step ${rewards.length}: mean reward ${(rewards.slice(-20).reduce((a, b) => a + b) / 20).toFixed(2)}`);
}
await report("after GRPO with ECHO");
