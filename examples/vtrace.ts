/**
 * V-trace: an actor-critic whose episodes an older policy plays, on the library's tensors and transformer only.
 * `trainStep` with the method `vtrace` computes the same: a test compares the bits (reference executor).
 * The world: eight boxes, each with a digit that never changes. A task names a box, the agent writes a digit, and the
 * world answers `y` or `n` and the right digit. After an `n` there is one more try, for half of the reward.
 * `npx tsx examples/vtrace.ts [SEED] [STEPS] [PERIOD]`: the sampler is the policy itself, or gets its weights in every
 * eighth step only, without a correction and with one; 100 steps each. Seeds 0 to 9, mean reward of steps 81 to 100:
 * 0.31, 0.19, 0.28 (V-trace +0.09 [0.03, 0.17], bootstrap over seeds, higher in six, lower in one). Steps 181 to 200:
 * 0.40, 0.27, 0.28: there the correction gains nothing, and two seeds of either old sampler are near 0.
 */
import { AdamW, add, Decoder, device, type Device, forward, grad, headValues, initParams } from "../index.ts";
import { initValueHead, mapTree, mean, type Model, modelConfig, mul, noGrad, outputMatrix } from "../index.ts";
import { pickHidden, Rng, scope, square, sub, sum, type Tensor, tensor, tokenLogProbs } from "../index.ts";
import { type TransformerParams, valueAndGrad, type ValueHead } from "../index.ts";

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
  sampled: number[] = []; // log μ: log p under the policy that played
  logProb: readonly number[] = []; // log π before the update
  value: readonly number[] = []; // the critic's V before the update
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
      const { id, logProb } = drawn[i]![0]!; // a list, since `draw` can also draw several at once
      seat.episode.sampled.push(logProb);
      const isOver = seat.episode.write(id);
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

type Trained = { readonly policy: TransformerParams; readonly critic: ValueHead };
/** Log-probabilities and values of the own tokens, [N] each. A value is read before its token is written. */
function read({ policy, critic }: Trained, { config }: Model, batch: ReturnType<typeof batchOf>): [Tensor, Tensor] {
  const hidden_NC = pickHidden(forward(policy, config, batch.ids_BT), batch.index);
  return [tokenLogProbs(hidden_NC, outputMatrix(policy), batch.targets).logProbs, headValues(critic, hidden_NC)];
}

// 4. Advantages, backwards over the agent's own tokens.
/**
 * V-trace (arXiv 1802.01561, §4.1 and 4.2; ρ̄ = c̄ = λ = 1): ρ_t = c_t = min(1, π/μ), δ_t = ρ_t(r_t + γV_{t+1} − V_t),
 * v_t = V_t + δ_t + γc_t(v_{t+1} − V_{t+1}), which the critic learns, and A_t = ρ_t(r_t + γv_{t+1} − V_t).
 */
function estimate(episodes: readonly Episode[], isCorrected: boolean, gamma = 1): void {
  for (const episode of episodes) {
    const { own, sampled, logProb, value: V, reward } = episode;
    const [advantage, target] = [own.map(() => 0), own.map(() => 0)];
    for (let k = own.length - 1, vNext = 0, VNext = 0; k >= 0; k--) {
      const r = k === own.length - 1 ? reward : 0; // only the last action is paid, at its last token
      const rho = isCorrected ? Math.min(1, Math.exp(logProb[k]! - sampled[k]!)) : 1;
      advantage[k] = rho * (r + gamma * vNext - V[k]!);
      vNext = V[k]! + rho * (r + gamma * VNext - V[k]!) + gamma * rho * (vNext - VNext);
      VNext = V[k]!;
      target[k] = vNext;
    }
    [episode.advantage, episode.target] = [advantage, target];
  }
}

// 5. The loss, its gradient, the update.
type Agent = Awaited<ReturnType<typeof warmStart>>;
/** One step on −A·lp and 0.1·½(V − v)², means over all own tokens. @returns both, before it */
async function update(agent: Agent, episodes: readonly Episode[], lr: number): Promise<[number, number]> {
  const { model, critic, optimizer, criticOptimizer } = agent;
  const losses = scope(() => {
    const batch = batchOf(episodes, critic.bias.device);
    const [advantage, target] = [batch.column((row) => row.advantage), batch.column((row) => row.target)];
    const { aux, grads } = valueAndGrad((trained: Trained) => {
      const [logProbs, values] = read(trained, model, batch);
      const policyLoss = sum(mul(mul(mul(advantage, logProbs), -1), 1 / batch.index.length));
      const valueLoss = sum(mul(mul(square(sub(values, target)), 0.5), (1 / batch.index.length) * 0.1));
      return [add(policyLoss, valueLoss), [policyLoss, valueLoss]];
    })({ policy: model.params, critic });
    optimizer.step(grads.policy, lr);
    criticOptimizer.step(grads.critic, lr);
    return aux; // everything else that was made here is freed
  });
  const [policyLoss, valueLoss] = await Promise.all(losses.map(async (loss) => loss.item()));
  for (const loss of losses) loss.dispose();
  return [policyLoss!, valueLoss!];
}

type StepOptions = { readonly episodes: number; readonly isCorrected: boolean; readonly lr: number };
type Report = Readonly<Record<"reward" | "policyLoss" | "valueLoss", number>>;
/** @param sampler the model that plays */
export async function step(agent: Agent, sampler: Model, rng: Rng, options: StepOptions): Promise<Report> {
  const { model, critic } = agent;
  const streamOf = (what: string, n: number): Rng => rng.split(what).split(n); // `rng`: all randomness of the step
  const newEpisode = (_: unknown, n: number): Episode => new Episode(streamOf("task", n).int(2 ** 31));
  const episodes = Array.from({ length: options.episodes }, newEpisode);
  await play(sampler, episodes, (n) => streamOf("episode", n));
  const trained = { policy: model.params, critic };
  const said = scope(() => noGrad(() => read(trained, model, batchOf(episodes, critic.bias.device))));
  const columns = await Promise.all(said.map(async (x) => [...(await x.read())]));
  for (const x of said) x.dispose();
  for (const row of episodes.toSorted(longestFirst))
    [row.logProb, row.value] = columns.map((column) => column.splice(0, row.own.length)) as [number[], number[]];
  estimate(episodes, options.isCorrected);
  const [policyLoss, valueLoss] = await update(agent, episodes, options.lr);
  return { reward: episodes.reduce((total, { reward }) => total + reward, 0) / episodes.length, policyLoss, valueLoss };
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

/** A copy of the model, which stays as it is when the model learns. */
const copyOf = ({ config, params }: Model): Model => ({ config, params: mapTree(params, (x) => mul(x, 1)) });

if (import.meta.url === new URL(`file://${process.argv[1]}`).href) {
  const [seed = 0, steps = 100, every = 8] = process.argv.slice(2).map(Number);
  const arms = { "own episodes": [1, false], "old episodes": [every, false], "V-trace": [every, true] } as const;
  for (const [name, [period, isCorrected]] of Object.entries(arms)) {
    const agent = await warmStart(await device("wasm"), seed);
    let sampler = copyOf(agent.model);
    const options = { episodes: 64, isCorrected, lr: 1e-3 };
    const rewards: number[] = [];
    for (let n = 1; n <= steps; n++) {
      rewards.push((await step(agent, sampler, new Rng(seed + 1).split(n), options)).reward);
      if (n % period === 0) sampler = copyOf(agent.model);
      const mean20 = rewards.slice(-20).reduce((a, b) => a + b) / 20;
      if (n % 20 === 0) console.log(`${name}, steps ${n - 19} to ${n}: mean reward ${mean20.toFixed(2)}`);
    }
  }
}
