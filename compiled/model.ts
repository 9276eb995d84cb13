/** A compiled model in use: a memory, its kernels, and the calls that decode a token. */
import { acting, type ActOptions } from "../data/acting.ts";
import { check, reasonOf, WorldgradError } from "../engine/errors.ts";
import type { TypedArray } from "../engine/backends/backend.ts";
import { drawnTokens } from "../nn/decodingStep.ts";
import { isFiltering, type SampledToken } from "../nn/sampler.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { playAll, Player, type Writer } from "../rl/play/player.ts";
import { checkVocabulary, ROLLOUT, type RolloutOptions, settingsOf } from "../rl/play/rollout.ts";
import { type Call, type Compiled, DATA, fromFile, INPUT, type Programs, type Sizes } from "./format.ts";

const PAGE = 65_536;

type Run = (...args: readonly number[]) => void;
/** How a token is drawn. */
interface Draw {
  readonly key: readonly [number, number];
  readonly temperature: number;
}

/**
 * Opens a model that `compileModel` has made.
 * @param file its bytes
 * @throws if they are no such file, a part of one, damaged or of another version, or without WebAssembly SIMD
 * @example
 * const agent = await openCompiled(new Uint8Array(await (await fetch("agent.bin")).arrayBuffer()));
 */
export async function openCompiled(file: Uint8Array): Promise<CompiledModel> {
  const compiled = fromFile(file);
  const pages = Math.ceil(compiled.sizes.memory / PAGE);
  let memory: WebAssembly.Memory;
  let runs: Run[];
  try {
    memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    const made = compiled.kernels.map((bytes) => WebAssembly.instantiate(bytes.slice(), { env: { memory } }));
    runs = (await Promise.all(made)).map(({ instance }) => instance.exports["run"] as Run);
  } catch (error) {
    throw new WorldgradError(
      "openCompiled: the kernels cannot be made; they need WebAssembly with SIMD (2021 or later), " +
        `${pages * PAGE} bytes of memory, and 'wasm-unsafe-eval' in a page's policy: ${reasonOf(error)}`,
      { cause: error },
    );
  }
  try {
    return new CompiledModel(compiled, memory, runs);
  } catch (error) {
    throw new WorldgradError(`openCompiled: the file is damaged: ${reasonOf(error)}`, { cause: error });
  }
}

/** Options of `CompiledModel.act`: those of `act`, but for the filters of tokens. */
export type CompiledActOptions = Omit<ActOptions, "topK" | "topP" | "minP">;

/**
 * A model that acts, of a file; see `openCompiled`. It has one memory of keys and values: an episode that goes on after
 * another has acted is read again from its start.
 */
export class CompiledModel {
  /** The most tokens of a text. */
  readonly maxTokens: number;
  /** The tokens that it can read and draw. */
  readonly vocabSize: number;
  readonly #sizes: Sizes;
  readonly #programs: Programs;
  /** What each step writes anew, by its number. */
  readonly #data = new Map<number, Uint8Array>();
  readonly #memory: WebAssembly.Memory;
  readonly #runs: readonly Run[];
  /** The tokens whose keys and values the memory has. */
  readonly #held: number[] = [];

  constructor({ sizes, programs, data }: Compiled, memory: WebAssembly.Memory, runs: readonly Run[]) {
    ({ maxTokens: this.maxTokens, vocabSize: this.vocabSize } = sizes);
    [this.#sizes, this.#programs, this.#memory, this.#runs] = [sizes, programs, memory, runs];
    this.#perform(programs.once, new Map(data.entries()));
    // The weights are in the memory now, and the file is not needed any more.
    for (const [kind, , n] of [...programs.read, ...programs.draw])
      if (kind === DATA) this.#data.set(n!, data[n!]!.slice());
  }

  /**
   * An episode in which the caller is the environment, as `act` plays it: each `next` takes what was observed of the
   * last action, and gives another.
   * @param template the one that the model was trained with
   * @param options those of `act`; tokens are drawn from the whole vocabulary, so top-k, top-p and min-p are refused
   * @returns the episode, when its turns or its context are used up; nothing after `return(undefined)`
   * @example
   * const episode = agent.act(template, "Guess a number from 1 to 9", { maxActionTokens: 3 });
   * let { value: action } = await episode.next();            // "5"
   * ({ value: action } = await episode.next("higher"));      // "7"
   * await episode.return(undefined);                         // it is over
   */
  act(
    template: Template,
    task: string,
    options: CompiledActOptions = {},
  ): AsyncGenerator<string, Trajectory | undefined, string> {
    return acting(async (request, given) => playAll(this.#player(template, given), [request]), task, options);
  }

  #player(template: Template, options: RolloutOptions): Player {
    const given = ROLLOUT.read(options);
    const { vocabSize, maxTokens: positions } = this;
    checkVocabulary({ vocabSize }, template, "act");
    check(!isFiltering(given), () => "act: a compiled model draws from all tokens; leave out topK, topP and minP");
    return new Player(this.#writer(), { ...settingsOf(template, given, positions, 1), rows: 1 });
  }

  /** What reads and draws the tokens of one episode. */
  #writer(): Writer {
    const text: number[] = [];
    return {
      start: ([part], { temperature = 1 } = {}) => {
        const { tokens, rng } = part!;
        text.push(...tokens);
        const { maxTokens, vocabSize } = this;
        const wrong = text.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
        check(wrong === undefined, () => `act: the id ${wrong} is none of the model's vocabulary of ${vocabSize}`);
        check(text.length <= maxTokens, () => `act: ${text.length} tokens do not fit into ${maxTokens} positions`);
        return () => Promise.resolve([this.#read(text, rng && { key: rng.key, temperature })]);
      },
      truncate: (_, length) => void (text.length = length),
      copy: () => undefined, // there is one row
      dispose: () => undefined,
    };
  }

  /**
   * Reads a text, from where it differs from what was read last.
   * @returns the token that is drawn behind it, if one is
   */
  #read(text: readonly number[], draw: Draw | undefined): SampledToken[] {
    const held = this.#held;
    const differs = text.findIndex((id, t) => id !== held[t]);
    // Its last token is read in any case: that gives what follows.
    held.length = Math.min(text.length - 1, differs < 0 ? text.length : differs);
    let drawn: SampledToken[] = [];
    for (let t = held.length; t < text.length; t++) {
      drawn = this.#step(text[t]!, t, t === text.length - 1 ? draw : undefined);
      held.push(text[t]!);
    }
    return drawn;
  }

  /** Reads a token at its position. @returns the token that is drawn behind it, if one is */
  #step(id: number, position: number, draw: Draw | undefined): SampledToken[] {
    const { maxTokens, kvHeads, drawn } = this.#sizes;
    const slots = Int32Array.from({ length: kvHeads }, (_, head) => head * maxTokens + position);
    // In the order of `inputsOf`.
    const inputs: TypedArray[] = [Int32Array.of(id), Int32Array.of(0), Int32Array.of(position), slots];
    if (draw === undefined) {
      this.#perform(this.#programs.read, this.#data, inputs);
      return [];
    }
    const { key, temperature } = draw;
    const scale = Float32Array.of(temperature === 0 ? 0 : 1 / temperature);
    inputs.push(Int32Array.of(0), scale, Int32Array.of(key[0], key[1]), Int32Array.of(position + 1));
    this.#perform(this.#programs.draw, this.#data, inputs);
    return drawnTokens(new Float32Array(this.#memory.buffer, drawn, 3), 0, 1, temperature === 0);
  }

  #perform(calls: readonly Call[], data: ReadonlyMap<number, Uint8Array>, inputs: readonly TypedArray[] = []): void {
    const write = (address: number, { buffer, byteOffset, byteLength }: TypedArray | Uint8Array): void =>
      new Uint8Array(this.#memory.buffer, address).set(new Uint8Array(buffer, byteOffset, byteLength));
    for (const [kind, ...args] of calls) {
      const [address, n] = args as [number, number];
      if (kind === INPUT) write(address, inputs[n]!);
      else if (kind === DATA) write(address, data.get(n)!);
      else this.#runs[kind!]!(...args);
    }
  }
}
