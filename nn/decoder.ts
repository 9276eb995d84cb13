/**
 * Writing many texts at once with one cache. A call names the rows that have something to read; the others rest. All
 * tokens of a call lie side by side without padding, whatever their rows and positions, so a prompt, an answer of an
 * environment and single sampled tokens of different texts share one forward pass.
 *
 * What a row reads and draws depends on that row only: every kernel here works token by token, and the random number of
 * a token is a function of the row's stream and the token's position. On WebGPU the matrix product is chosen by its
 * shape, so there `width` keeps the shape the same.
 */
import { check } from "../engine/errors.ts";
import { number, options, type OptionsOf } from "../engine/optionTable.ts";
import { full, tensor } from "../engine/ops/create.ts";
import { cast } from "../engine/ops/indexing.ts";
import { concat, reshape } from "../engine/ops/movement.ts";
import { sampleTokens } from "../engine/ops/sample.ts";
import { Rng } from "../engine/random.ts";
import { scope } from "../engine/scope.ts";
import type { Tensor } from "../engine/tensor.ts";
import { type CacheCopy, emptyPlaces, KvCache, setPlace } from "./cache.ts";
import { isFiltering, type SampledToken, sampleToken, SAMPLING } from "./sampler.ts";
import { forward, logits, type Model, pickHidden } from "./transformer.ts";

/** Options of a `Decoder`. */
export interface DecoderOptions {
  /**
   * Tokens in every forward pass, filled up with padding; at least as many as rows. Unless given: as many as there are,
   * on WebGPU the rows rounded up to a power of two, so that few shapes occur.
   */
  readonly width?: number;
}

/**
 * What a row reads next, and, if it is to draw, from which stream: the token at position p takes the stream's p-th
 * number.
 */
export interface Part {
  readonly row: number;
  /** At least one. */
  readonly tokens: readonly number[];
  readonly rng?: Rng;
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

/** Tokens of one forward pass at most: more gain nothing, and cost memory. */
const MOST_TOKENS = 1024;

/**
 * Writes many texts at once with one cache: `draw` reads what is new to each row and samples what follows. To be
 * disposed.
 */
export class Decoder {
  readonly #model: Model;
  readonly #cache: KvCache;
  readonly #width: number | undefined;

  /** @param rows texts at once @param capacity tokens of a text at most */
  constructor(model: Model, rows: number, capacity: number, { width }: DecoderOptions = {}) {
    const { device } = model.params.embedding;
    this.#model = model;
    this.#cache = new KvCache(model.config, rows, capacity, device);
    this.#width = width ?? (device.kind === "webgpu" ? 2 ** Math.ceil(Math.log2(rows)) : undefined);
    check(
      width === undefined || (Number.isInteger(width) && width >= rows),
      () => `Decoder: width must be an integer ≥ ${rows}, the number of rows, got ${width}`,
    );
  }

  /** Tokens in each row. */
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
    const result = this.#keepingLengths(() => scope(() => this.#read(parts, parts), "decode"));
    const values = (await result.read()) as Float32Array | Float64Array;
    result.dispose();
    const all = values instanceof Float32Array ? new Float32Array(rows * V) : new Float64Array(rows * V);
    parts.forEach(({ row }, i) => all.set(values.subarray(i * V, (i + 1) * V), row * V));
    return all;
  }

  /**
   * Reads the parts' tokens; rows with a stream then draw. Of a burst of n tokens the cache holds the first n − 1
   * afterwards: the last one drawn is yet to be read, as with n = 1.
   * @returns for each part what it drew, nothing if it has no stream
   * @throws if a row has no room, a part is empty, or a logit is not finite
   */
  async draw(parts: readonly Part[], given?: DrawOptions): Promise<SampledToken[][]> {
    return this.start(parts, given)();
  }

  /**
   * As `draw`, in two halves: the work is given to the executor at once, and the function that is returned waits for
   * what was drawn. What the host does in between costs no time where others compute (threads, a GPU). To be called
   * once, before the next draw.
   */
  start(parts: readonly Part[], given?: DrawOptions): () => Promise<SampledToken[][]> {
    const { burst, ...sampling } = DRAW.read(given);
    check(parts.length > 0, () => "Decoder.draw: the list of parts is empty");
    check(new Set(parts.map(({ row }) => row)).size === parts.length, () => "Decoder.draw: a row occurs twice");
    const drawing = parts.filter((part) => part.rng !== undefined);
    const filters = isFiltering(sampling);
    const invTemperature = sampling.temperature === 0 ? 0 : 1 / sampling.temperature;
    const result = this.#keepingLengths(() =>
      scope(() => {
        if (drawing.length === 0) return void this.#read(parts, drawing);
        return filters ? this.#read(parts, drawing) : this.#burst(parts, drawing, invTemperature, burst);
      }, "decode"),
    );
    if (result === undefined) return () => Promise.resolve(parts.map(() => []));
    const counters = drawing.map(({ row }) => this.lengths[row]!);
    const choose = (values: Float32Array | Float64Array, i: number): SampledToken[] => {
      if (!filters) return tokensOf(values, i, burst, sampling.temperature === 0);
      const { vocabSize: V } = this.#model.config;
      const stream = new Rng({ key: drawing[i]!.rng!.key, counter: counters[i]! });
      return [sampleToken(values.subarray(i * V, (i + 1) * V), sampling, stream)];
    };
    // A read that does not hold up the host is begun at once: it sends what was recorded.
    const early = result.device.backend.readSync === undefined ? result.read() : undefined;
    early?.catch(() => undefined); // whoever waits hears of it
    return async () => {
      const values = (await (early ?? result.read())) as Float32Array | Float64Array;
      result.dispose();
      let next = 0;
      return parts.map(({ rng }) => (rng === undefined ? [] : choose(values, next++)));
    };
  }

  /** What is drawn by each drawing part: ids, log-probabilities, plain ones, [3 · burst, width]. */
  #burst(parts: readonly Part[], drawing: readonly Part[], invTemperature: number, burst: number): Tensor {
    const { config, params } = this.#model;
    const { device } = params.embedding;
    const width = this.#width ?? drawing.length;
    const scale = full([width], invTemperature, { device });
    const keys = new Int32Array(2 * width);
    drawing.forEach(({ rng }, i) => keys.set([rng!.key[0] | 0, rng!.key[1] | 0], 2 * i));
    const keyTensor = tensor(keys, { device, shape: [width, 2] });
    const results: Tensor[] = [];
    const rows = drawing.map(({ row }) => row);
    let scores = this.#read(parts, drawing);
    for (let n = 0; ; n++) {
      const counters = new Int32Array(width);
      rows.forEach((row, i) => (counters[i] = this.lengths[row]!));
      const { ids, logProbs, plainLogProbs } = sampleTokens(scores, scale, keyTensor, tensor(counters, { device }));
      results.push(cast(ids, device.float), logProbs, plainLogProbs);
      if (n === burst - 1) return reshape(concat(results), [3 * burst, width]);
      const places = this.#cache.appendWhereRoom(rows, width);
      const hidden = forward(params, config, reshape(ids, [1, width]), { cache: { store: this.#cache, places } });
      scores = logits(params, reshape(hidden, [width, config.hiddenSize]));
    }
  }

  /**
   * Reads all tokens of the parts.
   * @returns logits [drawing, V] after the last token of each drawing part, with `width` given [width, V]
   */
  #read(parts: readonly Part[], drawing: readonly Part[]): Tensor {
    const { config, params } = this.#model;
    const { device } = params.embedding;
    const places = this.#cache.append(
      parts.map(({ row, tokens }) => {
        check(tokens.length > 0, () => `Decoder: row ${row} has no tokens to read`);
        return { row, count: tokens.length };
      }),
    );
    // What is read, as indices into `places`: first all but the last tokens of drawing parts, then those, so that one
    // pass has them all. Any order will do in which a row's tokens are not read before those in front of them.
    const order = new Int32Array(places.rows.length);
    const ids = new Int32Array(order.length);
    const isDrawing = new Set(drawing);
    let [at, front, back] = [0, 0, order.length - drawing.length];
    for (const part of parts) {
      const { tokens } = part;
      const lead = isDrawing.has(part) ? tokens.length - 1 : tokens.length;
      for (let t = 0; t < tokens.length; t++, at++) {
        ids[at] = tokens[t]!;
        order[t < lead ? front++ : back++] = at;
      }
    }
    // The first pass is the short one; the last has a token of every drawing part at its end.
    const most = Math.max(this.#width ?? MOST_TOKENS, drawing.length);
    const passes = Math.ceil(order.length / most);
    const read = (pass: number): Tensor => {
      const end = order.length - most * (passes - 1 - pass);
      const chosen = order.subarray(Math.max(0, end - most), end);
      const width = this.#width ?? chosen.length;
      const chosenPlaces = emptyPlaces(width);
      const chosenIds = new Int32Array(width);
      chosen.forEach((n, i) => {
        chosenIds[i] = ids[n]!;
        setPlace(chosenPlaces, i, places.rows[n]!, places.positions[n]!);
      });
      return forward(params, config, tensor(chosenIds, { device, shape: [1, width] }), {
        cache: { store: this.#cache, places: chosenPlaces },
      });
    };
    for (let pass = 0; pass < passes - 1; pass++) read(pass).dispose();
    const hidden = read(passes - 1);
    if (drawing.length === 0) return hidden;
    const last = Math.min(order.length, most) - drawing.length;
    const index = new Int32Array(this.#width ?? drawing.length);
    for (let i = 0; i < drawing.length; i++) index[i] = last + i;
    return logits(params, pickHidden(hidden, index));
  }

  /** Runs `body`; if it throws, the rows are as long as they were. */
  #keepingLengths<R>(body: () => R): R {
    const before = this.lengths.slice();
    try {
      return body();
    } catch (error) {
      this.lengths.set(before);
      throw error;
    }
  }

  /** Forgets what a row holds from `length` on; 0 frees it for another text. */
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

/**
 * Column `i` of [3 · burst, width].
 * @throws if a logit that it was drawn from was not finite
 */
function tokensOf(values: ArrayLike<number>, i: number, burst: number, greedy: boolean): SampledToken[] {
  const width = values.length / (3 * burst);
  const at = (row: number): number => values[row * width + i]!;
  return Array.from({ length: burst }, (_, n) => {
    const [id, logProb, plainLogProb] = [at(3 * n), at(3 * n + 1), at(3 * n + 2)];
    check(id >= 0, () => `sampling: the logit of token ${-1 - id} is ${logProb}; the model has diverged`);
    return { id, logProb, plainLogProb, samplingLogProb: greedy ? 0 : logProb };
  });
}
