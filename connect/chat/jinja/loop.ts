/** The variable `loop` of a `for`. */
import { fail } from "../../../engine/errors.ts";
import type { Budget } from "./budget.ts";
import { areEqual, Callable, Missing, Tuple, type Value } from "./values.ts";

/** The state of a running loop. Items are read as they are needed. */
export class Loop {
  readonly #source: Iterator<Value>;
  readonly #ahead: Value[] = [];
  #index = -1;
  #before: Value | undefined;
  #item: Value | undefined;
  #last: Value | undefined;

  constructor(source: Iterator<Value>) {
    this.#source = source;
  }

  /** The next item; undefined at the end. */
  next(): Value | undefined {
    this.#before = this.#item;
    this.#item = this.#isMore() ? this.#ahead.shift() : undefined;
    this.#index++;
    return this.#item;
  }

  #isMore(count = 1): boolean {
    while (this.#ahead.length < count) {
      const next = this.#source.next();
      if (next.done === true) return false;
      this.#ahead.push(next.value);
    }
    return true;
  }

  attribute(name: string, depth: number, budget: Budget): Value | undefined {
    switch (name) {
      case "index":
        return this.#index + 1;
      case "index0":
        return this.#index;
      case "first":
        return this.#index === 0;
      case "last":
        return !this.#isMore();
      case "length":
      case "revindex":
      case "revindex0": {
        this.#isMore(Infinity);
        const left = this.#ahead.length;
        return name === "length" ? this.#index + 1 + left : name === "revindex" ? left + 1 : left;
      }
      case "previtem":
        return this.#before ?? (this.#index > 0 ? null : new Missing("the item before the first"));
      case "nextitem":
        return this.#isMore() ? this.#ahead[0]! : new Missing("the item after the last");
      case "depth":
        return depth + 1;
      case "depth0":
        return depth;
      case "cycle":
        return new Callable("cycle", (args) => args[this.#index % args.length] ?? fail("cycle of nothing"));
      case "changed":
        return new Callable("changed", (args) => {
          const own = new Tuple(args);
          const isChanged = this.#last === undefined || !areEqual(this.#last, own, budget);
          this.#last = own;
          return isChanged;
        });
      default:
        return undefined;
    }
  }
}
