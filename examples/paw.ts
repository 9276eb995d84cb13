/**
 * PaW on GRPO, on the library's tensors and transformer only: the agent also learns to predict the world's answers, of
 * these the ones to unsure actions, the words that it does not expect, and less where its group succeeds. `trainRl`
 * with the method `paw` computes the same: a test compares the bits (reference executor).
 * The world: eight boxes, each with a digit that never changes. A task names a box, the agent writes a digit, and the
 * world answers `y` or `n` and the right digit. After an `n` there is one more try, for half of the reward.
 * `npx tsx examples/paw.ts [SEED] [STEPS]` trains without and with the loss on answers, 100 steps each.
 * Seeds 0 to 9, mean reward: 0.41 and 0.41 in steps 81 to 100, 0.56 and 0.57 in steps 181 to 200 (+0.01 [−0.17, 0.15],
 * bootstrap over seeds; higher in six; one seed fell to 0). PaW shows no gain here; grpo.ts has ECHO's.
 */
import { AdamW, add, Decoder, type Device, device, exp, forward, fuse, initParams, type Model } from "../index.ts";
import { modelConfig, mul, outputMatrix, pickHidden, Rng, scope, select, stopGradient, sub, sum } from "../index.ts";
import { type Tensor, tensor, tokenLogProbs, type TransformerParams, valueAndGrad } from "../index.ts";

// 1. The world, and how an episode becomes tokens: <|task|> box <|end|> <|act|> digit <|end|> <|obs|> answer <|end|> …
const WORDS = [..."<|task|> <|act|> <|obs|> <|end|> <|pad|>".split(" "), ..."abcdefgh01234567ny"];
const [TASK, ACT, OBS, END, PAD] = [0, 1, 2, 3, 4];
const encode = (text: string): number[] => [...text].map((word) => WORDS.indexOf(word));
const randomDigit = (rng: Rng): string => String(rng.int(8));

/** A turn: the places of the agent's tokens and of those of the answer, and what the loss is told of them. */
class Turn {
  readonly action: number[] = [];
  readonly answer: number[] = []; // empty if the world did not answer
  entropy = 0; // mean over the action's tokens
  world = 0; // weight of each token of the answer
}

class Episode {
  readonly ids: number[];
  readonly turns = [new Turn()];
  readonly task: string;
  reward = 0;
  advantage = 0;
  policy = 0; // weight of each token of the actions

  constructor(seed: number) {
    this.task = new Rng(seed).choice([..."abcdefgh"]);
    this.ids = [TASK, ...encode(this.task), END, ACT];
  }

  /** The agent's next token. At <|end|> its action is complete and the world answers. @returns whether it is over */
  write(id: number): boolean {
    const { action, answer } = this.turns.at(-1)!;
    action.push(this.ids.push(id) - 1); // push returns the new length
    if (id !== END) return action.length === 2; // two tokens and no <|end|>: it is over
    const right = randomDigit(new Rng(0).split(this.task)); // split(name): a new stream, fixed by the seed and the name
    const isRight = action.length === 2 && this.ids[action[0]!] === encode(right)[0];
    if (isRight) this.reward = 1 / this.turns.length;
    const isLast = isRight || this.turns.length === 2;
    answer.push(this.ids.length + 1, this.ids.length + 2); // behind OBS
    this.ids.push(OBS, ...encode((isRight ? "y" : "n") + right), ...(isLast ? [END] : [END, ACT]));
    if (!isLast) this.turns.push(new Turn());
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

// 3. What the model says of actions, and of answers that have a weight.
const longestFirst = (a: Episode, b: Episode): number => b.ids.length - a.ids.length; // as `trainRl`: sums round alike

/** Episodes as rows of one array; N scored tokens, of which the hidden state at t − 1 predicts token t; columns [N]. */
function batchOf(episodes: readonly Episode[], on: Device) {
  const rows = episodes.toSorted(longestFirst);
  const T = rows[0]!.ids.length;
  const ids = new Int32Array(rows.length * T).fill(PAD);
  rows.forEach((row, b) => ids.set(row.ids, b * T));
  const scored = rows.flatMap(({ turns, policy, advantage }, b) =>
    turns.flatMap(({ action, answer, world }) => [
      ...action.map((t) => ({ at: b * T + t - 1, policy, world: 0, advantage })),
      ...(world > 0 ? answer : []).map((t) => ({ at: b * T + t - 1, policy: 0, world, advantage: 0 })),
    ]),
  );
  const ids_BT = tensor(ids, { device: on, shape: [rows.length, T] }); // row, time
  const index = Int32Array.from(scored, ({ at }) => at);
  const next = index.map((at) => ids[at + 1]!);
  const column = (name: "policy" | "world" | "advantage"): Tensor => {
    const values = Float64Array.from(scored, (token) => token[name]);
    return tensor(values, { device: on, dtype: on.float });
  };
  return { ids_BT, index, targets: tensor(next, { device: on }), column };
}

type Agent = { readonly model: Model; readonly optimizer: AdamW<TransformerParams> };
/** Log-probabilities of the scored tokens and entropies where they were drawn, [N] each. */
function read(params: TransformerParams, { config }: Model, batch: ReturnType<typeof batchOf>) {
  const hidden_NC = pickHidden(forward(params, config, batch.ids_BT), batch.index);
  return tokenLogProbs(hidden_NC, outputMatrix(params), batch.targets);
}

// 4. How much each token counts: advantages and weights.
const meanOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
/**
 * GRPO (arXiv 2402.03300): A = (R − mean) / (std + 1e-4) within the group, where std divides by n − 1.
 * PaW (arXiv 2606.02388): of all answers the share α, to the actions of highest entropy, is selected. One of group g
 * counts λ_g / (its group's selected answers), a mean over its tokens; then groups. λ_g = 1 − mean R / R_max, R_max 1.
 */
function weigh(episodes: readonly Episode[], groupSize: number, coefficient: number, alpha = 0.75): void {
  const answered = episodes.flatMap(({ turns }) => turns.filter(({ answer }) => answer.length > 0));
  const ranked = answered.toSorted((a, b) => b.entropy - a.entropy);
  const selected = new Set(ranked.slice(0, Math.ceil(alpha * ranked.length)));
  for (let i = 0; i < episodes.length; i += groupSize) {
    const group = episodes.slice(i, i + groupSize);
    const mean = meanOf(group.map(({ reward }) => reward));
    const std = Math.sqrt(group.reduce((a, { reward }) => a + (reward - mean) ** 2, 0) / (groupSize - 1));
    for (const episode of group) {
      episode.advantage = (episode.reward - mean) / (std + 1e-4);
      episode.policy = 1 / (episodes.length * episode.turns.flatMap(({ action }) => action).length);
    }
    const own = group.flatMap(({ turns }) => turns.filter((turn) => selected.has(turn)));
    const lambda = coefficient * (1 - mean);
    for (const turn of own) turn.world = lambda / ((episodes.length / groupSize) * own.length * turn.answer.length);
  }
}

// 5. The loss, its gradient, the update.
/** PaW's loss of a word: 1 − p where p ≤ 0.2, else 0; 1 − p = −expm1(lp). What is likely already is left alone. */
export const clippedError = fuse("clippedError", (lp) => select(lp.exp().le(0.2), lp.expm1().neg(), 0));
/** One step of the optimiser on GRPO's loss, whose ratio PPO would clip, and the world's. @returns the sum before it */
async function update({ model, optimizer }: Agent, episodes: readonly Episode[], lr: number): Promise<number> {
  const loss = scope(() => {
    const batch = batchOf(episodes, model.params.embedding.device);
    const { value, grads } = valueAndGrad((p: TransformerParams) => {
      const { logProbs } = read(p, model, batch);
      // Each batch is used once, so the policy is still the one that played: ρ is 1, and there is nothing to clip.
      const ratio = exp(sub(logProbs, stopGradient(logProbs)));
      const policyLoss = sum(mul(batch.column("policy"), mul(mul(ratio, batch.column("advantage")), -1)));
      return add(policyLoss, sum(mul(batch.column("world"), clippedError(logProbs))));
    })(model.params);
    optimizer.step(grads, lr);
    return value; // everything else that was made here is freed
  });
  const number = await loss.item();
  loss.dispose();
  return number;
}

type StepOptions = Readonly<Record<"groups" | "groupSize" | "coefficient" | "lr", number>>;
export async function step(agent: Agent, rng: Rng, options: StepOptions): Promise<Record<"reward" | "loss", number>> {
  const { groups, groupSize, coefficient, lr } = options;
  const { model } = agent;
  const streamOf = (what: string, n: number): Rng => rng.split(what).split(n); // `rng`: all randomness of the step
  const groupOf = Array.from({ length: groups * groupSize }, (_, i) => Math.floor(i / groupSize));
  const episodes = groupOf.map((group) => new Episode(streamOf("task", group).int(2 ** 31)));
  await play(model, episodes, (i) => streamOf("episode", i));
  const entropies = scope(() => read(model.params, model, batchOf(episodes, model.params.embedding.device)).entropy);
  const numbers = [...(await entropies.read())]; // of the actions' tokens, as no answer has a weight yet
  entropies.dispose();
  for (const turn of episodes.toSorted(longestFirst).flatMap(({ turns }) => turns))
    turn.entropy = meanOf(numbers.splice(0, turn.action.length));
  weigh(episodes, groupSize, coefficient);
  return { reward: meanOf(episodes.map(({ reward }) => reward)), loss: await update(agent, episodes, lr) };
}

/** A model that has imitated players who guess: it knows how an action is written, and nothing of the boxes. */
async function warmStart(on: Device, seed: number): Promise<Agent> {
  const config = modelConfig({ vocabSize: WORDS.length, hiddenSize: 32, layers: 2, heads: 4, maxPositions: 32 });
  const params = initParams(config, new Rng(seed).split("init"), on);
  const agent = { model: { config, params }, optimizer: new AdamW(params, { clipNorm: 1 }) }; // weight decay 0.01
  for (let n = 0; n < 40; n++) {
    const rng = new Rng(seed).split("guesses").split(n);
    const guesses = Array.from({ length: 16 }, (_, i) => new Episode(rng.split(i).int(2 ** 31)));
    for (const guess of guesses) {
      for (const id of [...encode(randomDigit(rng)), END]) guess.write(id);
      [guess.advantage, guess.policy] = [1, 1 / 32]; // the gradient is then that of −lp: imitation
    }
    await update(agent, guesses, 3e-3);
  }
  return agent;
}

if (import.meta.url === new URL(`file://${process.argv[1]}`).href) {
  const [seed = 0, steps = 100] = process.argv.slice(2).map(Number);
  const size = { groups: 8, groupSize: 8, lr: 2e-3 };
  for (const coefficient of [0, 1]) {
    const agent = await warmStart(await device("wasm"), seed);
    const rewards: number[] = [];
    for (let n = 1; n <= steps; n++) {
      rewards.push((await step(agent, new Rng(seed + 1).split(n), { ...size, coefficient })).reward);
      const mean20 = rewards.slice(-20).reduce((a, b) => a + b) / 20;
      if (n % 20 === 0)
        console.log(`coefficient ${coefficient}, steps ${n - 19} to ${n}: mean reward ${mean20.toFixed(2)}`);
    }
  }
}
