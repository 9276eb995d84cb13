/** The world of the one-file programs (`examples/grpo.ts` and those beside it) as an environment of the library. */
import { type EnvironmentSpec, SingleUseEnvironment, type StepResult } from "../../environments/index.ts";
import { assign, type Device, mapTree, type Tensor, tensor, treeEntries, treeLeaves } from "../../engine/index.ts";
import { answer, taskOf, warmStart, WORDS } from "../../examples/grpo.ts";
import { AdamW, type Model, type Tokenizer, type TransformerParams } from "../../nn/index.ts";

class Boxes extends SingleUseEnvironment {
  readonly name = "boxes";
  #task = "";
  #turn = 0;

  protected begin(seed: number): string {
    return (this.#task = taskOf(seed));
  }

  protected act(action: string): StepResult {
    const { text, reward, done } = answer(this.#task, this.#turn++, action);
    return { observation: text, reward, done, info: { success: reward > 0 } };
  }
}
export const boxes: EnvironmentSpec = {
  name: "boxes",
  description: "",
  families: [],
  make: () => new Boxes(),
  expert: () => "",
  random: () => "0",
};

/** One token for each word; a word is a letter, a digit or a tag. */
export const tokenizerOf = (words: readonly string[] = WORDS): Tokenizer =>
  ({
    vocabSize: words.length,
    special: Object.fromEntries(words.slice(0, 5).map((word, id) => [word, id])),
    encode: (text: string) => [...text].map((word) => words.indexOf(word)),
    decode: (ids: readonly number[]) => ids.map((id) => words[id]).join(""),
    decodeBytes: (ids: readonly number[]) => new TextEncoder().encode(ids.map((id) => words[id]).join("")),
  }) as unknown as Tokenizer;

/** What is trained, and what trains it. */
export interface Learner {
  readonly model: Model;
  readonly optimizer: AdamW<TransformerParams>;
}

/** A model with the same numbers, on the same device. */
export function copyOf({ config, params }: Model): Model {
  const copied = (x: Tensor): Tensor =>
    tensor(x.readSync(), { device: x.device, shape: x.shape, dtype: x.device.float });
  return { config, params: mapTree(params, copied) };
}

/** A learner with the same numbers, those of its optimiser included. */
export function copyOfLearner({ model, optimizer }: Learner): Learner {
  const own = copyOf(model);
  const copy: Learner = { model: own, optimizer: new AdamW(own.params as TransformerParams<Tensor>, { clipNorm: 1 }) };
  const { m, v, step } = optimizer.state;
  const moments = treeLeaves([m, v]);
  treeLeaves([copy.optimizer.state.m, copy.optimizer.state.v]).forEach((x, i) =>
    assign(x, tensor(moments[i]!.readSync(), { device: x.device, shape: x.shape, dtype: x.device.float })),
  );
  copy.optimizer.resume(step);
  return copy;
}

/** Copies of one learner that has imitated players who guess, which takes a second or two. */
export async function warmLearners(on: Device): Promise<() => Learner> {
  const warm = await warmStart(on, 3);
  return () => copyOfLearner(warm);
}

/** The parameters by name. */
export const parametersOf = async (
  params: Parameters<typeof treeEntries>[0],
): Promise<readonly (readonly [string, ArrayLike<number>])[]> =>
  Promise.all(treeEntries(params).map(async ([path, tensor]) => [path, await tensor.read()] as const));
