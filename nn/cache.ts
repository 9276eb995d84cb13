/**
 * The key/value cache of a decoder: one row per text being written, each with its own length. Keys and values live
 * outside all scopes and are written in place; entries behind a row's length are never read, because attention is
 * causal. Rows are independent: one may grow by a prompt while another grows by a token, and a third does not change.
 */
import { check } from "../engine/errors.ts";
import type { Device } from "../engine/device.ts";
import { tensor, zeros } from "../engine/ops/create.ts";
import { gather, gatherOp, writeRowsOp } from "../engine/ops/indexing.ts";
import { reshape } from "../engine/ops/movement.ts";
import { apply, apply1 } from "../engine/op.ts";
import { outsideScopes, scope } from "../engine/scope.ts";
import type { Tensor } from "../engine/tensor.ts";
import { longestText, type ModelConfig } from "./config.ts";

interface CacheLayer {
  /** [R, Hkv, S, D]: the keys of one head lie side by side, in the order in which attention reads them. */
  readonly k: Tensor;
  readonly v: Tensor;
}

/** The next `count` tokens of a row. */
export interface CachePart {
  readonly row: number;
  readonly count: number;
}

/** The row of each of N tokens and its position there; −1 and 0 for padding. */
export interface Places {
  readonly rows: Int32Array;
  readonly positions: Int32Array;
  /** [N · Hkv]: the places of its heads' keys and values, among the R · Hkv · S places of a layer; −1 for padding. */
  readonly slots: Int32Array;
}

/** A copy of the first `length` tokens of a row to another. */
export interface CacheCopy {
  readonly from: number;
  readonly to: number;
  readonly length: number;
}

const checkLength = (what: string, n: number): void =>
  check(Number.isInteger(n) && n >= 0, () => `KvCache.${what} must be an integer ≥ 0, got ${n}`);

/** Keys and values of the texts being written, one row each; lives outside all scopes, until it is disposed. */
export class KvCache {
  /** S, the largest number of positions of a row. */
  readonly capacity: number;
  readonly #heads: number;
  #layers: readonly CacheLayer[];
  #lengths: Int32Array;

  /** @param rows R @param capacity S, at most the model's positions (`longestText`) */
  constructor(config: ModelConfig, rows: number, capacity: number, device: Device) {
    const most = longestText(config);
    check(
      capacity >= 1 && capacity <= most,
      () => `KvCache: capacity must be between 1 and the model's ${most} positions, got ${capacity}`,
    );
    check(Number.isInteger(rows) && rows >= 1, () => `KvCache: rows must be an integer ≥ 1, got ${rows}`);
    const make = (): Tensor => zeros([rows, config.kvHeads, capacity, config.headDim], { device });
    this.capacity = capacity;
    this.#heads = config.kvHeads;
    // The scope frees the first layers if memory runs out at a later one.
    this.#layers = outsideScopes(() =>
      scope(() => Array.from({ length: config.layers }, () => ({ k: make(), v: make() })), "KvCache"),
    );
    this.#lengths = new Int32Array(rows);
  }

  get layers(): readonly CacheLayer[] {
    return this.#layers;
  }
  /** The number of tokens in each row. */
  get lengths(): Int32Array {
    return this.#lengths;
  }
  get rows(): number {
    return this.#lengths.length;
  }

  /**
   * The places of the next tokens of each part's row, in the order of the parts; the rows' lengths grow by them.
   * @throws if a row has no room for them
   */
  append(parts: readonly CachePart[]): Places {
    for (const { count } of parts) checkLength("append: count", count);
    const places = this.noPlaces(parts.reduce((n, { count }) => n + count, 0));
    let n = 0;
    for (const { row, count } of parts) {
      const length = this.#lengths[this.#checkRow("append", row)]!;
      check(
        length + count <= this.capacity,
        () => `KvCache: row ${row} has ${length} tokens, ${count} more do not fit into ${this.capacity}`,
      );
      for (let t = length; t < length + count; t++) this.setPlace(places, n++, row, t);
      this.#lengths[row] = length + count;
    }
    return places;
  }

  /**
   * Places for one token in each row, which grow by it, `width` in all; a row that is full, or −1, gets no place: its
   * token is lost.
   */
  appendWhereRoom(rows: readonly number[], width: number): Places {
    const places = this.noPlaces(width);
    rows.forEach((row, n) => {
      if (row < 0 || this.#lengths[row]! >= this.capacity) return;
      this.setPlace(places, n, row, this.#lengths[row]!++);
    });
    return places;
  }

  /** Places for `width` tokens, all of them padding. */
  noPlaces(width: number): Places {
    return {
      rows: new Int32Array(width).fill(-1),
      positions: new Int32Array(width),
      slots: new Int32Array(width * this.#heads).fill(-1),
    };
  }

  /** Gives token `n` its place. */
  setPlace({ rows, positions, slots }: Places, n: number, row: number, position: number): void {
    const heads = this.#heads;
    rows[n] = row;
    positions[n] = position;
    for (let h = 0; h < heads; h++) slots[n * heads + h] = (row * heads + h) * this.capacity + position;
  }

  #checkRow(where: string, row: number): number {
    check(
      Number.isInteger(row) && row >= 0 && row < this.rows,
      () => `KvCache.${where}: row ${row} of ${this.rows} does not exist`,
    );
    return row;
  }

  /** Forgets the tokens of a row from `length` on; 0 frees the row for another text. */
  truncate(row: number, length: number): void {
    const held = this.#lengths[this.#checkRow("truncate", row)]!;
    checkLength("truncate: length", length);
    check(length <= held, () => `KvCache.truncate: row ${row} has ${held} tokens, not ${length}`);
    this.#lengths[row] = length;
  }

  /** Row `to` of each entry becomes the first `length` tokens of row `from` (a shared prompt). */
  copy(entries: readonly CacheCopy[]): void {
    for (const { from, to, length } of entries) {
      const held = this.#lengths[this.#checkRow("copy", from)]!;
      this.#checkRow("copy", to);
      checkLength("copy: length", length);
      check(length <= held, () => `KvCache.copy: row ${from} has ${held} tokens, not ${length}`);
    }
    if (entries.every(({ length }) => length === 0)) return;
    scope(() => {
      const { device } = this.#layers[0]!.k;
      const slotsOf = (side: "from" | "to"): Tensor => tensor(this.#slotsOf(entries, side), { device });
      const [from, to] = [slotsOf("from"), slotsOf("to")];
      for (const { k, v } of this.#layers) {
        for (const x of [k, v]) {
          // The ops and not the functions, which would check every slot: these slots are right.
          const flat = reshape(x, [-1, x.shape[3]!]);
          const copied = apply1(gatherOp, [flat, from], { axis: 0 });
          apply(writeRowsOp, [copied, to, flat], { axis: 0 });
        }
      }
    }, "copy cache rows");
    for (const { to, length } of entries) this.#lengths[to] = length;
  }

  #slotsOf(entries: readonly CacheCopy[], side: "from" | "to"): Int32Array {
    const places = this.noPlaces(entries.reduce((n, { length }) => n + length, 0));
    let n = 0;
    for (const entry of entries) for (let t = 0; t < entry.length; t++) this.setPlace(places, n++, entry[side], t);
    return places.slots;
  }

  /** Keeps the given rows, in this order; others are dropped. A row may be taken several times (a shared prompt). */
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
