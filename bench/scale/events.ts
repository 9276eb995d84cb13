/** What will happen, by time: a binary heap. Of two things at one time the one that was added first comes first. */
export interface Event {
  readonly time: number;
  readonly run: () => void;
}

interface Entry extends Event {
  readonly number: number;
}

const isBefore = (a: Entry, b: Entry): boolean => a.time < b.time || (a.time === b.time && a.number < b.number);

export class Events {
  readonly #heap: Entry[] = [];
  #added = 0;

  get isEmpty(): boolean {
    return this.#heap.length === 0;
  }

  add(time: number, run: () => void): void {
    const heap = this.#heap;
    let i = heap.push({ time, run, number: this.#added++ }) - 1;
    for (let up = (i - 1) >> 1; i > 0 && isBefore(heap[i]!, heap[up]!); [i, up] = [up, (up - 1) >> 1])
      [heap[i], heap[up]] = [heap[up]!, heap[i]!];
  }

  /** Takes out the earliest. */
  next(): Event {
    const heap = this.#heap;
    const first = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return first;
    heap[0] = last;
    for (let i = 0; ;) {
      let least = i;
      for (const child of [2 * i + 1, 2 * i + 2])
        if (child < heap.length && isBefore(heap[child]!, heap[least]!)) least = child;
      if (least === i) return first;
      [heap[i], heap[least], i] = [heap[least]!, heap[i]!, least];
    }
  }
}
