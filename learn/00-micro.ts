/**
 * Reinforcement learning for a language agent in one file that imports nothing: derivatives, a transformer, a world
 * that answers, policy gradient, a world model, Adam. `npm run learn` runs it. Is it worth predicting the answers?
 *
 * There are eight safes, each with a code of two digits, 0 to 5. The world names a safe; the agent writes two words;
 * the world answers yes or no, the safe, and its code. If the answer is no, a second try can earn half the reward. The
 * agent is a model: it gives each word a probability p of being next, and the agent draws its words from these.
 * It plays each safe in a group of eight episodes. The loss is the mean over the group's episodes of the sum of
 *
 *     −A · (mean of log p over the agent's words)
 *     −λ · (mean of log p over the world's words)
 *
 * The first, GRPO's (arXiv 2402.03300), has A = (reward − mean) / (std + 1e-4) by group. It is nearly REINFORCE:
 * ∇E[reward] = E[reward · ∇ log p]. A try above the mean becomes likelier, one below it less likely; if all earn the
 * same, A is 0. The second, ECHO's (arXiv 2605.24517; there λ ≤ 0.05, in this project's small worlds 0.5), teaches
 * then, too: who predicts the code after a safe's name can also write it there. In two controls the world tells random
 * codes. Opened at the first try at the end, seeds 0 to 9: λ = 0 57 %, λ = 0.5 97 %; random codes 45 and 36 %.
 */
// 1. Derivatives. A Value is a vector that knows the Values it was computed from, its parents. Its `grad` becomes
// ∂L/∂this for the loss L. By the chain rule, `push(grad)` adds grad · ∂this/∂parent to each parent's grad.
export type Value = { data: number[]; grad: number[]; parents: Matrix; push: (g: readonly number[]) => void };
export type Matrix = readonly Value[]; // rows
export function value(data: number[], parents: Matrix = [], push: Value["push"] = () => {}): Value {
  return { data, grad: data.map(() => 0), parents, push };
}
/** Adds ∂L/∂x to the grad of every x that the scalar L depends on. Children go first: a grad is complete when used. */
export function backward(L: Value): void {
  const sorted = new Set<Value>(); // parents first
  const visit = (x: Value): void => {
    if (sorted.has(x)) return;
    for (const parent of x.parents) visit(parent);
    sorted.add(x);
  };
  visit(L);
  L.grad[0] = 1;
  for (const x of [...sorted].reverse()) x.push(x.grad);
}
const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));
const sum = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0);
function dot(a: readonly number[], b: readonly number[]): number {
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i]! * b[i]!; // loops, as most of the time is spent here
  return total;
}
function addTo(y: number[], x: readonly number[], c: number): void {
  for (let i = 0; i < x.length; i++) y[i]! += c * x[i]!; // y += c · x
}
/** y_i = c · row_i · x */
export function linear(rows: Matrix, x: Value, c = 1): Value {
  const y = rows.map((row) => c * dot(row.data, x.data));
  return value(y, [...rows, x], (g) => {
    g.forEach((d, i) => addTo(rows[i]!.grad, x.data, c * d));
    g.forEach((d, i) => addTo(x.grad, rows[i]!.data, c * d));
  });
}
/** y = Σ w_i · row_i */
export function mix(w: Value, rows: Matrix): Value {
  const y = rows[0]!.data.map(() => 0);
  w.data.forEach((c, i) => addTo(y, rows[i]!.data, c));
  return value(y, [w, ...rows], (g) => {
    w.data.forEach((c, i) => addTo(rows[i]!.grad, g, c));
    w.data.forEach((_, i) => (w.grad[i]! += dot(g, rows[i]!.data)));
  });
}
export const add = (a: Value, b: Value): Value => mix(value([1, 1]), [a, b]);
/** y_i = e^x_i / Σ e^x_j, so that ∂y_j/∂x_i = y_j · ([i = j] − y_i). The largest x is subtracted first: it cancels. */
export function softmax(x: Value): Value {
  const e = x.data.map((v) => Math.exp(v - Math.max(...x.data)));
  const y = e.map((v) => v / sum(e));
  return value(y, [x], (g) => y.forEach((p, i) => (x.grad[i]! += p * (g[i]! - dot(g, y)))));
}
/** y = log p_i */
export const logAt = (p: Value, i: number): Value =>
  value([Math.log(p.data[i]!)], [p], (g) => void (p.grad[i]! += g[0]! / p.data[i]!));
/** y = a · σ(a) · b, SwiGLU (arXiv 2002.05202) */
export function swiglu(a: Value, b: Value): Value {
  const s = a.data.map((x) => 1 / (1 + Math.exp(-x)));
  const y = a.data.map((x, i) => x * s[i]! * b.data[i]!);
  return value(y, [a, b], (g) => {
    g.forEach((d, i) => (a.grad[i]! += d * b.data[i]! * s[i]! * (1 + a.data[i]! * (1 - s[i]!))));
    g.forEach((d, i) => (b.grad[i]! += d * a.data[i]! * s[i]!));
  });
}
/** y = r · x, r = 1 / √(mean of x² + ε), RMSNorm (arXiv 1910.07467); ∂y_j/∂x_i = r · ([i = j] − y_i · y_j / n) */
export function rmsNorm(x: Value): Value {
  const n = x.data.length;
  const r = 1 / Math.sqrt(dot(x.data, x.data) / n + 1e-6);
  const y = x.data.map((v) => r * v);
  return value(y, [x], (g) => g.forEach((d, i) => (x.grad[i]! += r * (d - (y[i]! * dot(g, y)) / n))));
}

// 2. The transformer: one layer, one head. V words, at most T read in an episode, C channels, F hidden units.
const [V, T, C, F] = [16, 13, 16, 32];
const SQUARES = { q: [C, C], k: [C, C], v: [C, C], o: [C, C] };
const SHAPES = { words: [V, C], positions: [T, C], ...SQUARES, gate: [F, C], up: [F, C], down: [C, F], output: [V, C] };
export type Model = Record<"words" | "positions" | "q" | "k" | "v" | "o" | "gate" | "up" | "down" | "output", Matrix>;
/** Numbers in (0, 1) that follow from the seed (Park and Miller 1988). */
export function random(seed: number): () => number {
  let state = (seed + 1) * 1_000_003;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}
export function initModel(rng: () => number): Model {
  const row = (columns: number): Value => value(times(columns, () => 0.7 * rng() - 0.35));
  const matrices = Object.entries(SHAPES).map(([name, [rows, columns]]) => [name, times(rows!, () => row(columns!))]);
  const model = Object.fromEntries(matrices) as Model;
  for (const { data } of model.positions) data.fill(0); // at first a word means the same in every place
  return model;
}
/** Reads a word; returns the probabilities of the next. The cache has the keys and values of all words until here. */
function read(m: Model, cache: Record<"keys" | "values", Value[]>, word: number): Value {
  const x = add(m.words[word]!, m.positions[cache.keys.length]!); // which word it is, and where it stands
  const a = rmsNorm(x);
  cache.keys.push(linear(m.k, a)); // its key, which the queries of later words are compared with
  cache.values.push(linear(m.v, a)); // its value, which they read
  const attention = softmax(linear(cache.keys, linear(m.q, a), 1 / Math.sqrt(C))); // how much from each word
  const y = add(x, linear(m.o, mix(attention, cache.values)));
  const b = rmsNorm(y);
  const z = add(y, linear(m.down, swiglu(linear(m.gate, b), linear(m.up, b))));
  return softmax(linear(m.output, rmsNorm(z))); // V numbers, which add up to 1
}

// 3. The world, and an episode in it. Playing builds the graph: each logProb is a Value that leads back to the model.
export const WORDS: readonly string[] = [..."abcdefgh", ..."012345", "no", "yes"]; // safe i is also word i
const randomCode = (rng: () => number): number[] => [0, 1].map(() => WORDS.indexOf("0") + Math.floor(6 * rng()));
/** Draws i with probability p_i: the first with p_0 + … + p_i > u. It exists: u < 1 − 4e-10, the sum is 1 ± 1e-15. */
const draw = (p: readonly number[], u: number): number => p.findIndex((_, i) => u < sum(p.slice(0, i + 1)));
export type Word = { by: "agent" | "world"; word: number; logProb: Value };
export type Episode = { words: readonly Word[]; reward: number };
export type Outcome = { reward: number; worldLoss: number };
/** @param lies the control: each answer tells a new random code; its yes or no and its safe stay true */
export function play(model: Model, safe: number, code: readonly number[], lies: boolean, rng: () => number): Episode {
  const words: Word[] = [];
  const cache = { keys: [], values: [] };
  let next = read(model, cache, safe);
  const write = (by: Word["by"], word: number): void => {
    words.push({ by, word, logProb: logAt(next, word) });
    next = read(model, cache, word);
  };
  for (let turn = 1; turn <= 2; turn++) {
    for (let i = 0; i < 2; i++) write("agent", draw(next.data, rng()));
    const opens = words.slice(-2).every(({ word }, i) => word === code[i]);
    const answer = [WORDS.indexOf(opens ? "yes" : "no"), safe, ...(lies ? randomCode(rng) : code)];
    for (const word of answer) write("world", word);
    if (opens) return { words, reward: 1 / turn };
  }
  return { words, reward: 0 };
}

// 4. Learning. The loss is a weighted sum of log p; who wrote a word decides its weight.
export function lossOf(group: readonly Episode[], lambda: number): Value {
  const mean = sum(group.map(({ reward }) => reward)) / group.length;
  const std = Math.sqrt(sum(group.map(({ reward }) => (reward - mean) ** 2)) / (group.length - 1));
  const weights = group.flatMap(({ words, reward }) => {
    const factor = { agent: (reward - mean) / (std + 1e-4), world: lambda };
    return words.map(({ by }) => -factor[by] / words.filter((word) => word.by === by).length / group.length);
  });
  const logProbs = group.flatMap(({ words }) => words.map(({ logProb }) => logProb));
  return mix(value(weights), logProbs);
}
/** Trains an agent: in each step it plays eight episodes with each safe. Returns outcomes by tenths of the steps. */
export function train(lambda: number, lies: boolean, seed: number, steps: number, rate = 0.01): Outcome[][] {
  const rng = random(seed); // for every agent the same codes, and the same weights to begin with
  const codes = times(8, () => randomCode(rng));
  const model = initModel(rng);
  const rows = Object.values(model).flat();
  const moments = rows.map(({ data }) => [data.map(() => 0), data.map(() => 0)] as const);
  const tenths = times(10, (): Outcome[] => []);
  for (let step = 1; step <= steps; step++) {
    for (const [safe, code] of codes.entries()) {
      const group = times(8, () => play(model, safe, code, lies, rng));
      backward(lossOf(group, lambda)); // the groups' gradients add up; Adam ignores their scale
      for (const { words, reward } of group) {
        const world = words.flatMap(({ by, logProb }) => (by === "world" ? logProb.data : []));
        tenths[Math.floor((10 * (step - 1)) / steps)]!.push({ reward, worldLoss: -sum(world) / world.length });
      }
    }
    for (const [r, { data, grad }] of rows.entries()) {
      const [m, v] = moments[r]!; // Adam (arXiv 1412.6980), β = 0.9 and 0.99
      for (const [i, g] of grad.entries()) {
        m[i] = 0.9 * m[i]! + 0.1 * g;
        v[i] = 0.99 * v[i]! + 0.01 * g * g;
        data[i]! -= (rate * m[i]) / (1 - 0.9 ** step) / (Math.sqrt(v[i] / (1 - 0.99 ** step)) + 1e-8);
        grad[i] = 0;
      }
    }
  }
  return tenths;
}
/** Trains four agents. A line: how often one opened the safe at once, by tenths of its run; mean −log p of answers. */
export function run(seed = 0, steps = 60): string[] {
  return [0, 0.5, 0, 0.5].map((lambda, i) => {
    const tenths = train(lambda, i > 1, seed, steps);
    const shares = tenths.map((tenth) => tenth.filter(({ reward }) => reward === 1).length / tenth.length);
    const percent = shares.map((share) => (100 * share).toFixed(0).padStart(3)).join(" ");
    const loss = sum(tenths[9]!.map(({ worldLoss }) => worldLoss)) / tenths[9]!.length;
    const name = `λ = ${lambda}${i > 1 ? ", told lies" : ""}`;
    return `${name.padEnd(18)} opened at once: ${percent} %; world loss at the end ${loss.toFixed(2)}`;
  });
}
if (import.meta.url === new URL(`file://${process.argv[1]}`).href) console.log(run().join("\n"));
