/**
 * A character language model: a small transformer learns a nursery rhyme by heart and then recites it.
 * `npx tsx examples/char-lm.ts`
 *
 * After Karpathy's min-char-rnn and nanoGPT. Everything that happens is in this file, except what the imports name; in
 * a program of your own they come from "worldgrad".
 */
import { crossEntropy, device, Rng, scope, tensor, valueAndGrad } from "../index.ts";
import { AdamW, byteTokenizer, forward, generate, initParams, logits, modelConfig, schedule } from "../index.ts";

const TEXT = `This is the house that Jack built.
This is the malt that lay in the house that Jack built.
This is the rat that ate the malt that lay in the house that Jack built.
This is the cat that killed the rat that ate the malt that lay in the house that Jack built.
This is the dog that worried the cat that killed the rat that ate the malt that lay in the house that Jack built.
`;
const B = 4; // rows in a batch
const T = 112; // tokens in a row
const STEPS = 300;

const on = await device("wasm"); // or "auto", "webgpu", "reference"
const rng = new Rng(0); // the same seed gives the same run, bit for bit

// One token per byte; a text is a list of ids.
const tokenizer = byteTokenizer();
const ids = tokenizer.encode(TEXT);

// A model is a configuration and a plain tree of tensors.
const config = modelConfig({ vocabSize: tokenizer.vocabSize, hiddenSize: 48, layers: 2, heads: 4, maxPositions: 128 });
const params = initParams(config, rng.split("init"), on);
const optimizer = new AdamW(params, { clipNorm: 1 });
const lr = schedule({ lr: 6e-3, warmup: 10, decay: "cosine", steps: STEPS });

for (let step = 0; step < STEPS; step++) {
  // Random windows of the text; the target of each token is the one after it.
  const starts = Array.from({ length: B }, () => rng.int(ids.length - T));
  const inputs = starts.flatMap((at) => ids.slice(at, at + T));
  const targets = starts.flatMap((at) => ids.slice(at + 1, at + T + 1));

  // All tensors made in a scope are freed when it ends, except what it returns.
  const loss = scope(() => {
    const inputs_BT = tensor(inputs, { dtype: "i32", shape: [B, T] });
    const targets_BT = tensor(targets, { dtype: "i32", shape: [B, T] });
    const lossOf = valueAndGrad((p: typeof params) =>
      crossEntropy(logits(p, forward(p, config, inputs_BT)), targets_BT),
    );
    const { value, grads } = lossOf(params);
    optimizer.step(grads, lr(step)); // writes the parameters in place
    return value;
  });
  if (step % 50 === 0 || step === STEPS - 1) {
    console.log(`step ${String(step).padStart(3)}  loss ${(await loss.item()).toFixed(3)} nats per character`);
  }
  loss.dispose();
}

const prompt = tokenizer.encode("This is the dog");
const [sample] = await generate({ config, params }, [prompt], { maxNewTokens: 100, temperature: 0 });
console.log(`\nThis is the dog${tokenizer.decode(sample!.tokens.map((token) => token.id))}`);
