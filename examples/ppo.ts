/**
 * PPO with a critic and generalised advantages, for an agent of several turns, on the library's tensors and transformer
 * only. `trainRl` with the method `ppo` computes the same: a test compares the bits (reference executor).
 * The world: eight boxes, each with a digit that never changes. A task names a box, the agent writes a digit, and the
 * world answers `y` or `n` and the right digit. After an `n` there is one more try, for half of the reward.
 * `npx tsx examples/ppo.ts [SEED] [STEPS]` trains without a critic (V = 0) and with one, 100 steps each.
 * Seeds 0 to 9, mean reward without and with it: 0.51 and 0.64 in steps 81 to 100 (+0.14 [0.01, 0.24], bootstrap over
 * seeds; higher in eight), 0.80 and 0.79 in steps 181 to 200. Here the critic helps early, and not in the end.
 */
import { AdamW, add, Decoder, type Device, device, forward, fuse, grad, headValues, initParams } from "../index.ts";
import { initValueHead, mean, type Model, modelConfig, mul, noGrad, outputMatrix, pickHidden } from "../index.ts";
import { Rng, scope, sum, type Tensor, tensor, tokenLogProbs, type TransformerParams } from "../index.ts";
import { valueAndGrad, type ValueHead } from "../index.ts";

// 1. The world, and how an episode becomes tokens: <|task|> box <|end|> <|act|> digit <|end|> <|obs|> answer <|end|> …
const WORDS = [..."<|task|> <|act|> <|obs|> <|end|> <|pad|>".split(" "), ..."abcdefgh01234567ny"];
const [TASK, ACT, OBS, END, PAD] = [0, 1, 2, 3, 4];
const encode = (text: string): number[] => [...text].map((word) => WORDS.indexOf(word));
const randomDigit = (rng: Rng): string => String(rng.int(8));

/** Token ids, and the places of those that the agent wrote; each column has a number for each of these. */
class Episode {
  readonly ids: number[];
  readonly own: number[] = [];
  readonly task: string;
  readonly #action: number[] = [];
  #turn = 0;
  reward = 0;
  value: readonly number[] = []; // the critic's V before the step
  advantage: readonly number[] = [];
  target: readonly number[] = []; // what the critic learns

  constructor(seed: number) {
    this.task = new Rng(seed).choice([..."abcdefgh"]);
    this.ids = [TASK, ...encode(this.task), END, ACT];
  }

  /** The agent's next token. At <|end|> its action is complete and the world answers. @returns whether it is over */
  write(id: number): boolean {
    this.own.push(this.ids.push(id) - 1); // push returns the new length
    if (id !== END) return this.#action.push(id) === 2; // two tokens and no <|end|>: it is over
    const right = randomDigit(new Rng(0).split(this.task)); // split(name): a new stream, fixed by the seed and the name
    const isRight = this.#action.splice(0)[0] === encode(right)[0]; // splice empties the list for the next turn
    this.#turn++;
    if (isRight) this.reward = 1 / this.#turn;
    const isLast = isRight || this.#turn === 2;
    this.ids.push(OBS, ...encode((isRight ? "y" : "n") + right), ...(isLast ? [END] : [END, ACT]));
    return isLast;
  }
}

// 2. Play: all episodes at once, each in a row of one decoder, with random numbers of its own.
async function play(model: Model, episodes: readonly Episode[], rngOf: (row: number) => Rng): Promise<void> {
  const decoder = new Decoder(model, episodes.length, model.config.maxPositions);
  let live = episodes.map((episode, row) => ({ episode, row, rng: rngOf(row), tokens: [...episode.ids] }));
  while (live.length > 0) {
    const drawn = await decoder.draw(live); // each row reads its `tokens`, then draws one more with its `rng`
    live = live.filter((seat, i) => {
      const known = seat.episode.ids.length; // the decoder has read these
      const isOver = seat.episode.write(drawn[i]![0]!.id); // a list, since `draw` can also draw several at once
      seat.tokens = seat.episode.ids.slice(known);
      return !isOver;
    });
  }
  decoder.dispose();
}

// 3. What the model says of the agent's own tokens.
const longestFirst = (a: Episode, b: Episode): number => b.ids.length - a.ids.length; // as `trainRl`: sums round alike

/** Episodes as rows of one array; the N own tokens, each predicted by the hidden state before it; columns [N]. */
function batchOf(episodes: readonly Episode[], on: Device) {
  const rows = episodes.toSorted(longestFirst);
  const T = rows[0]!.ids.length;
  const ids = new Int32Array(rows.length * T).fill(PAD);
  rows.forEach((row, b) => ids.set(row.ids, b * T));
  const ids_BT = tensor(ids, { device: on, shape: [rows.length, T] }); // row, time
  const index = Int32Array.from(rows.flatMap(({ own }, b) => own.map((t) => b * T + t - 1)));
  const next = index.map((at) => ids[at + 1]!);
  const column = (of: (row: Episode) => readonly number[]): Tensor =>
    tensor(Float64Array.from(rows.flatMap(of)), { device: on, dtype: on.float });
  return { ids_BT, index, targets: tensor(next, { device: on }), column };
}

type Agent = Awaited<ReturnType<typeof warmStart>>;
type Trained = { readonly policy: TransformerParams; readonly critic: ValueHead };
/** Log-probabilities and values of the own tokens, [N] each. A value is read before its token is written. */
function read({ policy, critic }: Trained, { config }: Model, batch: ReturnType<typeof batchOf>): [Tensor, Tensor] {
  const hidden_NC = pickHidden(forward(policy, config, batch.ids_BT), batch.index);
  return [tokenLogProbs(hidden_NC, outputMatrix(policy), batch.targets).logProbs, headValues(critic, hidden_NC)];
}

// 4. Advantages: GAE (arXiv 1506.02438, eq. 16), backwards over the agent's own tokens.
/** δ_t = r_t + γV_{t+1} − V_t, A_t = δ_t + γλA_{t+1}, the critic's target A_t + V_t; then A to mean 0, deviation 1. */
function estimate(episodes: readonly Episode[], gamma = 1, lambda = 0.95): void {
  for (const episode of episodes) {
    const { own, value, reward } = episode;
    const advantage = own.map(() => 0);
    for (let k = own.length - 1, next = 0; k >= 0; k--) {
      const r = k === own.length - 1 ? reward : 0; // only the last action is paid, at its last token
      advantage[k] = next = r + gamma * (value[k + 1] ?? 0) - value[k]! + gamma * lambda * next;
    }
    episode.advantage = advantage;
    episode.target = advantage.map((a, k) => a + value[k]!);
  }
  const all = episodes.flatMap(({ advantage }) => advantage);
  const centre = all.reduce((a, b) => a + b, 0) / all.length;
  const std = Math.sqrt(all.reduce((a, b) => a + (b - centre) ** 2, 0) / (all.length - 1));
  const scale = 1 / Math.sqrt(std * std + 1e-8);
  for (const episode of episodes) episode.advantage = episode.advantage.map((a) => (a - centre) * scale);
}

// 5. The loss, its gradient, the update.
/** −min(ρA, clip(ρ, 0.8, 1.2)·A) (PPO, arXiv 1707.06347, eq. 7); ρ = e^(lp − old): p now / p before the step. */
const clipped = fuse("clipped", (lp, old, advantage) => {
  const ratio = lp.sub(old).exp();
  return ratio.mul(advantage).min(ratio.clamp(0.8, 1.2).mul(advantage)).neg();
});
/** ½·max((V − R)², (clip(V, V_old ± 0.2) − R)²): the critic's loss, clipped as in the OpenAI baselines. */
const clippedValue = fuse("clippedValue", (V, old, R) => {
  const near = V.clamp(old.sub(0.2), old.add(0.2));
  return V.sub(R).square().max(near.sub(R).square()).mul(0.5);
});
type StepOptions = Readonly<Record<"episodes" | "passes" | "valueWeight" | "lr", number>>;
/** A pass over the episodes; both losses are means over all own tokens. @param before log p and V before the first */
async function update(agent: Agent, episodes: readonly Episode[], before: [Tensor, Tensor], options: StepOptions) {
  const { model, critic, optimizer, criticOptimizer } = agent;
  const { valueWeight, lr } = options;
  const losses = scope(() => {
    const batch = batchOf(episodes, critic.bias.device);
    const [advantage, target] = [batch.column((row) => row.advantage), batch.column((row) => row.target)];
    const { aux, grads } = valueAndGrad((trained: Trained) => {
      const [logProbs, values] = read(trained, model, batch);
      const policyLoss = sum(mul(clipped(logProbs, before[0], advantage), 1 / batch.index.length));
      const valueLoss = sum(mul(clippedValue(values, before[1], target), (1 / batch.index.length) * valueWeight));
      return [add(policyLoss, valueLoss), [policyLoss, valueLoss]];
    })({ policy: model.params, critic });
    optimizer.step(grads.policy, lr);
    criticOptimizer.step(grads.critic, lr);
    return aux; // everything else that was made here is freed
  });
  const [policyLoss, valueLoss] = await Promise.all(losses.map(async (loss) => loss.item()));
  for (const loss of losses) loss.dispose();
  return { policyLoss: policyLoss!, valueLoss: valueLoss! };
}

type Report = Readonly<Record<"reward" | "policyLoss" | "valueLoss", number>>; // losses of the first pass
export async function step(agent: Agent, rng: Rng, options: StepOptions): Promise<Report> {
  const { model, critic } = agent;
  const streamOf = (what: string, n: number): Rng => rng.split(what).split(n); // `rng`: all randomness of the step
  const newEpisode = (_: unknown, n: number): Episode => new Episode(streamOf("task", n).int(2 ** 31));
  const episodes = Array.from({ length: options.episodes }, newEpisode);
  await play(model, episodes, (n) => streamOf("episode", n));
  const trained = { policy: model.params, critic };
  const before = scope(() => noGrad(() => read(trained, model, batchOf(episodes, critic.bias.device))));
  const values = [...(await before[1].read())];
  for (const row of episodes.toSorted(longestFirst)) row.value = values.splice(0, row.own.length);
  estimate(episodes);
  const losses = [await update(agent, episodes, before, options)];
  for (let n = 1; n < options.passes; n++) losses.push(await update(agent, episodes, before, options));
  for (const x of before) x.dispose();
  return { reward: episodes.reduce((total, { reward }) => total + reward, 0) / episodes.length, ...losses[0]! };
}

/** A model that has imitated players who guess: it knows how an action is written, and nothing of the boxes. */
async function warmStart(on: Device, seed: number) {
  const config = modelConfig({ vocabSize: WORDS.length, hiddenSize: 32, layers: 2, heads: 4, maxPositions: 32 });
  const model: Model = { config, params: initParams(config, new Rng(seed).split("init"), on) };
  const optimizer: AdamW<TransformerParams> = new AdamW(model.params, { clipNorm: 1 }); // weight decay 0.01
  const critic = initValueHead(config, on);
  const criticOptimizer = new AdamW(critic, { clipNorm: 1 });
  for (let n = 0; n < 40; n++) {
    const rng = new Rng(seed).split("guesses").split(n);
    const guesses = Array.from({ length: 16 }, (_, i) => new Episode(rng.split(i).int(2 ** 31)));
    for (const guess of guesses) for (const id of [...encode(randomDigit(rng)), END]) guess.write(id);
    scope(() => {
      const batch = batchOf(guesses, on);
      const lossOf = (p: TransformerParams): Tensor => mul(mean(read({ policy: p, critic }, model, batch)[0]), -1);
      optimizer.step(grad(lossOf)(model.params), 3e-3);
    });
  }
  return { model, critic, optimizer, criticOptimizer };
}

if (import.meta.url === new URL(`file://${process.argv[1]}`).href) {
  const [seed = 0, steps = 100] = process.argv.slice(2).map(Number);
  const size = { episodes: 64, passes: 2, lr: 2e-3 };
  for (const valueWeight of [0, 0.1]) {
    const agent = await warmStart(await device("wasm"), seed);
    const rewards: number[] = [];
    for (let n = 1; n <= steps; n++) {
      rewards.push((await step(agent, new Rng(seed + 1).split(n), { ...size, valueWeight })).reward);
      const mean20 = rewards.slice(-20).reduce((a, b) => a + b) / 20;
      if (n % 20 === 0)
        console.log(`value weight ${valueWeight}, steps ${n - 19} to ${n}: mean reward ${mean20.toFixed(2)}`);
    }
  }
}
