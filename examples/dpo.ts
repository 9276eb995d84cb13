/**
 * DPO on pairs of whole episodes of several turns, from policy = reference, on the library's tensors and transformer
 * only. `trainPreference` with `dpo()` computes the same: a test compares losses and parameters.
 * The world: eight boxes, each with a digit that never changes. A task names a box, the agent writes a digit, and the
 * world answers `y` or `n` and the right digit. After an `n` there is one more try, for half of the reward.
 * `npx tsx examples/dpo.ts [SEED] [STEPS] [BETA]`: the warm start plays, a task's best and worst tries are a pair, and
 * copies of it learn 100 batches of pairs: they imitate the better ones, or learn by DPO, or both. Seeds 0 to 9: the
 * mean reward is 0.13 before, then 0.43, 0.21, 0.34. DPO is below imitation in each seed: it makes the better tries
 * less likely, too, by 1.0 nats (the worse ones by 7.9). With β = 0.1 DPO falls to 0.07, and both together reach 0.34.
 */
import { AdamW, add, Decoder, type Device, device, forward, initParams, mean, type Model } from "../index.ts";
import { modelConfig, mul, noGrad, outputMatrix, pickHidden, Rng, scatterAdd, scope, softplus } from "../index.ts";
import { sub, sum, tensor, type Tensor, tokenLogProbs, type TransformerParams, valueAndGrad } from "../index.ts";

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
  reference: readonly number[] = []; // log p under the reference, before anything was learnt

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
/** Episodes as rows of one array; the N own tokens, each predicted by the hidden state before it; columns [N]. */
function batchOf(rows: readonly Episode[], on: Device) {
  const T = Math.max(...rows.map((row) => row.ids.length));
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

/** Log-probabilities of the own tokens, episode by episode, without a gradient. */
async function scoresOf(model: Model, episodes: readonly Episode[]): Promise<number[][]> {
  const { params } = model;
  const logProbs = scope(() => noGrad(() => read(params, model, batchOf(episodes, params.embedding.device))));
  const numbers = [...(await logProbs.read())];
  logProbs.dispose();
  return episodes.map(({ own }) => numbers.splice(0, own.length));
}

// 4. The pairs.
type Pair = readonly [better: Episode, worse: Episode];
/** A task that was tried with different success gives a pair: the first of its best tries, the first of its worst. */
export async function makePairs({ model }: Agent, rng: Rng, tasks: number, tries: number): Promise<Pair[]> {
  const seeds = Array.from({ length: tasks }, (_, n) => rng.split(n).int(2 ** 31));
  const groups = seeds.map((seed) => Array.from({ length: tries }, () => new Episode(seed)));
  const episodes = groups.flat();
  await play(model, episodes, (i) => rng.split("episode").split(i));
  (await scoresOf(model, episodes)).forEach((lp, i) => (episodes[i]!.reference = lp));
  const first = (group: Episode[], sign: number): Episode => group.toSorted((a, b) => sign * (b.reward - a.reward))[0]!;
  const pairs = groups.map((group): Pair => [first(group, 1), first(group, -1)]);
  return pairs.filter(([better, worse]) => better.reward > worse.reward);
}

// 5. The loss of a batch of pairs, whose rows are better and worse in turn.
/** DPO: −ln σ(βh), the mean over the pairs (arXiv 2305.18290, eq. 7); softplus(x) = ln(1 + e^x) = −ln σ(−x). */
function preferenceLoss(logProbs: Tensor, { rows, column }: Batch, beta: number): Tensor {
  const [reference, sides] = [column((row) => row.reference), column(({ own }, b) => own.map(() => 1 - 2 * (b % 2)))];
  const pair = Int32Array.from(rows.flatMap(({ own }, b) => own.map(() => Math.floor(b / 2))));
  // h = Σ(lp − ref) over the own tokens of the better episode, less that of the worse one, [pairs]
  const h = scatterAdd(
    mul(sides, sub(logProbs, reference)),
    tensor(pair, { device: logProbs.device }),
    rows.length / 2,
  );
  return mean(softplus(mul(h, -beta)));
}

/** −lp of the better episode: a mean over its tokens, then over the pairs (beside DPO: arXiv 2404.19733, eq. 1). */
function imitationLoss(logProbs: Tensor, { rows, column }: Batch): Tensor {
  const weights = column(({ own }, b) => own.map(() => (b % 2 === 0 ? -2 / (rows.length * own.length) : 0)));
  return sum(mul(logProbs, weights));
}

type StepOptions = Readonly<Record<"batchSize" | "beta" | "preferenceWeight" | "imitationWeight" | "lr", number>>;
/** One step on pairs that are drawn with `rng`. @returns the loss */
export async function step(agent: Agent, pairs: readonly Pair[], rng: Rng, options: StepOptions): Promise<number> {
  const { batchSize, beta, preferenceWeight, imitationWeight, lr } = options;
  const drawn = Array.from({ length: batchSize }, () => rng.choice(pairs));
  const lossOf: LossOf = (logProbs, batch) => {
    const preference = mul(preferenceLoss(logProbs, batch, beta), preferenceWeight);
    return add(preference, mul(imitationLoss(logProbs, batch), imitationWeight));
  };
  return update(agent, drawn.flat(), lossOf, lr);
}

/** A model that has imitated players who guess: it knows how an action is written, and nothing of the boxes. */
async function warmStart(on: Device, seed: number): Promise<Agent> {
  const config = modelConfig({ vocabSize: WORDS.length, hiddenSize: 32, layers: 2, heads: 4, maxPositions: 32 });
  const params = initParams(config, new Rng(seed).split("init"), on);
  const agent = { model: { config, params }, optimizer: new AdamW(params, { clipNorm: 1 }) }; // weight decay 0.01
  for (let n = 0; n < 40; n++) {
    const rng = new Rng(seed).split("guesses").split(n);
    const guesses = Array.from({ length: 16 }, (_, i) => new Episode(rng.split(i).int(2 ** 31)));
    for (const guess of guesses) for (const id of [...encode(randomDigit(rng)), END]) guess.write(id);
    await update(agent, guesses, (logProbs) => mul(mean(logProbs), -1), 3e-3);
  }
  return agent;
}

/** The mean reward of 512 tries, and the mean over the pairs of Σ(lp − ref) of the better and the worse episode. */
async function examine({ model }: Agent, pairs: readonly Pair[], rng: Rng): Promise<string> {
  const episodes = Array.from({ length: 512 }, (_, i) => new Episode(rng.split(i).int(2 ** 31)));
  await play(model, episodes, (i) => rng.split("episode").split(i));
  const reward = episodes.reduce((total, episode) => total + episode.reward, 0) / episodes.length;
  const said = await scoresOf(model, pairs.flat());
  const moved: [number, number] = [0, 0];
  for (const [i, { reference }] of pairs.flat().entries())
    moved[i % 2]! += reference.reduce((total, ref, k) => total + said[i]![k]! - ref, 0) / pairs.length;
  return `mean reward ${reward.toFixed(2)}, lp − ref: better ${moved[0].toFixed(1)}, worse ${moved[1].toFixed(1)}`;
}

if (import.meta.url === new URL(`file://${process.argv[1]}`).href) {
  const [seed = 0, steps = 100, beta = 0.5] = process.argv.slice(2).map(Number);
  const arms = { imitation: [0, 1], DPO: [1, 0], "DPO + imitation": [1, 1] } as const;
  for (const [name, [preferenceWeight, imitationWeight]] of Object.entries(arms)) {
    const agent = await warmStart(await device("wasm"), seed);
    const pairs = await makePairs(agent, new Rng(seed + 1), 64, 8);
    const options = { batchSize: 16, beta, lr: 1e-3, preferenceWeight, imitationWeight };
    for (let n = 0; n <= steps; n++) {
      if (n % 50 === 0) console.log(`${name}, ${n} steps: ${await examine(agent, pairs, new Rng(seed + 2))}`);
      await step(agent, pairs, new Rng(seed + 3).split(n), options);
    }
  }
}
