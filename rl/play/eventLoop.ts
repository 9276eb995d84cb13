/** A turn of the event loop: how a loop that computes lets timers, messages and whoever wants to abort it be heard. */

/** `setImmediate`, where there is one. */
const immediate = (globalThis as { readonly setImmediate?: (callback: () => void) => unknown }).setImmediate;

/**
 * Lets everything run that is ready to run. In browsers a message to oneself comes after it. Node would read a thousand such messages in a
 * row before it looks at timers and other ports, so there it is `setImmediate`.
 */
export class EventLoop {
  readonly #channel: MessageChannel | undefined = immediate ? undefined : new MessageChannel();
  #resume: () => void = () => {};

  constructor() {
    this.#channel?.port1.addEventListener("message", () => this.#resume());
    this.#channel?.port1.start();
  }

  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#resume = resolve;
      if (this.#channel) this.#channel.port2.postMessage(0);
      else immediate!(resolve);
    });
  }

  /** An open channel would keep a page's worker from ending. A turn that is awaited then never comes. */
  close(): void {
    this.#channel?.port1.close();
  }
}
