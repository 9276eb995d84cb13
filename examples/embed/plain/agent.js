// The worker: the agent, its world, and how it learns. examples/own-environment.ts explains this game line by line.
import * as w from "../../../dist/worldgrad.min.js";

class Guess extends w.SingleUseEnvironment {
  name = "guess";
  low = 1;
  high = 5;
  turns = 0;

  begin(seed) {
    this.secret = 1 + new w.Rng(seed).int(5);
    return "1-5?";
  }

  act(action) {
    const guess = /^[1-5]$/.test(action) ? Number(action) : undefined;
    const success = guess === this.secret;
    const done = success || ++this.turns === 3;
    if (guess < this.secret) this.low = Math.max(this.low, guess + 1);
    if (guess > this.secret) this.high = Math.min(this.high, guess - 1);
    const answer = guess === undefined ? "a digit!" : success ? "yes" : guess < this.secret ? "higher" : "lower";
    return { observation: answer, reward: success ? 1 - 0.2 * this.turns : 0, done, info: { success } };
  }
}

const env = {
  name: "guess",
  description: "guess a number",
  families: [],
  make: () => new Guess(),
  expert: ({ low, high }) => String((low + high) >> 1),
  random: (rng) => String(1 + rng.int(5)),
};

w.serveAgent(async ({ seed }) => {
  const on = await w.device("wasm");
  const rng = new w.Rng(seed);
  const template = new w.Template(w.byteTokenizer({ specials: w.SPECIAL_TOKENS }));
  const { vocabSize } = template.tokenizer;
  const config = w.modelConfig({ vocabSize, hiddenSize: 32, layers: 2, heads: 4, maxPositions: 64 });
  const model = { config, params: w.initParams(config, rng.split("init"), on) };
  const optimizer = new w.AdamW(model.params, { clipNorm: 1 });

  const games = Array.from({ length: 12 }, (_, game) => w.demonstrate(env, {}, game, template));
  const demonstrations = await Promise.all(games);
  const lessons = { model, template, optimizer, demonstrations, batchSize: 6, steps: 60, rng: rng.split("sft") };
  for await (const _ of w.trainSft({ ...lessons, lr: w.schedule({ lr: 3e-3 }) }));

  return {
    model,
    template,
    optimizer,
    lr: w.schedule({ lr: 2e-3 }),
    objective: {
      advantage: w.grpo(),
      policyLoss: w.ppoClip(),
      aggregation: "token-mean",
      world: w.echo({ lambda: 0.05 }),
    },
    env,
    envOptions: {},
    groups: 8,
    groupSize: 8,
    rollout: { maxTurns: 3, maxActionTokens: 2 },
    rng,
  };
});
