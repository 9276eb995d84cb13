/**
 * GSPO for an agent of several turns, on the library's tensors and transformer only: GRPO with one ratio for a whole
 * episode. `trainRl` with the method `gspo` computes the same: a test compares losses and parameters.
 * The world: eight boxes, each with a digit that never changes. A task names a box, the agent writes a digit, and the
 * world answers `y` or `n` and the right digit. After an `n` there is one more try, for half of the reward.
 * `npx tsx examples/gspo.ts [SEED] [STEPS]` trains with a ratio per token and with one per episode, 100 steps each.
 * Seeds 0 to 9, mean reward per token and per episode: 0.54 and 0.43 in steps 81 to 100 (−0.11 [−0.19, −0.03], lower in
 * eight), 0.72 and 0.70 in steps 181 to 200. GSPO is slower here, and about as good in the end.
 */
import { AdamW, Decoder, type Device, device, exp, forward, fuse, initParams, mean, type Model } from "../index.ts";
import { modelConfig, mul, noGrad, outputMatrix, pickHidden, Rng, scatterAdd, scope, sub, sum } from "../index.ts";
import { type Tensor, tensor, tokenLogProbs, type TransformerParams, valueAndGrad } from "../index.ts";

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
  readonly group: number;
  readonly #action: number[] = [];
  #turn = 0;
  reward = 0;
  advantage = 0;

  constructor(group: number, seed: number) {
    this.group = group;
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
  const column = (of: (row: Episode, b: number) => readonly number[]): Tensor =>
    tensor(Float64Array.from(rows.flatMap(of)), { device: on, dtype: on.float });
  return { rows, ids_BT, index, targets: tensor(next, { device: on }), column };
}

type Batch = ReturnType<typeof batchOf>;
type Agent = { readonly model: Model; readonly optimizer: AdamW<TransformerParams> };
/** Log-probabilities of the own tokens, [N]. */
function read(params: TransformerParams, { config }: Model, batch: Batch): Tensor {
  const hidden_NC = pickHidden(forward(params, config, batch.ids_BT), batch.index);
  return tokenLogProbs(hidden_NC, outputMatrix(params), batch.targets).logProbs;
}

type LossOf = (logProbs: Tensor, batch: Batch) => Tensor;
/** One step of the optimiser. @returns the loss before it */
async function update({ model, optimizer }: Agent, episodes: readonly Episode[], lossOf: LossOf, lr: number) {
  const { params } = model;
  const loss = scope(() => {
    const batch = batchOf(episodes, params.embedding.device);
    const { value, grads } = valueAndGrad((p: TransformerParams) => lossOf(read(p, model, batch), batch))(params);
    optimizer.step(grads, lr);
    return value; // everything else that was made here is freed
  });
  const number = await loss.item();
  loss.dispose();
  return number;
}

// 4. What a return is compared with.
/** GRPO (arXiv 2402.03300): A = (R − mean) / (std + 1e-4) within the group, where std divides by n − 1. */
function estimate(episodes: readonly Episode[]): void {
  for (const episode of episodes) {
    const rewards = episodes.filter(({ group }) => group === episode.group).map(({ reward }) => reward);
    const centre = rewards.reduce((a, b) => a + b, 0) / rewards.length;
    const std = Math.sqrt(rewards.reduce((a, b) => a + (b - centre) ** 2, 0) / (rewards.length - 1));
    const isFlat = Math.max(...rewards) === Math.min(...rewards); // then A is 0; a rounding error / 1e-4 would not be
    episode.advantage = isFlat ? 0 : (episode.reward - centre) / (std + 1e-4);
  }
}

// 5. The losses.
/** −min(ρA, clip(ρ, 1 − εl, 1 + εh)·A), PPO's clip (arXiv 1707.06347, eq. 7). */
const clipped = fuse("clipped", (ratio, advantage, low, high) =>
  ratio.mul(advantage).min(ratio.clamp(low, high).mul(advantage)).neg(),
);

/** GSPO (arXiv 2507.18071, eq. 5 to 7): s = e^(mean of lp − old over an episode's tokens), a mean over episodes. */
export function sequenceLoss(logProbs: Tensor, old: Tensor, { rows, column }: Batch): Tensor {
  const { device: on } = logProbs;
  const share = column(({ own }) => own.map(() => 1 / own.length));
  const row = Int32Array.from(rows.flatMap(({ own }, b) => own.map(() => b)));
  const ratio = exp(scatterAdd(mul(share, sub(logProbs, old)), tensor(row, { device: on }), rows.length)); // [rows]
  const advantage = tensor(
    Float64Array.from(rows, (episode) => episode.advantage),
    { device: on, dtype: on.float },
  );
  return mean(clipped(ratio, advantage, 1 - 3e-4, 1 + 4e-4)); // its clip is far narrower than that of a token's ratio
}

/** The control, GRPO's: ρ = e^(lp − old) token by token, the mean over an episode's own tokens, then over episodes. */
function tokenLoss(logProbs: Tensor, old: Tensor, { rows, column }: Batch): Tensor {
  const weight = column(({ own }) => own.map(() => 1 / (rows.length * own.length)));
  const advantage = column(({ own, advantage: A }) => own.map(() => A));
  return sum(mul(weight, clipped(exp(sub(logProbs, old)), advantage, 0.8, 1.2)));
}

type StepOptions = Readonly<Record<"groups" | "groupSize" | "passes" | "lr", number>> & {
  readonly ratio: "token" | "sequence";
};
type Report = Readonly<Record<"reward" | "loss", number>>; // the loss of the first pass
export async function step(agent: Agent, rng: Rng, options: StepOptions): Promise<Report> {
  const { groups, groupSize, passes, ratio, lr } = options;
  const streamOf = (what: string, n: number): Rng => rng.split(what).split(n); // `rng`: all randomness of the step
  const groupOf = Array.from({ length: groups * groupSize }, (_, i) => Math.floor(i / groupSize));
  const episodes = groupOf.map((group) => new Episode(group, streamOf("task", group).int(2 ** 31)));
  await play(agent.model, episodes, (i) => streamOf("episode", i));
  estimate(episodes);
  const { model } = agent;
  const { params } = model;
  // Log-probabilities before the first pass. In the later ones the policy is no longer the one that played.
  const old = scope(() => noGrad(() => read(params, model, batchOf(episodes, params.embedding.device))));
  const lossOf = ratio === "token" ? tokenLoss : sequenceLoss;
  const losses: number[] = [];
  for (let n = 0; n < passes; n++)
    losses.push(await update(agent, episodes, (lp, batch) => lossOf(lp, old, batch), lr));
  old.dispose();
  const reward = episodes.reduce((total, episode) => total + episode.reward, 0) / episodes.length;
  return { reward, loss: losses[0]! };
}

/** A model that has imitated players who guess: it knows how an action is written, and nothing of the boxes. */
async function warmStart(on: Device, seed: number): Promise<Agent> {
  const config = modelConfig({ vocabSize: WORDS.length, hiddenSize: 32, layers: 2, heads: 4, maxPositions: 32 });
  const params = initParams(config, new Rng(seed).split("init"), on);
  const agent = { model: { config, params }, optimizer: new AdamW(params, { clipNorm: 1 }) }; // weight decay 0.01
  for (let n = 0; n < 40; n++) {
    const rng = new Rng(seed).split("guesses").split(n);
    const guesses = Array.from({ length: 16 }, (_, i) => new Episode(i, rng.split(i).int(2 ** 31)));
    for (const guess of guesses) for (const id of [...encode(randomDigit(rng)), END]) guess.write(id);
    await update(agent, guesses, (logProbs) => mul(mean(logProbs), -1), 3e-3);
  }
  return agent;
}

if (import.meta.url === new URL(`file://${process.argv[1]}`).href) {
  const [seed = 0, steps = 100] = process.argv.slice(2).map(Number);
  const size = { groups: 8, groupSize: 8, passes: 2, lr: 2e-3 };
  for (const ratio of ["token", "sequence"] as const) {
    const agent = await warmStart(await device("wasm"), seed);
    const rewards: number[] = [];
    for (let n = 1; n <= steps; n++) {
      rewards.push((await step(agent, new Rng(seed + 1).split(n), { ...size, ratio })).reward);
      const mean20 = rewards.slice(-20).reduce((a, b) => a + b) / 20;
      if (n % 20 === 0) console.log(`a ratio per ${ratio}, steps ${n - 19} to ${n}: mean reward ${mean20.toFixed(2)}`);
    }
  }
}
