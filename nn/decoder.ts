/**
 * A decoder, which writes many texts at once with one cache. A call names the rows that have tokens to read; the others
 * do not change. All tokens of a call lie side by side without padding, whatever their rows and positions, so a prompt,
 * an answer of an environment and single sampled tokens of different texts share one forward pass.
 *
 * The results of a row depend only on that row: every kernel here works token by token, and the random number of a
 * token is a function of the row's stream and the token's position. WebGPU chooses the matrix product by its shape, so
 * that the last bits depend on the other rows there, unless a `width` keeps the shape the same.
 */
import type { Device } from "../engine/device.ts";
import { check } from "../engine/errors.ts";
import { number, options, type OptionsOf } from "../engine/optionTable.ts";
import { Rng } from "../engine/random.ts";
import { scope } from "../engine/scope.ts";
import { recordingOutside } from "../engine/tape.ts";
import type { Tensor } from "../engine/tensor.ts";
import { treeLeaves } from "../engine/tree.ts";
import { type CacheCopy, KvCache } from "./cache.ts";
import { CapturedSteps } from "./capturedSteps.ts";
import { type Part, type Plan, planStep, type Widths } from "./decodingPlan.ts";
import { decodingStep, drawnTokens, readTokens } from "./decodingStep.ts";
import { sharedRows } from "./rope.ts";
import { isFiltering, type SampledToken, sampleToken, SAMPLING } from "./sampler.ts";
import type { Model } from "./transformer.ts";

export type { Part } from "./decodingPlan.ts";

/** Options of a `Decoder`. */
export interface DecoderOptions {
  /**
   * The number of tokens in every forward pass, filled up with padding; at least as many as rows. Unless given: as many
   * as there are, on WebGPU rounded up to a power of two and no fewer than rows, so that few shapes occur. Only with a
   * given width the bits of a row on WebGPU do not depend on the other rows.
   */
  readonly width?: number;
}

const DRAW = options("Decoder.draw", {
  ...SAMPLING.fields,
  /** Rows that should have stopped earlier are to be cut with `truncate`. */
  burst: number(1, "tokens that each row draws before the host sees any; always 1 with top-k, top-p or min-p", {
    integer: true,
    min: 1,
  }),
});
/** Options of `Decoder.draw`. */
export type DrawOptions = OptionsOf<typeof DRAW>;

/** The largest number of tokens in one forward pass: more gain nothing, and cost memory. */
const MOST_TOKENS = 1024;

/** The widths that a decoder chooses if none is given. */
function widthsOn({ kind }: Device, rows: number): Widths {
  if (kind !== "webgpu") return { most: MOST_TOKENS, ofPass: (tokens) => tokens, ofDraw: (drawing) => drawing };
  const rounded = (n: number): number => 2 ** Math.ceil(Math.log2(n));
  const least = rounded(rows);
  return {
    most: MOST_TOKENS,
    ofPass: (tokens) => Math.max(least, rounded(tokens)),
    ofDraw: (drawing) => Math.max(least, rounded(drawing)),
  };
}

/**
 * A writer of many texts at once with one cache: `draw` reads the new tokens of each row and samples the next ones. To
 * be disposed.
 */
export class Decoder {
  readonly #model: Model;
  readonly #cache: KvCache;
  readonly #widths: Widths;
  readonly #params: readonly Tensor[];

  /** @param rows the number of texts @param capacity the largest number of tokens of a text */
  constructor(model: Model, rows: number, capacity: number, { width }: DecoderOptions = {}) {
    const { device } = model.params.embedding;
    check(
      width === undefined || (Number.isInteger(width) && width >= rows),
      () => `Decoder: width must be an integer ≥ ${rows}, the number of rows, got ${width}`,
    );
    this.#model = model;
    this.#params = treeLeaves(model.params);
    this.#cache = new KvCache(model.config, rows, capacity, device);
    this.#widths =
      width === undefined ? widthsOn(device, rows) : { most: width, ofPass: () => width, ofDraw: () => width };
  }

  /** The number of tokens in each row. */
  get lengths(): Int32Array {
    return this.#cache.lengths;
  }

  /**
   * Appends tokens to every row.
   * @param tokens one list per row, ragged; a row with nothing to add may be empty
   * @returns logits [R, V] that predict what follows each row's last token; those of an empty row are 0
   */
  async feed(tokens: readonly (readonly number[])[]): Promise<Float32Array | Float64Array> {
    const { vocabSize: V } = this.#model.config;
    const rows = this.#cache.rows;
    check(tokens.length === rows, () => `Decoder.feed: expected ${rows} rows, got ${tokens.length}`);
    const parts = tokens.flatMap((list, row) => (list.length > 0 ? [{ row, tokens: list }] : []));
    check(parts.length > 0, () => "Decoder.feed: every row is empty");
    const result = this.#step(parts, parts, 0)!;
    const values = (await result.read()) as Float32Array | Float64Array;
    result.dispose();
    const all = values instanceof Float32Array ? new Float32Array(rows * V) : new Float64Array(rows * V);
    parts.forEach(({ row }, i) => all.set(values.subarray(i * V, (i + 1) * V), row * V));
    return all;
  }

  /**
   * Reads the parts' tokens; rows with a stream then draw. After a burst of n tokens the cache holds the first n − 1:
   * the last one is yet to be read, as with n = 1.
   * @returns the drawn tokens of each part, none if it has no stream
   * @throws if a row has no room, a part is empty, or a logit is not finite
   */
  async draw(parts: readonly Part[], given?: DrawOptions): Promise<SampledToken[][]> {
    return this.start(parts, given)();
  }

  /**
   * As `draw`, in two halves: the executor gets the work at once, and the returned function waits for the drawn tokens.
   * The host's work in between costs no time where others compute (threads, a GPU). The function is to be called once,
   * before the next draw.
   */
  start(parts: readonly Part[], given?: DrawOptions): () => Promise<SampledToken[][]> {
    const { burst, ...sampling } = DRAW.read(given);
    check(parts.length > 0, () => "Decoder.draw: the list of parts is empty");
    check(new Set(parts.map(({ row }) => row)).size === parts.length, () => "Decoder.draw: a row occurs twice");
    const drawing = parts.filter((part) => part.rng !== undefined);
    const filters = isFiltering(sampling);
    const invTemperature = sampling.temperature === 0 ? 0 : 1 / sampling.temperature;
    const result = this.#step(parts, drawing, filters ? 0 : burst, invTemperature);
    if (result === undefined) return () => Promise.resolve(parts.map(() => []));
    const counters = drawing.map(({ row }) => this.lengths[row]!);
    const choose = (values: Float32Array | Float64Array, i: number): SampledToken[] => {
      if (!filters) return drawnTokens(values, i, burst, sampling.temperature === 0);
      const { vocabSize: V } = this.#model.config;
      const stream = new Rng({ key: drawing[i]!.rng!.key, counter: counters[i]! });
      return [sampleToken(values.subarray(i * V, (i + 1) * V), sampling, stream)];
    };
    // A read that does not block the host is begun at once: it sends the recorded commands.
    const early = result.device.backend.readSync === undefined ? result.read() : undefined;
    early?.catch(() => undefined); // the caller that awaits it gets the error
    return async () => {
      const values = (await (early ?? result.read())) as Float32Array | Float64Array;
      result.dispose();
      let next = 0;
      return parts.map(({ rng }) => (rng === undefined ? [] : choose(values, next++)));
    };
  }

  /**
   * Reads the tokens of the parts.
   * @returns the draws behind them (`#draw`), with no draws the logits [W, V]; undefined if no part draws
   */
  #step(parts: readonly Part[], drawing: readonly Part[], draws: number, invTemperature = 0): Tensor | undefined {
    return this.#keepingLengths(() => {
      const { config, params } = this.#model;
      const { float } = params.embedding.device;
      const how = { vocabSize: config.vocabSize, float, widths: this.#widths, draws, invTemperature };
      const plan = planStep(this.#cache, parts, drawing, how);
      if (drawing.length === 0) return void scope(() => void readTokens(this.#model, this.#cache, plan), "decode");
      const work = (current: Plan): Tensor => decodingStep(this.#model, this.#cache, current);
      const sizes = this.#sizesOf(plan);
      if (sizes === undefined || recordingOutside()) return work(plan);
      const inputs = [...this.#params, ...this.#cache.layers.flatMap(({ k, v }) => [k, v])];
      return CapturedSteps.of(this.#model).run(sizes, plan, inputs, work);
    });
  }

  /**
   * The key of a captured step: everything its work depends on beside the model, its inputs and the plan's numbers.
   * These are the width of the pass, which is that of the draw, the number of draws, the shape of the cache, and the
   * tables of angles. Undefined for steps that are not worth capturing, as hardly another one will have their sizes:
   * those that read more than a token for each drawing row, unless padding makes them as wide as others, and those with
   * a table of their own.
   */
  #sizesOf({ passes: [first, ...others], last, counters, drawn }: Plan): string | undefined {
    if (others.length > 0 || first!.ids.length !== last.length) return undefined;
    const { config } = this.#model;
    const tables = [first!.places, ...drawn].map(({ positions }) =>
      config.positions === "rotary" ? sharedRows(config, positions) : 0,
    );
    if (tables.includes(undefined)) return undefined;
    return [last.length, counters.length, this.#cache.rows, this.#cache.capacity, ...tables].join();
  }

  /** Runs `body`; if it throws, the rows get back their lengths. */
  #keepingLengths<R>(body: () => R): R {
    const before = this.lengths.slice();
    try {
      return body();
    } catch (error) {
      this.lengths.set(before);
      throw error;
    }
  }

  /** Forgets the tokens of a row from `length` on; 0 frees it for another text. */
  truncate(row: number, length: number): void {
    this.#cache.truncate(row, length);
  }

  /** Rows `to` begin with the first `length` tokens of rows `from`: a prompt that several share is read once. */
  copy(entries: readonly CacheCopy[]): void {
    this.#cache.copy(entries);
  }

  /** Keeps the given rows in this order. */
  select(rows: readonly number[]): void {
    this.#cache.select(rows);
  }

  dispose(): void {
    this.#cache.dispose();
  }
}
