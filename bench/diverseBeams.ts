/**
 * `npx tsx bench/diverseBeams.ts`: diverse beam search beside beam search with one group and sampling. stories260K
 * continues openings of stories, in eight tries each. A task is an opening and an animal, solved if one of the tries
 * names the animal; `alike` is the mean similarity of all pairs of tries (papers/rewards/similarity.ts).
 */
import { device, Rng } from "../engine/index.ts";
import { type Generated, generate } from "../nn/index.ts";
import { beamSearch } from "../papers/index.ts";
import { openModelFolder } from "../run/node/modelFolder.ts";
import { similarity } from "../papers/rewards/similarity.ts";
import { fileURLToPath } from "node:url";

const TRIES = 8;
const TOKENS = 24;
const ANIMALS = "dog cat bird frog bear fish duck mouse".split(" ");
const OPENINGS = ["little", "big", "happy", "pretty", "small", "funny", "old", "sad"].flatMap((word) => [
  `Once upon a time, there was a ${word}`,
  `One day, a ${word}`,
]);

const wasm = await device("wasm");
const folder = await openModelFolder(
  fileURLToPath(new URL("../tests/fixtures/pretrained/stories260K", import.meta.url)),
);
const { tokenizer, bos = "" } = folder;
const model = await folder.load(wasm, "f32");
const prompts = OPENINGS.map((text) => tokenizer.encode(`${bos}${text}`, { specials: "tokens" }));

async function sampled(seed: number, temperature: number): Promise<Generated[][]> {
  const all = prompts.flatMap((prompt) => Array.from({ length: TRIES }, () => prompt));
  const drawn = await generate(model, all, { maxNewTokens: TOKENS, temperature, rng: new Rng(seed) });
  return prompts.map((_, i) => drawn.slice(i * TRIES, (i + 1) * TRIES));
}
const searched = (beamGroups: number, diversityPenalty: number): Promise<Generated[][]> =>
  beamSearch(model, prompts, { beams: TRIES, beamGroups, diversityPenalty, maxNewTokens: TOKENS });

const mean = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length;
function report(name: string, found: readonly (readonly Generated[])[]): void {
  const texts = found.map((tries) => tries.map(({ tokens }) => tokenizer.decode(tokens.map(({ id }) => id))));
  const distinct = mean(texts.map((tries) => new Set(tries).size));
  const pairs = texts.flatMap((tries) => tries.flatMap((a, i) => tries.slice(0, i).map((b) => similarity(a, b))));
  const solved = texts.flatMap((tries) => ANIMALS.map((animal) => Number(tries.some((one) => one.includes(animal)))));
  const logProb = mean(found.flat().map(({ tokens }) => tokens.reduce((sum, token) => sum + token.plainLogProb, 0)));
  const figures = [distinct.toFixed(1), mean(pairs).toFixed(2), logProb.toFixed(1), (100 * mean(solved)).toFixed(1)];
  console.log(`${name.padEnd(28)} distinct ${figures[0]}  alike ${figures[1]}  ln p ${figures[2]}  ${figures[3]} %`);
}

report("beams, one group", await searched(1, 0));
for (const groups of [2, 4, 8])
  for (const penalty of [0.2, 0.5, 0.8, 2])
    report(`${groups} groups, penalty ${penalty}`, await searched(groups, penalty));
for (const temperature of [0.5, 1])
  for (const seed of [0, 1, 2]) report(`samples at ${temperature}, seed ${seed}`, await sampled(seed, temperature));
wasm.dispose();
