/**
 * One trajectory as a strip of tokens, coloured by role, mask, advantage, surprise, entropy, importance ratio or weight
 * in the world-model loss, with all numbers of a token on hover, on tap and with the arrow keys. It is laid out as in
 * the agent's terminal, with spaces and line ends visible. Runs in the browser.
 */
import { formatNumber, formatSigned } from "../figures/format.ts";
import { visible } from "../visible.ts";
import { element } from "./dom.ts";
import { ROLES, type Transcript, type TranscriptToken } from "../records.ts";

export type ColourMode = "role" | "mask" | "advantage" | "surprise" | "entropy" | "ratio" | "world";

/** A token of the strip. */
export interface StripToken extends TranscriptToken {
  /** The token that the agent expected in its place, if the world wrote it and that was computed. */
  readonly expected?: string;
}

/** The surprise or entropy of full colour, in nats: e⁻⁵ is less than 1 %. */
const FULL_NATS = 5;
/** The change of a log-probability of full colour: a ratio of 1.35 or of 0.74, beyond PPO's usual clip. */
const FULL_LOG_RATIO = 0.3;

export class TokenStrip {
  readonly view: HTMLElement;
  private readonly strip: HTMLElement;
  private readonly legend: HTMLElement;
  private readonly tip: HTMLElement;
  private readonly spoken: HTMLElement;
  private tokens: readonly StripToken[] = [];
  private spans: readonly HTMLElement[] = [];
  private mode: ColourMode = "role";
  private active = -1;
  /** The token that was chosen last, from which the arrow keys go on. */
  private picked = -1;
  private readonly life = new AbortController();
  private readonly choose: ((index: number) => void) | undefined;

  /** @param choose is called with the token that was clicked, or that the arrow keys came to */
  constructor(choose?: (index: number) => void) {
    this.choose = choose;
    const label = "Tokens of the trajectory. Arrow keys move from token to token, Home and End to the ends.";
    this.strip = element("div", { class: "tokens", tabindex: 0, role: "group", "aria-label": label });
    this.legend = element("p", { class: "legend" });
    this.tip = element("div", { class: "tip", role: "tooltip", hidden: true });
    this.spoken = element("p", { class: "spoken", "aria-live": "polite" });
    this.view = element("div", {}, this.legend, this.strip, this.spoken, this.tip);
    // Not pointerover: a browser sends that by itself when a token comes to lie under a pointer at rest (the strip
    // scrolls, the tooltip goes), and would show again what Escape has just hidden.
    this.strip.addEventListener("pointermove", (event) => {
      const index = this.indexOf(event.target);
      if (index !== this.active) this.point(index, false);
    });
    this.strip.addEventListener("pointerleave", () => this.point(-1, false));
    this.strip.addEventListener("click", (event) => {
      this.point(this.indexOf(event.target), false);
      this.chosen();
    });
    this.strip.addEventListener("keydown", (event) => this.onKey(event));
    this.strip.addEventListener("blur", () => this.point(-1, false));
    addEventListener("scroll", () => this.place(), { passive: true, signal: this.life.signal });
  }

  /** Ends the strip. Otherwise the window would keep it alive. */
  dispose(): void {
    this.life.abort();
  }

  show(transcript: Pick<Transcript, "tokens"> | { readonly tokens: readonly StripToken[] }): void {
    this.point(-1, false);
    this.picked = -1;
    this.tokens = transcript.tokens;
    this.spans = this.tokens.map((token, i) => tokenSpan(token, i));
    this.strip.replaceChildren(...this.spans);
    this.colour(this.mode);
  }

  colour(mode: ColourMode): void {
    this.mode = mode;
    this.strip.dataset["mode"] = mode;
    // Advantages have no natural scale: the largest of the trajectory has full colour.
    const largest = Math.max(
      1e-9,
      ...this.tokens.map((token) => Math.abs(token.advantage ?? 0)).filter(Number.isFinite),
    );
    const weight = Math.max(1e-12, ...this.tokens.map(({ wWorld = 0 }) => wWorld));
    this.tokens.forEach((token, i) => {
      const span = this.spans[i];
      if (span) span.style.backgroundColor = background(token, mode, largest, weight);
    });
    this.legend.replaceChildren(...legendOf(this.tokens, mode, largest, weight));
  }

  /** Colours the tokens by weights from 0 to 1, such as those of attention, until `colour` is called. */
  shade(weights: ArrayLike<number>, what: string): void {
    this.strip.dataset["mode"] = "shade";
    const largest = Array.from(weights).reduce((a, b) => Math.max(a, b), 1e-9);
    this.spans.forEach((span, i) => (span.style.backgroundColor = mix("--heat", (0.8 * (weights[i] ?? 0)) / largest)));
    this.legend.replaceChildren(scale(`${what}: 0`, formatNumber(largest), ["", mix("--heat", 0.8)]));
  }

  /** Chooses a token, as a click does. */
  pick(index: number): void {
    this.point(index, false);
    this.chosen();
    this.point(-1, false);
  }

  private chosen(): void {
    if (this.active < 0 || this.choose === undefined) return;
    this.picked = this.active;
    this.spans.forEach((span, i) => span.classList.toggle("chosen", i === this.active));
    this.choose(this.active);
  }

  private indexOf(target: EventTarget | null): number {
    const span = target instanceof Element ? target.closest<HTMLElement>("[data-i]") : null;
    return span ? Number(span.dataset["i"]) : this.active;
  }

  private onKey(event: KeyboardEvent): void {
    const last = this.tokens.length - 1;
    const from = this.active < 0 ? this.picked : this.active;
    const target = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last, Escape: -1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.point(event.key === "Escape" ? -1 : Math.min(last, Math.max(0, target)), true);
    this.chosen();
  }

  /** Marks a token and shows its numbers; −1 marks none. With `aloud` a screen reader says it, too. */
  private point(index: number, aloud: boolean): void {
    this.spans[this.active]?.classList.remove("active");
    this.active = index;
    const [token, span] = [this.tokens[index], this.spans[index]];
    this.tip.hidden = token === undefined || span === undefined;
    if (token === undefined || span === undefined) return;
    span.classList.add("active");
    const details = describe(token, index);
    this.tip.replaceChildren(
      element("code", { class: "tip-text" }, JSON.stringify(visible(token.text)).slice(0, 80)),
      element("dl", {}, ...details.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
    );
    if (aloud) {
      const facts = details.map(([name, value]) => `${name} ${value}`).join(", ");
      this.spoken.textContent = `${visible(token.text)}: ${facts}`;
      span.scrollIntoView({ block: "nearest" });
    }
    this.place();
  }

  /** Places the tooltip below the token, or above it if there is no room, and inside the window. */
  private place(): void {
    const span = this.spans[this.active];
    if (span === undefined) return;
    const rects = span.getClientRects();
    const at = rects[rects.length - 1] ?? span.getBoundingClientRect();
    const { width, height } = this.tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - width - 8));
    const below = at.bottom + 6;
    const top = below + height > innerHeight - 8 && at.top - height - 6 > 0 ? at.top - height - 6 : below;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${top}px`;
  }
}

function tokenSpan(token: TranscriptToken, index: number): HTMLElement {
  const span = element("span", { class: `token ${token.role}`, "data-i": index });
  // Each blank and line end is an element of its own, so that its mark is drawn without being part of the text.
  for (const part of token.text.split(/([ \n\t])/)) {
    if (part === " ") span.append(element("span", { class: "space" }, " "));
    else if (part === "\n") span.append(element("span", { class: "line-end" }), "\n");
    else if (part === "\t") span.append(element("span", { class: "tab" }, "\t"));
    else if (part !== "") span.append(visible(part));
  }
  if (token.text === "") span.append(element("span", { class: "empty" }, "∅"));
  return span;
}

function mix(colour: string, share: number): string {
  const percent = Math.round(100 * Math.min(1, Math.max(0, share)));
  return percent > 0 ? `color-mix(in srgb, var(${colour}) ${percent}%, transparent)` : "";
}

function background(token: StripToken, mode: ColourMode, largestAdvantage: number, largestWeight: number): string {
  if (mode === "role")
    return mix(`--${token.role}`, token.role === "action" || token.role === "observation" ? 0.16 : 0.08);
  if (mode === "mask") {
    const [policy, world] = [isOn(token.wPolicy), isOn(token.wWorld) || isOn(token.wClipped)];
    return policy && world ? mix("--both", 0.45) : policy ? mix("--policy", 0.45) : world ? mix("--world", 0.45) : "";
  }
  if (mode === "advantage") {
    const { advantage = 0 } = token;
    return mix(advantage > 0 ? "--better" : "--worse", (0.75 * Math.abs(advantage)) / largestAdvantage);
  }
  if (mode === "ratio") {
    const change = logRatioOf(token) ?? 0;
    return mix(change > 0 ? "--better" : "--worse", (0.75 * Math.abs(change)) / FULL_LOG_RATIO);
  }
  if (mode === "world") return mix("--world", (0.75 * (token.wWorld ?? 0)) / largestWeight);
  const nats = mode === "surprise" ? surpriseOf(token) : token.entropy;
  return mix("--heat", (0.8 * (nats ?? 0)) / FULL_NATS);
}

function isOn(weight: number | undefined): boolean {
  return weight !== undefined && weight !== 0;
}

/** The surprise or, where it was not recorded, the negative log-probability. */
function surpriseOf({ surprise, logProb }: TranscriptToken): number | undefined {
  return surprise ?? (logProb === undefined ? undefined : -logProb);
}

/** ln of the importance ratio, of a token that the agent wrote. */
const logRatioOf = ({ logProb, oldLogProb }: TranscriptToken): number | undefined =>
  logProb === undefined || oldLogProb === undefined ? undefined : logProb - oldLogProb;

const showWeight = (weight: number | undefined): string => (isOn(weight) ? formatNumber(weight ?? 0) : "0 (masked)");

/** Rows of the tooltip. */
function describe(token: StripToken, index: number): [string, string][] {
  const { logProb, oldLogProb, advantage, wPolicy, wWorld, wClipped, entropy, expected } = token;
  const [surprise, logRatio] = [surpriseOf(token), logRatioOf(token)];
  const rows: [string, string | undefined][] = [
    ["token", `${index}, id ${token.id}`],
    ["role", `${token.role}, turn ${token.turn}`],
    ["log p", logProb === undefined ? undefined : `${formatNumber(logProb)}  (p ${formatNumber(Math.exp(logProb))})`],
    ["old log p", oldLogProb === undefined ? undefined : formatNumber(oldLogProb)],
    ["ratio", logRatio === undefined ? undefined : Math.exp(logRatio).toFixed(6)],
    ["advantage", advantage === undefined ? undefined : formatSigned(advantage)],
    ["policy weight", showWeight(wPolicy)],
    ["world weight", showWeight(wWorld)],
    ["clipped world weight", wClipped === undefined ? undefined : showWeight(wClipped)],
    ["surprise", surprise === undefined ? undefined : `${formatNumber(surprise)} nats`],
    ["entropy", entropy === undefined ? undefined : `${formatNumber(entropy)} nats`],
    ["expected", expected === undefined ? undefined : JSON.stringify(visible(expected))],
  ];
  return rows.filter((row): row is [string, string] => row[1] !== undefined);
}

/** A colour bar with labels at its ends. */
function scale(low: string, high: string, colours: readonly string[]): HTMLElement {
  const box = element("span", { class: "ramp" });
  box.style.backgroundImage = `linear-gradient(to right, ${colours.map((c) => c || "transparent").join(", ")})`;
  return element("span", { class: "entry" }, low, box, high);
}

function legendOf(
  tokens: readonly TranscriptToken[],
  mode: ColourMode,
  largestAdvantage: number,
  largestWeight: number,
): Node[] {
  const swatch = (colour: string, text: string): HTMLElement => {
    const box = element("span", { class: "swatch" });
    box.style.backgroundColor = colour;
    return element("span", { class: "entry" }, box, text);
  };
  if (mode === "role") {
    const found = new Set(tokens.map((token) => token.role));
    return ROLES.filter((role) => found.has(role)).map((role) => swatch(`var(--${role})`, role));
  }
  if (mode === "mask") {
    return [
      swatch(mix("--policy", 0.45), "policy loss"),
      swatch(mix("--world", 0.45), "world-model loss"),
      swatch("transparent", "not trained on"),
    ];
  }
  if (mode === "advantage") {
    const end = formatNumber(largestAdvantage < 1e-8 ? 0 : largestAdvantage);
    return [scale(`worse −${end}`, `+${end} better than its group`, [mix("--worse", 0.75), "", mix("--better", 0.75)])];
  }
  if (mode === "ratio") {
    const [low, high] = [Math.exp(-FULL_LOG_RATIO), Math.exp(FULL_LOG_RATIO)].map(formatNumber);
    return [scale(`ratio: ${low} or less`, `${high} or more`, [mix("--worse", 0.75), "", mix("--better", 0.75)])];
  }
  if (mode === "world") {
    const end = largestWeight < 1e-11 ? "0" : formatNumber(largestWeight);
    return [scale("weight in the world-model loss: 0", end, ["", mix("--world", 0.75)])];
  }
  const what = mode === "surprise" ? "−log p" : "entropy";
  return [scale(`${what}: 0`, `${FULL_NATS} nats or more`, ["", mix("--heat", 0.8)])];
}
