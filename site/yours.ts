/**
 * The visitor as a third agent: held-out tasks of the same world, a line to type into, and the world's answers. Loaded
 * when the first step is done or somebody asks.
 */
import { Rng } from "../engine/random.ts";
import { element } from "../run/page/dom.ts";
import type { Preset } from "../run/preset.ts";
import { succeeded } from "../rl/episode/outcomes.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import { visible } from "../run/visible.ts";
import { environmentOf, taskOptions } from "../run/worlds.ts";
import type { Environment } from "../environments/index.ts";
import { hasFacts } from "./lead.ts";

/** The seed of the visitor's first task, which is not one that the page's agents solve or miss beside it. */
const FIRST_SEED = 7_000_002;

/** What a novice might type first; not what is right, if that can be known. */
function guessAt(preset: Preset, env: Environment, task: string, seed: number): string {
  const spec = environmentOf(preset);
  const right = spec.expert?.(env);
  const guesses = Array.from({ length: 8 }, (_, i) =>
    spec.random(new Rng(seed + i), task, taskOptions(preset, "heldout")),
  );
  return guesses.find((text) => text.includes(" ") && text !== right) ?? guesses[0]!;
}

export class Yours {
  readonly view: HTMLElement = element("div", { class: "yours" });
  readonly #preset: Preset;
  readonly #task = element("p", { class: "task" });
  readonly #talk = element("dl", { class: "expectations", "aria-live": "polite" });
  readonly #line = element("input", {
    type: "text",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    "aria-label": "your command",
  });
  readonly #score = element("p", { class: "muted" }, "The line below is a guess.");
  #env: Environment | undefined;
  #seed = FIRST_SEED;
  #paid = 0;
  #solved = 0;
  #tried = 0;

  constructor(preset: Preset) {
    this.#preset = preset;
    if (hasFacts(preset)) this.#score.prepend("You know as little as they did. ");
    const form = element(
      "form",
      { class: "controls" },
      this.#line,
      element("button", { type: "submit" }, "Type it"),
      this.#button("Show me how", () => this.#help()),
      this.#button("Another task", () => this.#next()),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#do(() => this.#type());
    });
    this.view.append(this.#task, this.#score, this.#talk, form);
    this.#do(() => this.#next());
  }

  #button(text: string, act: () => Promise<void>): HTMLElement {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => this.#do(act));
    return button;
  }

  /** Does it, and says what went wrong. */
  #do(act: () => Promise<void>): void {
    act().catch((error: unknown) => this.#say("the page", String(error), "bad"));
  }

  async #next(): Promise<void> {
    const env = environmentOf(this.#preset).make(taskOptions(this.#preset, "heldout"));
    const task = await env.reset(this.#seed++);
    this.#env?.close?.();
    this.#env = env;
    this.#paid = 0;
    this.#task.textContent = visible(task);
    this.#talk.replaceChildren();
    this.#line.value = guessAt(this.#preset, env, task, this.#seed);
    this.#line.disabled = false;
  }

  async #type(): Promise<void> {
    const action = this.#line.value.trim();
    if (this.#env === undefined || action === "") return;
    const { observation, done, info, reward } = await this.#env.step(action);
    this.#paid += reward;
    this.#line.value = "";
    this.#say("typed", action, "typed");
    if (observation !== "") this.#say("answered", observation, "came");
    if (!done) return;
    const isSolved = succeeded({ info, reward: this.#paid, stopReason: "completed" } as Trajectory);
    this.#tried++;
    if (isSolved) this.#solved++;
    this.#say("so", isSolved ? "✔ solved" : "✘ failed", isSolved ? "good" : "bad");
    this.#score.textContent = `You have solved ${this.#solved} of ${this.#tried}.`;
    this.#env = undefined;
    this.#line.disabled = true;
  }

  /** Types what the expert, who knows all facts, would type next. */
  async #help(): Promise<void> {
    const world = environmentOf(this.#preset);
    if (this.#env === undefined || world.expert === undefined) return;
    this.#line.value = world.expert(this.#env);
    this.#line.focus();
  }

  #say(name: string, text: string, kind: string): void {
    this.#talk.append(element("dt", {}, name), element("dd", { class: kind }, element("code", {}, visible(text))));
  }
}
