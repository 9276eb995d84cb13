/**
 * # 4 · The transformer: what a token may read, and what a cache saves
 *
 * **What you will understand:** how attention lets each word of a text read the words before it, why none reads a later
 * one, where the order of words comes from, and why writing with a cache costs a fifth here, a 600th for 1000 words.
 *
 * A *language model* gives each word of its vocabulary a probability to come next. `learn/00-micro.ts` has one with one
 * layer and one head, fed word by word. Here is the usual one (Llama, Qwen), made of the library's ops: more layers and
 * heads, rotary positions, all words of many texts at once. A *token* is a word's number; our words are the letters and
 * `>`. Endings of names are axes: B texts, T tokens read now, S tokens seen in all, C channels of a token, V words. The
 * task is to sort six different letters: `mitvqz>imqtvz`. Only what stands behind `>` can be known.
 */
import { AdamW, add, concat, crossEntropy, Decoder, device, embedding, fuse, generate, matmul } from "../index.ts";
import { modelConfig, ones, permute, randomNormal, reshape, rmsNorm, Rng, rotary, rotaryTables } from "../index.ts";
import { scope, softmax, tensor, type Tensor, valueAndGrad } from "../index.ts";

await device("wasm");
const rng = new Rng(0);
const WORDS = [..."abcdefghijklmnopqrstuvwxyz>"];
const [V, N] = [WORDS.length, 6];
const show = (tokens: number[]): string => tokens.map((token) => WORDS[token]).join("");
function example(): number[] {
  const left = Array.from({ length: V - 1 }, (_, letter) => letter);
  const drawn = Array.from({ length: N }, () => left.splice(rng.int(left.length), 1)[0]!);
  return [...drawn, WORDS.indexOf(">"), ...[...drawn].sort((a, b) => a - b)];
}
const idsOf = (rows: number[][]): Tensor => reshape(tensor(Int32Array.from(rows.flat())), [rows.length, -1]); // [B, T]

/**
 * ## Attention: a soft lookup
 *
 * Each token makes three vectors from its channels: a *query* q (what it looks for), a *key* k (by which it is found)
 * and a *value* v (what it then tells). Token t reads the mean of the values, weighted by how well q_t fits their keys
 * (Vaswani et al. 2017, arXiv 1706.03762, eq. 1):
 *
 *     w_ts = e^(q_t·k_s/√D) / Σ_r e^(q_t·k_r/√D),   out_t = Σ_s w_ts · v_s,   over s and r that t may read
 *
 * D is the length of q and k. A sum of D independent products of size 1 has size √D; divided by that, weights do not
 * begin as all or nothing. The **mask** allows s ≤ t only: a token must not read what it is to predict. H such lookups
 * stand side by side, the *heads*, each with vectors of its own. Here G = H/KV = 2 heads of queries share one of KV
 * heads of keys and values: *grouped queries* (arXiv 2305.13245), for half the memory. `matmul` multiplies over the
 * last two axes and repeats that for all axes in front, where a size of 1 goes with any.
 */

const [C, F, LAYERS, H, KV, D] = [32, 64, 2, 4, 2, 8];
let multiplyAdds = 0; // counts each a·b that is added to a sum
type Weight = { readonly weight: Tensor };
/** y = x·Wᵀ for x [..., in] and W [out, in]. */
function linear(x: Tensor, { weight }: Weight): Tensor {
  multiplyAdds += x.size * weight.shape[0]!;
  return matmul(x, weight, { transB: true });
}
/** q [B, T, H, D], k and v [B, S, KV, D]; mask [T, S], 0 where nothing is read → weights [B, KV, G, T, S] and out. */
function attend(q: Tensor, k: Tensor, v: Tensor, mask_TS: Tensor): { weights: Tensor; out_BTC: Tensor } {
  const [B, T, S] = [q.shape[0]!, q.shape[1]!, k.shape[1]!];
  multiplyAdds += 2 * B * H * T * S * D;
  const queries = permute(reshape(q, [B, T, KV, H / KV, D]), [0, 2, 3, 1, 4]); // [B, KV, G, T, D]
  const heads = (x: Tensor): Tensor => reshape(permute(x, [0, 2, 1, 3]), [B, KV, 1, S, D]);
  const scores = matmul(queries, heads(k), { transB: true, scale: 1 / Math.sqrt(D) }); // [B, KV, G, T, S]
  const weights = softmax(scores, { mask: mask_TS });
  const out = permute(matmul(weights, heads(v)), [0, 3, 1, 2, 4]); // [B, T, KV, G, D]
  return { weights, out_BTC: reshape(out, [B, T, H * D]) };
}

/**
 * ## The model
 *
 * A token begins as a row of a table, its *embedding*. Each layer adds to it twice: what attention read, and what a
 * small network makes of the token alone (*SwiGLU*, arXiv 2002.05202: g·σ(g)·u with g = x·Gᵀ, u = x·Uᵀ and σ(g) =
 * 1/(1 + e^(−g)), then one more matrix). As layers only add, a straight path leads from the loss to each. In front of
 * both stands *RMSNorm* (arXiv 1910.07467): channels are divided by their root mean square, then multiplied by learned
 * gains. At the end the channels meet every row of the embedding again (*tied* head, arXiv 1608.05859); these V
 * products are the *logits*, and their softmax is the prediction.
 *
 * So far order shows in the mask alone: a weighted mean has none. *Rotary positions* (arXiv 2104.09864) turn q and k by
 * angles that grow with their position p: the numbers j and j + D/2, as a point of a plane, by p·10000^(−2j/D). Turning
 * both by the same angle changes no product, so q·k depends on their distance only. `forward` reads T tokens that
 * follow those whose keys and values are in `past` (in training, none).
 */

const gains = (): Weight => ({ weight: ones([C]) });
const matrix = (out: number, from: number): Weight => ({ weight: randomNormal(rng, [out, from], { std: 0.03 }) });
const params = {
  embedding: matrix(V, C).weight,
  layers: Array.from({ length: LAYERS }, () => ({
    inputNorm: gains(),
    attention: { q: matrix(H * D, C), k: matrix(KV * D, C), v: matrix(KV * D, C), o: matrix(C, H * D) },
    postNorm: gains(),
    mlp: { gate: matrix(F, C), up: matrix(F, C), down: matrix(C, F) },
  })),
  norm: gains(),
};
type Cache = readonly { readonly k: Tensor; readonly v: Tensor }[]; // of each layer, [B, S, KV, D]
const swiglu = fuse("swiglu", (g, u) => g.mul(g.sigmoid()).mul(u));
const norm = (x: Tensor, { weight }: Weight): Tensor => rmsNorm(x, weight, 1e-6); // weight · x / √(mean x² + 1e-6)
const { cos, sin } = rotaryTables(256, D); // of the angles, for positions 0 to 255
function forward(p: typeof params, ids_BT: Tensor, past: Cache = [], positionOf = (t: number) => t) {
  const [B, T] = ids_BT.shape as [number, number];
  const before = past[0]?.k.shape[1] ?? 0;
  const S = before + T;
  const positions_T = tensor(Int32Array.from({ length: T }, (_, t) => positionOf(before + t)));
  const mask = Float32Array.from({ length: T * S }, (_, i) => Number(i % S <= before + Math.floor(i / S)));
  const mask_TS = tensor(mask, { shape: [T, S] });
  let x_BTC = embedding(p.embedding, ids_BT);
  const layers = p.layers.map(({ inputNorm, attention, postNorm, mlp }, n) => {
    const a = norm(x_BTC, inputNorm);
    const heads = (w: Weight): Tensor => reshape(linear(a, w), [B, T, -1, D]);
    const turn = (x: Tensor): Tensor => rotary(x, positions_T, cos, sin);
    const behind = (old: Tensor | undefined, x: Tensor): Tensor => (old ? concat([old, x], { axis: 1 }) : x);
    const k = behind(past[n]?.k, turn(heads(attention.k)));
    const v = behind(past[n]?.v, heads(attention.v));
    const { weights, out_BTC } = attend(turn(heads(attention.q)), k, v, mask_TS);
    x_BTC = add(x_BTC, linear(out_BTC, attention.o));
    const b = norm(x_BTC, postNorm);
    x_BTC = add(x_BTC, linear(swiglu(linear(b, mlp.gate), linear(b, mlp.up)), mlp.down));
    return { k, v, weights };
  });
  return { logits: linear(norm(x_BTC, p.norm), { weight: p.embedding }), layers };
}

/**
 * ## Training
 *
 * The loss is the mean of −log p(next token) over the six letters of the answer. With small random weights all 27 words
 * are about equally likely, so it begins near log 27 = 3.296. One pass predicts at all places of 32 texts at once. This
 * is what the mask is for: each place has to be predicted as it will be when nothing stands behind it yet.
 */

function lossOf(p: typeof params, rows: number[][]): Tensor {
  const targets = idsOf(rows.map((row) => row.slice(1).map((id, t) => (t < N ? -1 : id)))); // −1: no loss
  return crossEntropy(forward(p, idsOf(rows.map((row) => row.slice(0, -1)))).logits, targets, { ignoreIndex: -1 });
}
const STEPS = 400;
const optimizer = new AdamW(params, { weightDecay: 0, clipNorm: 1 }); // Adam; a gradient longer than 1 is cut to 1
for (let step = 0; step < STEPS; step++) {
  const rows = Array.from({ length: 32 }, example);
  const loss = scope(() => {
    const { value, grads } = valueAndGrad((p: typeof params) => lossOf(p, rows))(params);
    optimizer.step(grads, 0.01 * (1 - step / STEPS));
    return value; // all other tensors are freed
  });
  if (step % 100 === 0 || step === STEPS - 1) console.log(`step ${step}: loss ${(await loss.item()).toFixed(3)}`);
}

/**
 * ## What the mask and the rotation do
 *
 * Change the last five tokens of a text: predictions in front of them stay the same to the last bit, as those tokens
 * have weight 0 there. Add 100 to all positions: only distances matter, so nothing changes but rounding. Double them:
 * predictions change. Sorting does not need them: with `positionOf = () => 0` in `forward` the loss ends at 0.014.
 * Copying (no `.sort(…)`) ends at 0.35; with all 0, where only the mask shows order, at 1.71 (cf. arXiv 2305.19466).
 */

const logitsOf = (tokens: number[], positionOf?: (t: number) => number): Promise<Float32Array> =>
  forward(params, idsOf([tokens]), [], positionOf).logits.read() as Promise<Float32Array>;
const gap = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Math.max(...Array.from(a, (x, i) => Math.abs(x - b[i]!)));
const text = example();
const [logits, others] = [await logitsOf(text), await logitsOf([...text.slice(0, -5), 4, 3, 2, 1, 0])];
const early = gap(logits.slice(0, 8 * V), others);
console.log(`tokens 8 to 12 changed: logits of 0 to 7 by ${early}, others by up to ${gap(logits, others).toFixed(1)}`);
console.log(`positions + 100: by less than 1e-3: ${gap(logits, await logitsOf(text, (t) => t + 100)) < 1e-3}`);
console.log(`positions · 2: by up to ${gap(logits, await logitsOf(text, (t) => 2 * t)).toFixed(1)}`);

/**
 * ## What a head looks at
 *
 * Weights of the first head of the first layer, in percent: a row is a token that reads, a column one that is read. In
 * five rows of six the next letter of the answer has the largest weight. No one told the head; the loss did.
 */

const weights = await forward(params, idsOf([text.slice(0, -1)])).layers[0]!.weights.read(); // from 0 on: of head 0
console.log(`  ${[...show(text.slice(0, -1))].map((word) => word.padStart(4)).join("")}`);
for (let t = N; t < 2 * N; t++) {
  const row = Array.from(weights.slice(2 * N * t, 2 * N * t + t + 1), (w) => `${Math.round(100 * w)}`.padStart(4));
  console.log(`${WORDS[text[t]!]} ${row.join("")}`);
}

/**
 * ## Writing, without a cache and with one
 *
 * To write: predict, append the likeliest token, predict again. Done plainly, each token costs a pass over the whole
 * text. But a later token changes no earlier key or value (the mask again), so they can be kept: the *KV cache*. Then
 * only the new token is read, and its query meets all keys. The letters are the same, the logits but for rounding.
 *
 * A token costs P multiply-adds in matrices, a pair of query and key A in attention. Passes over 1, …, n tokens cost
 * Σ (t·P + t²·A) = P·n(n+1)/2 + A·n(n+1)(2n+1)/6, single tokens with a cache n·P + A·n(n+1)/2. The price is memory:
 * 2·LAYERS·KV·D numbers a token. At the end the library does the same: `Decoder` keeps a cache, `generate` writes.
 */

async function write(prompt: number[], isCaching: boolean): Promise<number[]> {
  multiplyAdds = 0;
  let past: Cache = [];
  const [tokens, all]: [number[], number[]] = [[...prompt], []];
  while (tokens.length < prompt.length + N) {
    const unread = tokens.slice(past[0]?.k.shape[1] ?? 0);
    const { logits, layers } = scope(() => forward(params, idsOf([unread]), past));
    if (isCaching) past = layers;
    const last = (await logits.read()).slice(-V);
    all.push(...last);
    tokens.push(last.indexOf(Math.max(...last)));
  }
  console.log(`${isCaching ? "with a cache " : "without cache"} ${show(tokens)}: ${multiplyAdds} multiply-adds`);
  return all;
}
const prompt = text.slice(0, N + 1);
const [plain, cached] = [await write(prompt, false), await write(prompt, true)];
console.log(`logits differ by less than 1e-4: ${gap(plain, cached) < 1e-4}`);
const [P, A] = [LAYERS * (2 * C * H * D + 2 * C * KV * D + 3 * C * F) + C * V, 2 * LAYERS * H * D];
const passes = (n: number): number => (P * n * (n + 1)) / 2 + (A * n * (n + 1) * (2 * n + 1)) / 6;
console.log(`formula for passes over 7 to 12 tokens: ${passes(2 * N) - passes(N)}`);
console.log(`1000 tokens: ${passes(1000)} without a cache, ${1000 * P + (A * 1000 * 1001) / 2} with one`);
const sizes = { vocabSize: V, hiddenSize: C, intermediateSize: F, layers: LAYERS, heads: H, kvHeads: KV, headDim: D };
const model = { config: modelConfig({ ...sizes, normEps: 1e-6, maxPositions: 256, tieEmbeddings: true }), params };
const fed = gap(await new Decoder(model, 1, 2 * N).feed([prompt]), plain);
console.log(`Decoder: logits differ by less than 1e-4: ${fed < 1e-4}`);
const texts = [text, ...Array.from({ length: 99 }, example)];
const prompts = texts.map((text) => text.slice(0, N + 1));
const answers = await generate(model, prompts, { maxNewTokens: N, temperature: 0 });
const written = answers.map(({ tokens }, i) => show([...prompts[i]!, ...tokens.map(({ id }) => id)]));
const right = written.filter((line, i) => line === show(texts[i]!));
console.log(`generate: ${written[0]}; of 100 texts ${right.length} right`);

/**
 * ## Break it
 *
 * ```diff
 * -  const weights = softmax(scores, { mask: mask_TS });
 * +  const weights = softmax(scores);
 * ```
 *
 * Without the mask the loss falls faster and further: a token finds what it is to predict right behind it. In writing
 * nothing stands there yet, and few texts come out right. Logits in front of a change now change, and a cache gives
 * other logits. (The library still has its mask.) When a loss is too good, look for such a leak.
 *
 * ## Simplifications so far
 *
 * - All texts have one length; the library packs texts of any lengths into rows and keeps them apart (`segments`).
 * - The cache grows by copying (`concat`), one text at a time. Writing takes the likeliest token and draws none.
 *
 * ## In the library
 *
 * `nn/transformer.ts` is this forward pass, for the variants of Qwen and GPT-2 as well; `nn/cache.ts` and
 * `nn/decoder.ts` are a cache with room from the start, for many texts; `nn/generate.ts` is the loop.
 * `engine/ops/attention.ts` stores no weights [T, S] but running sums (arXiv 1805.02867, 2205.14135).
 *
 * ## Exercises
 *
 * Turn a vector by its position. Compute attention in one pass over the keys, with nothing stored but running sums.
 */
