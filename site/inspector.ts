/**
 * The last step of each agent, token by token: choose an agent and an episode, look along its tokens, and open one to
 * see its loss. Loaded when its section is opened (tokenSection.ts). The agents' workers supply the data.
 */
import { formatNumber, formatSigned } from "../run/figures/format.ts";
import { visible } from "../run/visible.ts";
import { choice, element, select, setOptions } from "../run/page/dom.ts";
import type { ColourMode } from "../run/page/tokens.ts";
import type { Questions } from "./asking.ts";
import { TokenStrip } from "./drawing.js";
import type { EpisodeHead, EpisodeToken, EpisodeView, StepView } from "./questions.ts";
import { attentionView, logitsView, quoted, tellingToken, termsView } from "./tokenPanel.ts";

/** An agent to inspect. */
export interface Inspected {
  readonly label: string;
  readonly questions: Questions;
}

const MODES: readonly (readonly [ColourMode, string])[] = [
  ["advantage", "advantage"],
  ["surprise", "surprise"],
  ["role", "role"],
  ["mask", "mask"],
  ["ratio", "ratio"],
  ["world", "world weight"],
  ["entropy", "entropy"],
];

/** Milliseconds on a token before the model is asked about it: arrow keys pass over many. */
const REST = 150;

export class Inspector {
  readonly view: HTMLElement;
  readonly #agents: readonly Inspected[];
  readonly #status = element("p", { role: "status" });
  readonly #agent: ReturnType<typeof select>;
  readonly #task = select("task", [], () => this.#showTries());
  readonly #try = select("episode", [], () => void this.#run(() => this.#showEpisode()));
  readonly #strip = new TokenStrip((token) => this.#showToken(token));
  readonly #answers = element("div", { class: "answers" });
  readonly #panel = element("div", { class: "panel" });
  readonly #place = element("div", { class: "panel two" });
  #mode: ColourMode = "advantage";
  /** Whether the next episode that is shown is opened at the token that shows most. */
  #isTelling = true;
  #step: StepView | null = null;
  #episode: EpisodeView | null = null;
  /** Number of requests so far: the answer to an older one is dropped. */
  #wanted = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Begins with the last agent, at the token that shows most. */
  constructor(agents: readonly Inspected[]) {
    this.#agents = agents;
    const names = agents.map(({ label }) => label);
    this.#agent = select(
      "agent",
      names.map((name, i) => [String(i), name]),
      () => void this.#run(() => this.#showStep()),
    );
    const newest = element("button", { type: "button" }, "Newest step");
    newest.addEventListener("click", () => void this.#run(() => this.#showStep()));
    const modes = choice("colour by", MODES, this.#mode, (mode) => this.#strip.colour((this.#mode = mode)));
    this.#strip.colour(this.#mode);
    this.view = element(
      "div",
      { class: "inspector" },
      element("div", { class: "controls" }, this.#agent.field, this.#task.field, this.#try.field, newest),
      this.#status,
      modes,
      this.#strip.view,
      this.#answers,
      this.#panel,
      this.#place,
    );
    this.#agent.input.value = String(agents.length - 1);
    void this.#run(() => this.#showStep());
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#strip.dispose();
  }

  get #questions(): Questions {
    return this.#agents[Number(this.#agent.input.value)]!.questions;
  }

  /** Does the work and shows its error. */
  async #run(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#status.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  async #showStep(): Promise<void> {
    const wanted = ++this.#wanted;
    const { label } = this.#agents[Number(this.#agent.input.value)]!;
    this.#status.textContent = `Asking ${label} for its last step …`;
    const step = await this.#questions.ask({ about: "step" });
    if (wanted !== this.#wanted) return;
    this.#step = step;
    if (step === null) {
      this.#status.textContent = `${label} has not finished a step of RL yet.`;
      return;
    }
    this.#status.textContent = `${label}, step ${step.step}: ${lossIn(step.metrics)}`;
    const groups = [...new Map(step.episodes.map((episode) => [episode.group, episode])).values()];
    setOptions(
      this.#task.input,
      groups.map(({ group, task }, i) => [String(group), `${i + 1}: ${visible(task).slice(0, 60)}`]),
    );
    // A group whose advantages are all 0 teaches the policy nothing, so another is shown first.
    const telling = step.episodes.find(({ advantage }) => Math.abs(advantage) > 1e-6);
    if (telling) this.#task.input.value = String(telling.group);
    this.#showTries();
  }

  #showTries(): void {
    const { episodes } = this.#step!;
    const own = episodes.flatMap((episode, i) =>
      String(episode.group) === this.#task.input.value ? [{ episode, i }] : [],
    );
    setOptions(
      this.#try.input,
      own.map(({ episode, i }, k) => [String(i), tryText(episode, k)]),
    );
    void this.#run(() => this.#showEpisode());
  }

  async #showEpisode(): Promise<void> {
    const wanted = ++this.#wanted;
    const episode = await this.#questions.ask({ about: "episode", episode: Number(this.#try.input.value) });
    if (wanted !== this.#wanted) return;
    this.#episode = episode;
    this.#strip.show(episode);
    this.#answers.replaceChildren(...answersView(episode.tokens));
    const hint = "Click a token, or move along the strip with the arrow keys, to see its loss.";
    this.#panel.replaceChildren(element("p", { class: "muted" }, hint));
    this.#place.replaceChildren();
    if (!this.#isTelling) return;
    this.#isTelling = false;
    const telling = tellingToken(episode);
    if (telling >= 0) this.#strip.pick(telling);
  }

  #showToken(token: number): void {
    const [episode, step] = [this.#episode, this.#step];
    if (episode === null || step === null) return;
    this.#strip.colour(this.#mode);
    this.#panel.replaceChildren(termsView(step, episode, token));
    this.#place.replaceChildren();
    clearTimeout(this.#timer);
    if (token > 0) this.#timer = setTimeout(() => void this.#run(() => this.#showPlace(episode, token)), REST);
  }

  async #showPlace(view: EpisodeView, token: number): Promise<void> {
    const wanted = ++this.#wanted;
    const place = await this.#questions.ask({ about: "token", episode: Number(this.#try.input.value), token });
    if (wanted !== this.#wanted) return;
    this.#place.replaceChildren(
      logitsView(place),
      attentionView(place, view.tokens, (weights, what) => this.#strip.shade(weights, what)),
    );
  }
}

/** The terms of the loss in words. */
function lossIn(metrics: Readonly<Record<string, number>>): string {
  const { loss, policy_loss: policy, world_loss_weighted: world, entropy_loss: entropy, value_loss: value } = metrics;
  if (loss === undefined) return "nothing was trained";
  const named: readonly (readonly [string, number | undefined])[] = [
    ["policy", policy],
    ["world model", world],
    ["entropy", entropy],
    ["critic", value],
    ["return prediction", metrics["return_prediction_loss"]],
  ];
  const terms = named.flatMap(([name, x]) => (x === undefined ? [] : [`${name} ${formatNumber(x)}`]));
  return `loss ${formatNumber(loss)} (${terms.join(", ")})`;
}

function tryText({ reward, success, advantage }: EpisodeHead, k: number): string {
  const of = Number.isNaN(advantage) ? "" : `, A ${formatSigned(advantage)}`;
  return `${k + 1} ${success ? "✔" : "✘"} reward ${formatNumber(reward)}${of}`;
}

/** Each observation, token by token, above the tokens that the agent expected in its place. */
function answersView(tokens: readonly EpisodeToken[]): HTMLElement[] {
  const answers: EpisodeToken[][] = [];
  tokens.forEach((token, t) => {
    if (token.expected === undefined) return;
    if (tokens[t - 1]?.expected === undefined) answers.push([]);
    answers.at(-1)!.push(token);
  });
  if (answers.length === 0) return [];
  const pair = ({ text, expected }: EpisodeToken): HTMLElement =>
    element(
      "span",
      { class: `pair ${text === expected ? "good" : "bad"}` },
      element("code", {}, quoted(text)),
      element("code", {}, quoted(expected!)),
    );
  return [
    element("h3", {}, "What the world answered, and what the agent expected"),
    ...answers.map((answer) => {
      const hits = answer.filter(({ text, expected }) => text === expected).length;
      const label = `Answer: ${hits} of ${answer.length} tokens as expected; above what came, below what was expected`;
      return element("p", { class: "pairs", role: "group", "aria-label": label }, ...answer.map(pair));
    }),
  ];
}
