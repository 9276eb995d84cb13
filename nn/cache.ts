/**
 * The key/value cache of a decoder: one row per text being written, each with a length of its own. Keys and values live outside
 * all scopes and are written in place; what lies behind a row's length is never seen, because attention is causal.
 */
import { check } from "../engine/errors.ts";
import type { Device } from "../engine/device.ts";
import { tensor, zeros } from "../engine/ops/create.ts";
import { gather } from "../engine/ops/indexing.ts";
import { outsideScopes } from "../engine/scope.ts";
import type { Tensor } from "../engine/tensor.ts";
import type { ModelConfig } from "./config.ts";

interface CacheLayer {
  /** [B, S, Hkv, D] */
  readonly k: Tensor;
  readonly v: Tensor;
}

export class KvCache {
  /** S, the most positions that a row can have. */
  readonly capacity: number;
  #layers: readonly CacheLayer[];
  #lengths: Int32Array;

  /** @param rows B @param capacity S, at most the model's positions */
  constructor(config: ModelConfig, rows: number, capacity: number, device: Device) {
    check(
      capacity >= 1 && capacity <= config.maxPositions,
      () => `KvCache: capacity must be between 1 and the model's ${config.maxPositions} positions, got ${capacity}`,
    );
    check(Number.isInteger(rows) && rows >= 1, () => `KvCache: rows must be an integer ≥ 1, got ${rows}`);
    const make = (): Tensor => zeros([rows, capacity, config.kvHeads, config.headDim], { device });
    this.capacity = capacity;
    this.#layers = outsideScopes(() => Array.from({ length: config.layers }, () => ({ k: make(), v: make() })));
    this.#lengths = new Int32Array(rows);
  }

  get layers(): readonly CacheLayer[] {
    return this.#layers;
  }
  /** Tokens in each row. */
  get lengths(): Int32Array {
    return this.#lengths;
  }
  get rows(): number {
    return this.#lengths.length;
  }

  /** Where the next T tokens of each row go, as rows of [B · S]; −1 for the padding behind `counts[b]` tokens. */
  rowsFor(T: number, counts: Int32Array): Int32Array {
    const rows = new Int32Array(this.rows * T).fill(-1);
    for (let b = 0; b < this.rows; b++) {
      check(
        this.#lengths[b]! + counts[b]! <= this.capacity,
        () => `KvCache: row ${b} has ${this.#lengths[b]} tokens, ${counts[b]} more do not fit into ${this.capacity}`,
      );
      for (let t = 0; t < counts[b]!; t++) rows[b * T + t] = b * this.capacity + this.#lengths[b]! + t;
    }
    return rows;
  }

  /** Counts tokens that have been written. */
  advance(counts: Int32Array): void {
    counts.forEach((n, b) => (this.#lengths[b]! += n));
  }

  /** Keeps the given rows, in this order; the others are dropped. A row may be taken several times (a shared prompt). */
  select(rows: readonly number[]): void {
    check(rows.length > 0, () => "KvCache.select: the list of rows is empty");
    const missing = rows.find((b) => !Number.isInteger(b) || b < 0 || b >= this.rows);
    check(missing === undefined, () => `KvCache.select: row ${missing} of ${this.rows} does not exist`);
    const previous = this.#layers;
    const { device } = previous[0]!.k;
    this.#layers = outsideScopes(() => {
      const index = tensor(Int32Array.from(rows), { device });
      const kept = previous.map(({ k, v }) => ({ k: gather(k, index), v: gather(v, index) }));
      index.dispose();
      return kept;
    });
    for (const { k, v } of previous) {
      k.dispose();
      v.dispose();
    }
    this.#lengths = Int32Array.from(rows, (b) => this.#lengths[b]!);
  }

  dispose(): void {
    for (const { k, v } of this.#layers) {
      k.dispose();
      v.dispose();
    }
  }
}
