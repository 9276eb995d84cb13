/** The page's side of questions about an agent's last step (questions.ts). */
import type { FromAgent, ToAgent } from "./messages.ts";
import type { Answer, Answers, Question } from "./questions.ts";

type Asked<A extends keyof Answers> = Extract<Question, { readonly about: A }>;

/** Sends questions to one agent and matches its answers to them. */
export class Questions {
  readonly #post: (order: ToAgent) => void;
  readonly #waiting = new Map<number, { done: (answer: Answer) => void; failed: (error: Error) => void }>();
  #asked = 0;

  constructor(post: (order: ToAgent) => void) {
    this.#post = post;
  }

  ask<A extends keyof Answers>(question: Asked<A>): Promise<Answers[A]> {
    const id = this.#asked++;
    return new Promise<Answers[A]>((done, failed) => {
      this.#waiting.set(id, { done: done as (answer: Answer) => void, failed });
      this.#post({ kind: "ask", id, question });
    });
  }

  /** Settles the question that a message answers; ignores other messages. */
  hear(message: FromAgent): void {
    if (message.kind !== "answer" && message.kind !== "refused") return;
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.kind === "answer") waiting?.done(message.answer);
    else waiting?.failed(new Error(message.message));
  }
}
