/** The buttons of a run: play and pause, one step, reset, how fast, and a slider to any step that was reached. */
import { element, select } from "../run/page/dom.ts";

/** The actions of the buttons, which the live page implements. */
export interface Player {
  /** Plays if nothing plays, and pauses otherwise. */
  toggle(): void;
  oneStep(): void;
  /** Goes back or forward to the point after `step` RL steps. */
  goTo(step: number): void;
  /** Sets the pause between steps from now on; 0 is full speed. */
  pauseBetweenSteps(milliseconds: number): void;
}

/** The state of the run. */
export interface PlayState {
  readonly isReady: boolean;
  readonly isPlaying: boolean;
  readonly isOver: boolean;
  /** RL steps done by all agents, the highest step reached, and those of the whole run. */
  readonly step: number;
  readonly furthest: number;
  readonly steps: number;
}

/** Milliseconds between two steps, and their labels. Without a pause agents do not wait for each other. */
const SPEEDS = [
  ["0", "full speed"],
  ["500", "half a second between steps"],
  ["2000", "two seconds between steps"],
] as const;

export class Playback {
  /** The buttons, to be put on the page. */
  readonly views: readonly HTMLElement[];
  readonly #play = element("button", { type: "button" }, "Play");
  readonly #one = element("button", { type: "button" }, "One step");
  readonly #reset = element("button", { type: "button" }, "Reset");
  readonly #place = element("input", { type: "range", min: 0, max: 0, value: 0, disabled: true });
  readonly #shown = element("output", {}, "0");
  #furthest = 0;

  constructor(player: Player) {
    const speed = select("speed", SPEEDS, (value) => player.pauseBetweenSteps(Number(value)));
    const name = element("span", {}, "step ", this.#shown, " (rewind)");
    const place = element("label", { class: "field" }, name, this.#place);
    this.views = [this.#play, this.#one, this.#reset, speed.field, place];
    onPress(this.#play, () => player.toggle());
    onPress(this.#one, () => player.oneStep());
    onPress(this.#reset, () => player.goTo(0));
    this.show({ isReady: false, isPlaying: false, isOver: false, step: 0, furthest: 0, steps: 0 });
    // Nobody knows yet what comes after the furthest step.
    this.#place.addEventListener("input", () => {
      if (Number(this.#place.value) > this.#furthest) this.#place.value = String(this.#furthest);
    });
    this.#place.addEventListener("change", () => player.goTo(Number(this.#place.value)));
  }

  show({ isReady, isPlaying, isOver, step, furthest, steps }: PlayState): void {
    this.#furthest = furthest;
    this.#play.textContent = isPlaying ? "Pause" : "Play";
    allow(this.#play, isReady && !isOver);
    allow(this.#one, isReady && !isPlaying && !isOver);
    allow(this.#reset, isReady && furthest > 0);
    this.#place.disabled = !isReady || furthest === 0;
    this.#place.max = String(steps);
    this.#shown.textContent = String(step);
    if (document.activeElement !== this.#place) this.#place.value = String(step);
  }
}

/** Uses `aria-disabled`: `disabled` takes the focus from a user who has just pressed the button by a key. */
function allow(button: HTMLElement, isAllowed: boolean): void {
  button.setAttribute("aria-disabled", String(!isAllowed));
}

function onPress(button: HTMLElement, act: () => void): void {
  button.addEventListener("click", () => {
    if (button.getAttribute("aria-disabled") === "false") act();
  });
}
