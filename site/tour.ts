/** The tour: six parts of the page, lit one after the other, each with a few sentences and where the book says more. */
import { element } from "../run/page/dom.ts";

interface Stop {
  /** The id of the lit part. */
  readonly at: string;
  readonly title: string;
  readonly text: string;
  /** A chapter of the book. */
  readonly more: readonly [href: string, text: string];
}

const STOPS: readonly Stop[] = [
  {
    at: "ways",
    title: "Two agents, one task",
    text:
      "Each agent is a transformer of 130,000 weights. It gets a task, types a command token by token, and is " +
      "answered. “Expected” is what it thought would come; “answered” is what the world said. Only a solved task " +
      "pays.",
    more: ["book/00-micro.html", "An episode in full"],
  },
  {
    at: "knowledge",
    title: "A world that nobody described",
    text:
      "No task states these facts, and no example that the agents have imitated comes from this world. Only its " +
      "answers tell. A square is full when an agent believes the fact that it stands for.",
    more: ["book/06-world-model.html", "Why answers teach"],
  },
  {
    at: "success",
    title: "What it is good for",
    text:
      "All tasks of this curve ask for facts in a way that training never does, so nothing can be learnt by heart. " +
      "Both agents began with the same weights and were paid the same way.",
    more: ["book/05-grpo.html", "How rewards teach"],
  },
  {
    at: "quick",
    title: "Two knobs that decide it",
    text:
      "λ says how much predicting counts beside rewards. Let answers tell random facts: they look the same, and the " +
      "second agent loses its lead. That is how we know that it is the information.",
    more: ["book/06-world-model.html", "Controls"],
  },
  {
    at: "inspector",
    title: "One token, down to its formula",
    text:
      "Open any token that an agent has just learnt from: who wrote it, how surprising it was, and its part of the " +
      "loss, with its numbers filled in.",
    more: ["book/00-before.html", "The chain rule"],
  },
  {
    at: "broken",
    title: "How it breaks",
    text:
      "Five ways to ruin a run, each beside a healthy twin. The doctor names the disease from the curves, and says " +
      "what to change.",
    more: ["book/08-sick-run.html", "Eight sick runs"],
  },
];

export class Tour {
  readonly #card = element("aside", { class: "tour", role: "dialog", "aria-label": "Tour", tabindex: -1 });
  readonly #back: HTMLElement;
  #at = 0;

  /** @param back what gets the focus again at the end */
  constructor(back: HTMLElement) {
    this.#back = back;
    document.body.append(this.#card);
    this.#card.addEventListener("keydown", ({ key }) => {
      if (key === "Escape") this.#end();
      if (key === "ArrowRight") this.#go(1);
      if (key === "ArrowLeft") this.#go(-1);
    });
    this.#go(0);
  }

  #go(by: number): void {
    const to = this.#at + by;
    if (to < 0) return;
    if (to >= STOPS.length) return this.#end();
    this.#unlight();
    this.#at = to;
    const { at, title, text, more } = STOPS[to]!;
    const lit = document.getElementById(at)!;
    const closed = lit.closest("details") ?? lit.querySelector("details");
    if (closed !== null) closed.open = true;
    lit.classList.add("lit");
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    lit.scrollIntoView({ block: "center", behavior: isStill ? "auto" : "smooth" });
    this.#card.replaceChildren(
      element("p", { class: "muted" }, `${to + 1} of ${STOPS.length}`),
      element("h2", {}, title),
      element("p", {}, text),
      element("p", {}, element("a", { href: more[0] }, more[1])),
      element(
        "div",
        { class: "controls" },
        ...(to === 0 ? [] : [this.#button("Back", () => this.#go(-1))]),
        this.#button(to + 1 === STOPS.length ? "Done" : "Next", () => this.#go(1), "main"),
        this.#button("Close", () => this.#end()),
      ),
    );
    this.#card.focus();
  }

  #button(text: string, act: () => void, kind = ""): HTMLElement {
    const button = element("button", { type: "button", class: kind }, text);
    button.addEventListener("click", act);
    return button;
  }

  #unlight(): void {
    for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
  }

  #end(): void {
    this.#unlight();
    this.#card.remove();
    this.#back.focus();
  }
}
