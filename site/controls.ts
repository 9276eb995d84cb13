/**
 * The form of an experiment: fields for the main settings, and one line for all others. Apply reads it as words; an
 * invalid word is reported in one line under its field, and nothing starts.
 */
import { UsageError } from "../run/usage.ts";
import { element } from "../run/page/dom.ts";
import type { PageExperiment } from "./experiment.ts";
import { AGENT_FIELDS, type Field, METHOD_WORDS, SHARED_FIELDS, type Wrong, wrongIn } from "./fields.ts";
import { type AgentWords, type ExperimentWords, readWords, showWords, type Words } from "./words.ts";

/** An input with its label and a line for its error. */
class Entry {
  readonly view: HTMLElement;
  readonly input: HTMLInputElement | HTMLSelectElement;
  readonly #wrong: HTMLElement;

  /** @param id of its own on the page */
  constructor(id: string, { label, about, words, open }: Pick<Field, "label" | "about" | "words" | "open">) {
    const wrongId = `${id}-wrong`;
    const own = { id, "aria-describedby": `${id}-about ${wrongId}` };
    const list = `${id}-words`;
    const isClosed = words !== undefined && !open;
    this.input = isClosed
      ? element("select", own, element("option", { value: "" }, ""))
      : element("input", {
          ...own,
          type: "text",
          autocomplete: "off",
          spellcheck: "false",
          ...(words ? { list } : {}),
        });
    const choices = (words ?? []).map((value) => element("option", { value }, value));
    if (isClosed) this.input.append(...choices);
    this.#wrong = element("p", { id: wrongId, class: "wrong", role: "alert" });
    this.view = element(
      "div",
      { class: "setting" },
      element("label", { for: id }, label),
      this.input,
      ...(open ? [element("datalist", { id: list }, ...choices)] : []),
      element("p", { id: `${id}-about`, class: "about" }, about),
      this.#wrong,
    );
  }

  get text(): string {
    return this.input.value.trim();
  }

  /** @param inForce the value that holds while the field is empty */
  show(text: string, inForce: string): void {
    this.input.value = text;
    if (this.input instanceof HTMLInputElement) this.input.placeholder = inForce;
    else this.input.options[0]!.textContent = inForce;
    this.say("");
  }

  say(wrong: string): void {
    this.#wrong.textContent = wrong;
    if (wrong === "") this.input.removeAttribute("aria-invalid");
    else this.input.setAttribute("aria-invalid", "true");
  }
}

const MORE = "any other setting";

/** Entries for words: some by key, and one for all others. */
class Group {
  readonly entries: ReadonlyMap<string, Entry>;
  readonly more: Entry;
  readonly #fields: readonly Field[];

  constructor(id: string, fields: readonly Field[], about: string) {
    this.#fields = fields;
    this.entries = new Map(
      fields.map((field) => [field.key, new Entry(`${id}-${field.key.replace(".", "-")}`, field)]),
    );
    this.more = new Entry(`${id}-more`, { label: MORE, about });
  }

  get views(): HTMLElement[] {
    return [...this.entries.values(), this.more].map(({ view }) => view);
  }

  show(words: Words, preset: PageExperiment["warm"]): void {
    for (const { key, inForce } of this.#fields) this.entries.get(key)!.show(words[key] ?? "", inForce(preset));
    const others = Object.entries(words).filter(([key]) => !this.entries.has(key));
    this.more.show(showWords(Object.fromEntries(others)), "none");
  }

  /** @throws UsageError if the line of other settings cannot be read */
  read(): Words {
    const said = [...this.entries].filter(([, { text }]) => text !== "").map(([key, { text }]) => [key, text]);
    const more = readWords(MORE, this.more.text);
    const twice = Object.keys(more).find((key) => this.entries.has(key));
    if (twice !== undefined) throw new UsageError(`${MORE}: ${twice} has a field of its own`);
    return { ...(Object.fromEntries(said) as Words), ...more };
  }

  say(key: string, message: string): void {
    (this.entries.get(key) ?? this.more).say(message);
  }

  clear(): void {
    for (const entry of [...this.entries.values(), this.more]) entry.say("");
  }
}

const METHOD = {
  label: "method",
  about: "a method, and add-ons with a plus: dapo+echo+actfocus",
  words: METHOD_WORDS,
  open: true,
} as const;

class AgentGroup {
  readonly view: HTMLElement;
  readonly name: Entry;
  readonly method: Entry;
  readonly settings: Group;

  constructor(index: number) {
    const id = `agent-${index + 1}`;
    this.name = new Entry(`${id}-name`, { label: "name", about: "what curves and columns say; by default the method" });
    this.method = new Entry(`${id}-method`, METHOD);
    this.settings = new Group(id, AGENT_FIELDS, "flags and PART.OPTION with commas: kl=0.05,ppo.epsilonHigh=0.3");
    // A name says what the method was; with another method it would be wrong.
    this.method.input.addEventListener("change", () => (this.name.input.value = ""));
    this.view = element(
      "fieldset",
      { class: "entries" },
      element("legend", {}, `Agent ${index + 1}`),
      ...[this.method, this.name].map(({ view }) => view),
      ...this.settings.views,
    );
  }

  show({ name, method, settings }: AgentWords, preset: PageExperiment["warm"]): void {
    this.name.show(name ?? "", "its method");
    this.method.show(method, "");
    this.settings.show(settings, preset);
  }

  read(): AgentWords {
    const name = this.name.text === "" ? undefined : this.name.text;
    return { name, method: this.method.text, settings: this.settings.read() };
  }
}

export class Controls {
  readonly view: HTMLFormElement;
  readonly #shared = new Group(
    "all",
    SHARED_FIELDS,
    "flags and PART.OPTION with commas: quick,env.size=3,sft.steps=100",
  );
  readonly #agents: readonly AgentGroup[];
  readonly #wrong = element("p", { class: "wrong", role: "alert" });

  /** @param apply is called with valid words */
  constructor(agents: number, apply: (words: ExperimentWords) => void) {
    this.#agents = Array.from({ length: agents }, (_, i) => new AgentGroup(i));
    this.view = element(
      "form",
      { class: "experiment", novalidate: true },
      element("fieldset", { class: "entries" }, element("legend", {}, "Both agents"), ...this.#shared.views),
      element("div", { class: "agents" }, ...this.#agents.map(({ view }) => view)),
      element("div", { class: "controls" }, element("button", { type: "submit", class: "main" }, "Apply")),
      this.#wrong,
    );
    this.view.addEventListener("submit", (event) => {
      event.preventDefault();
      const words = this.#read();
      if (words !== null) apply(words);
    });
  }

  show({ words, warm, agents }: PageExperiment): void {
    this.#clear();
    this.#shared.show(words.shared, warm);
    words.agents.forEach((own, i) => this.#agents[i]!.show(own, agents[i]!.preset));
  }

  /** The words of the form; null if one is invalid, which is then reported under its field. */
  #read(): ExperimentWords | null {
    this.#clear();
    const shared = this.#tried(this.#shared, () => this.#shared.read());
    const agents = this.#agents.map((agent) => this.#tried(agent.settings, () => agent.read()));
    if (shared === null || agents.some((agent) => agent === null)) return null;
    const words: ExperimentWords = { shared, agents: agents.filter((agent) => agent !== null) };
    const wrong = wrongIn(words);
    if (wrong !== null) this.#say(wrong);
    return wrong === null ? words : null;
  }

  #tried<T>(group: Group, read: () => T): T | null {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      group.more.say(error.message);
      group.more.input.focus();
      return null;
    }
  }

  #say({ agent, key, message }: Wrong): void {
    if (key === undefined) return void (this.#wrong.textContent = message);
    const own = agent === undefined ? undefined : this.#agents[agent]!;
    const special = key === "method" ? own?.method : key === "name" ? own?.name : undefined;
    const group = own?.settings ?? this.#shared;
    const entry = special ?? group.entries.get(key) ?? group.more;
    entry.say(message);
    entry.input.focus();
  }

  #clear(): void {
    this.#wrong.textContent = "";
    this.#shared.clear();
    for (const { settings, name, method } of this.#agents) {
      settings.clear();
      name.say("");
      method.say("");
    }
  }
}
