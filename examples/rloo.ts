/**
 * REINFORCE, RLOO and REINFORCE++ for an agent of several turns, on the library's tensors and transformer only: three
 * baselines, of which none is a model. `trainRl` with the methods `rloo` and `reinforce++` computes the same: a test
 * compares the bits (reference executor).
 * The world: eight boxes, each with a digit that never changes. A task names a box, the agent writes a digit, and the
 * world answers `y` or `n` and the right digit. After an `n` there is one more try, for half of the reward.
 * `npx tsx examples/rloo.ts [SEED] [STEPS]` trains with each of the three, 100 steps.
 * Seeds 0 to 9, mean reward of steps 181 to 200: REINFORCE 0.60, RLOO 0.50, REINFORCE++ 0.52. Neither baseline
 * gains here: −0.09 [−0.26, 0.11] and −0.07 [−0.16, 0.03] (bootstrap over seeds), lower in eight and seven of ten.
 */
import { AdamW, Decoder, type Device, device, forward, fuse, initParams, mean, type Model } from "../index.ts";
import { modelConfig, mul, outputMatrix, pickHidden, Rng, scope, stopGradient, sum, type Tensor } from "../index.ts";
import { tensor, tokenLogProbs, type TransformerParams, valueAndGrad } from "../index.ts";

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
  advantage: readonly number[] = [];
  weight: readonly number[] = []; // how much each own token counts in the loss

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
  const column = (of: (row: Episode) => readonly number[]): Tensor =>
    tensor(Float64Array.from(rows.flatMap(of)), { device: on, dtype: on.float });
  return { ids_BT, index, targets: tensor(next, { device: on }), column };
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

// 4. What to compare a return with, how much a token counts, and the loss of a token.
/** Advantages A, the same for all own tokens of an episode: with γ = 1 its reward is the return of each of them. */
type Estimator = (episodes: readonly Episode[]) => number[];
const rewardsOf = (episodes: readonly Episode[]): number[] => episodes.map(({ reward }) => reward);
const meanOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

/** RLOO (arXiv 2402.14740): R minus the mean of the *others* in the group, which is n/(n − 1)·(R − mean). */
const leaveOneOut: Estimator = (episodes) =>
  episodes.map(({ group, reward }) => {
    const rewards = rewardsOf(episodes.filter((other) => other.group === group));
    const isFlat = Math.max(...rewards) === Math.min(...rewards); // then A is 0, and not a rounding error
    return isFlat ? 0 : (rewards.length / (rewards.length - 1)) * (reward - meanOf(rewards));
  });

/** REINFORCE++ (arXiv 2501.03262): no groups; the returns of all tokens of the batch to mean 0 and deviation 1. */
const whitened: Estimator = (episodes) => {
  const all = episodes.flatMap(({ own, reward }) => own.map(() => reward));
  const centre = meanOf(all);
  const std = Math.sqrt(all.reduce((a, b) => a + (b - centre) ** 2, 0) / (all.length - 1));
  const isFlat = Math.max(...all) === Math.min(...all);
  return rewardsOf(episodes).map((reward) => (isFlat ? 0 : (reward - centre) * (1 / Math.sqrt(std * std + 1e-8))));
};

/** REINFORCE (Williams 1992): −A·lp. */
const plain = fuse("plain", (lp, advantage) => advantage.mul(lp).neg());
/** −min(ρA, clip(ρ, 0.8, 1.2)·A) (PPO, arXiv 1707.06347, eq. 7); ρ = e^(lp − old): p now / p when sampled. */
const clipped = fuse("clipped", (lp, old, advantage) => {
  const ratio = lp.sub(old).exp();
  return ratio.mul(advantage).min(ratio.clamp(0.8, 1.2).mul(advantage)).neg();
});
/** Each batch is used once, so the policy is still the one that played: the old lp is lp itself, and ρ is 1. */
const clippedNow = (lp: Tensor, advantage: Tensor): Tensor => clipped(lp, stopGradient(lp), advantage);
/** A method: its advantages, the loss of a token, and how the tokens' losses are added up. */
const METHODS = {
  reinforce: { estimate: rewardsOf, loss: plain, mean: "episodes" }, // no baseline: rewards are ≥ 0, so nothing is bad
  rloo: { estimate: leaveOneOut, loss: plain, mean: "episodes" }, // the sum over an episode, the mean over episodes
  "reinforce++": { estimate: whitened, loss: clippedNow, mean: "tokens" }, // the mean over all own tokens
} as const;
export type Method = keyof typeof METHODS;

type StepOptions = Readonly<Record<"groups" | "groupSize" | "lr", number>> & { readonly method: Method };
type Report = Readonly<Record<"reward" | "loss", number>>;
export async function step(agent: Agent, rng: Rng, { method, groups, groupSize, lr }: StepOptions): Promise<Report> {
  const streamOf = (what: string, n: number): Rng => rng.split(what).split(n); // `rng`: all randomness of the step
  const groupOf = Array.from({ length: groups * groupSize }, (_, i) => Math.floor(i / groupSize));
  const episodes = groupOf.map((group) => new Episode(group, streamOf("task", group).int(2 ** 31)));
  await play(agent.model, episodes, (i) => streamOf("episode", i));
  const { estimate, loss: lossOfToken, mean: over } = METHODS[method];
  const advantages = estimate(episodes);
  const count = over === "episodes" ? episodes.length : episodes.flatMap(({ own }) => own).length;
  for (const [i, episode] of episodes.entries()) {
    episode.advantage = episode.own.map(() => advantages[i]!);
    episode.weight = episode.own.map(() => 1 / count);
  }
  const lossOf: LossOf = (logProbs, { column }) => {
    const [advantage, weight] = [column((row) => row.advantage), column((row) => row.weight)];
    return sum(mul(weight, lossOfToken(logProbs, advantage)));
  };
  const loss = await update(agent, episodes, lossOf, lr);
  return { reward: meanOf(rewardsOf(episodes)), loss };
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
  const size = { groups: 8, groupSize: 8, lr: 2e-3 };
  for (const method of Object.keys(METHODS) as Method[]) {
    const agent = await warmStart(await device("wasm"), seed);
    const rewards: number[] = [];
    for (let n = 1; n <= steps; n++) {
      rewards.push((await step(agent, new Rng(seed + 1).split(n), { ...size, method })).reward);
      const mean20 = rewards.slice(-20).reduce((a, b) => a + b) / 20;
      if (n % 20 === 0) console.log(`${method}, steps ${n - 19} to ${n}: mean reward ${mean20.toFixed(2)}`);
    }
  }
}
