/** The worker: it imitates an expert in games of its own, then plays and learns at the doors of the page. */
import {
  AdamW,
  byteTokenizer,
  demonstrate,
  device,
  echo,
  grpo,
  initParams,
  modelConfig,
  ppoClip,
  Rng,
} from "worldgrad";
import { schedule, serveAgent, SPECIAL_TOKENS, Template, trainSft } from "worldgrad";
import { Doors } from "./game.ts";

export interface Settings {
  readonly seed: number;
}

const doors = {
  name: "doors",
  description: "find the prize",
  families: [],
  make: () => new Doors(),
  expert: (env: unknown) => (env instanceof Doors ? String((env.low + env.high) >> 1) : ""),
  random: (rng: Rng) => String(1 + rng.int(5)),
};

serveAgent(async ({ seed }: Settings, page) => {
  const on = await device("wasm");
  const rng = new Rng(seed);
  const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
  const { vocabSize } = template.tokenizer;
  const config = modelConfig({ vocabSize, hiddenSize: 32, layers: 2, heads: 4, maxPositions: 64 });
  const model = { config, params: initParams(config, rng.split("init"), on) };
  const optimizer = new AdamW(model.params, { clipNorm: 1 });

  const games = Array.from({ length: 12 }, (_, game) => demonstrate(doors, {}, game, template));
  const demonstrations = await Promise.all(games);
  const lessons = { model, template, optimizer, demonstrations, batchSize: 6, steps: 60, rng: rng.split("sft") };
  for await (const _ of trainSft({ ...lessons, lr: schedule({ lr: 3e-3 }) }));

  return {
    model,
    template,
    optimizer,
    lr: schedule({ lr: 2e-3 }),
    objective: { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean", world: echo({ lambda: 0.05 }) },
    env: page.environment,
    envOptions: {},
    groups: 8,
    groupSize: 8,
    rollout: { maxTurns: 3, maxActionTokens: 2 },
    rng,
  };
});
