/** Waiting for a turn of the event loop, so that a computing loop lets timers, messages and abort signals through. */

/** `setImmediate`, where there is one. */
const immediate = (globalThis as { readonly setImmediate?: (callback: () => void) => unknown }).setImmediate;

/**
 * Lets all callbacks run that are ready. In browsers it waits for a message to itself, which arrives after them. Node
 * would read a thousand such messages in a row before it serves timers and other ports, so there it uses
 * `setImmediate`.
 */
export class EventLoop {
  readonly #channel: MessageChannel | undefined = immediate ? undefined : new MessageChannel();
  #resume: () => void = () => {};

  constructor() {
    this.#channel?.port1.addEventListener("message", () => this.#resume());
    this.#channel?.port1.start();
  }

  /** Resolves after everything that was ready has run. */
  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#resume = resolve;
      if (this.#channel) this.#channel.port2.postMessage(0);
      else immediate!(resolve);
    });
  }

  /** Closes the channel, which would keep a page's worker from ending. A turn that is still awaited never resolves. */
  close(): void {
    this.#channel?.port1.close();
  }
}
