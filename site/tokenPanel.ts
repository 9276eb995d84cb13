/**
 * The panel of a token: the terms of its loss as formulas with the numbers filled in, and the model's prediction of it:
 * the likeliest tokens, and the attention of each head.
 */
import { formatNumber, formatPercent, formatSigned } from "../run/figures/format.ts";
import { visible } from "../run/visible.ts";
import { element } from "../run/page/dom.ts";
import { type FormulaLine, formulaLines, mathTable, numberMath, symbolMath, weighedLines } from "./mathml.ts";
import { WEIGHT_SYMBOLS } from "./lossWords.ts";
import { mathElement } from "./mathElement.ts";
import type { EpisodeTerm, EpisodeToken, EpisodeView, LogitView, PlaceView, StepView, TermView } from "./questions.ts";

/** A token's text with its blanks and control characters made visible. */
export const quoted = (text: string): string =>
  text === "" ? "∅" : JSON.stringify(visible(text)).slice(1, -1).replaceAll(" ", "␣");

const formula = (lines: readonly FormulaLine[], label: string): HTMLElement =>
  element("div", { class: "formula", tabindex: 0, role: "group", "aria-label": label }, mathElement(mathTable(lines)));

/** The terms of a token, each with its formula. */
export function termsView(step: StepView, view: EpisodeView, at: number): HTMLElement {
  const [token, terms] = [view.tokens[at]!, view.terms[at]!];
  const about = `token ${at}, written by the ${writerOf(token)}`;
  const code = element("code", {}, quoted(token.text));
  const said = element("p", { class: "said" }, sentencesAbout(view, at).join(" "));
  const heading = element("div", {}, element("h3", {}, code, " ", element("small", {}, about)), said);
  if (terms.length === 0) {
    const why = "No term of the loss concerns this token: nothing is learnt from it, it is only read.";
    return element("div", {}, heading, element("p", { class: "muted" }, why));
  }
  const parts = terms.map((term) => termView(step.terms[term.name]!, term));
  const sum = terms.reduce((total, { weight, value }) => total + weight * value, 0);
  const all =
    terms.length > 1 ? [element("p", {}, `Together they add ${formatSigned(sum)} to the loss of the step.`)] : [];
  return element("div", {}, heading, ...parts, ...all);
}

/** What happened at a token, in three sentences: who wrote it, what follows for it, and from where. */
export function sentencesAbout({ tokens, terms }: EpisodeView, at: number): readonly string[] {
  const { role, text, surprise, expected, advantage = NaN } = tokens[at]!;
  const own = terms[at]!.filter(({ weight }) => weight !== 0).map(({ name }) => name);
  const chance = surprise === undefined ? "" : `, to which the agent had given ${formatPercent(Math.exp(-surprise))}`;
  if (role === "observation") {
    const hoped = expected === undefined ? "" : ` The agent expected “${quoted(expected)}”.`;
    const isLearnt = own.some((name) => name === "world" || name === "paw");
    return [
      `The world wrote “${quoted(text)}”${chance}.${hoped}`,
      isLearnt
        ? "The agent learns to expect it, whatever the try was paid."
        : "This agent learns nothing from answers: it has only read it.",
    ];
  }
  if (role !== "action" && role !== "thought") return ["It belongs to the task and its frame, which nobody predicts."];
  const wrote = `The agent wrote “${quoted(text)}”${chance.replace("the agent", "it")}.`;
  if (Number.isNaN(advantage) || !own.includes("policy")) return [wrote];
  if (Math.abs(advantage) < 1e-6) return [wrote, "All tries of this task were paid alike, so nothing follows for it."];
  return advantage > 0
    ? [wrote, "This try was paid better than the mean of its task, so the token becomes likelier."]
    : [wrote, "This try was paid worse than the mean of its task, so the token becomes less likely."];
}

/**
 * The token that shows most: of the answers the one that surprised most, if the agent learns from it; else the agent's
 * own token with the largest advantage.
 * @returns −1 if nothing is learnt from any
 */
export function tellingToken({ tokens, terms }: EpisodeView): number {
  const best = (of: (token: EpisodeToken, at: number) => number): number => {
    const values = tokens.map((token, at) => (terms[at]!.some(({ weight }) => weight !== 0) ? of(token, at) : -1));
    const most = Math.max(-1, ...values);
    return most > 0 ? values.indexOf(most) : -1;
  };
  const answer = best(({ role, surprise = 0 }) => (role === "observation" ? surprise : -1));
  return answer >= 0 ? answer : best(({ advantage = 0 }) => Math.abs(advantage));
}

const writerOf = ({ role }: EpisodeToken): string =>
  role === "action" || role === "thought" ? `agent (${role})` : role === "observation" ? "world" : `task (${role})`;

function termView(of: TermView, term: EpisodeTerm): HTMLElement {
  const { title, about, formula: written, moves, weight: symbol, source } = of;
  const { weight, value, gradient, ofWeight } = term;
  const lines = [
    ...formulaLines("ℓ", { formula: written, ...term }),
    ...(ofWeight ? formulaLines(symbol, ofWeight) : [{ left: symbolMath(symbol), steps: [numberMath(weight)] }]),
    ...weighedLines({ weight: symbol, moves }, term),
  ];
  const used = (ofWeight?.formula.inputs ?? []).flatMap(({ symbol: s }) =>
    WEIGHT_SYMBOLS[s] ? [`${s}: ${WEIGHT_SYMBOLS[s]}`] : [],
  );
  const isLearnt = weight !== 0;
  const effect = `adds ${formatSigned(weight * value)} to the loss; ∂L/∂${moves} = ${formatSigned(gradient)}`;
  return element(
    "section",
    { class: "term card", "aria-label": `${title}: ${effect}` },
    element("h4", {}, title, " ", element("small", {}, isLearnt ? effect : "has no weight here")),
    element("p", { class: "muted" }, about),
    formula(lines, `formula of the term ${title}`),
    element("p", { class: "muted" }, [...used, ...(source ? [source] : [])].join(" · ")),
  );
}

/** The likeliest tokens at a place as bars, with the gradient of the loss with respect to each logit. */
export function logitsView({ logits, temperature, vocabulary, entropy }: PlaceView): HTMLElement {
  const likeliest = Math.max(...logits.map(({ p }) => p));
  const largest = Math.max(...logits.map(({ gradient }) => Math.abs(gradient.value)));
  const row = ({ text, isOwn, p, logit, gradient: { value: gradient } }: LogitView): HTMLElement => {
    const bar = element("span", { class: "bar" });
    bar.style.width = `${(100 * p) / likeliest}%`;
    const pull = element("span", { class: `bar ${gradient > 0 ? "down" : "up"}` });
    pull.style.width = `${largest > 0 ? (100 * Math.abs(gradient)) / largest : 0}%`;
    return element(
      "tr",
      isOwn ? { class: "own" } : {},
      element("th", { scope: "row" }, element("code", {}, quoted(text)), isOwn ? " (came)" : ""),
      element("td", { class: "bars" }, bar),
      element("td", {}, formatPercent(p)),
      element("td", {}, formatNumber(logit)),
      element("td", { class: "bars" }, pull),
      element("td", {}, formatSigned(gradient)),
    );
  };
  const heading = (text: string, colspan = 1): HTMLElement => element("th", { scope: "col", colspan }, text);
  const head = [heading("token"), heading("p", 2), heading("logit z"), heading("∂L/∂z", 2)];
  const table = element(
    "table",
    { class: "logits" },
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...logits.map(row)),
  );
  const own = logits.find(({ isOwn }) => isOwn)!;
  const other = logits.find(({ isOwn }) => !isOwn);
  const lines = [own, ...(other ? [other] : [])].flatMap(({ isOwn, text, gradient }) =>
    formulaLines(isOwn ? "∂L/∂z_came" : `∂L/∂z_${quoted(text).replaceAll("_", "␣")}`, gradient),
  );
  const about =
    `The likeliest of ${vocabulary} tokens at this place, at temperature ${formatNumber(temperature)}; entropy ` +
    `${formatNumber(entropy)} nats. A step goes against the gradient: blue logits rise, red ones fall.`;
  return element(
    "section",
    { "aria-label": "Predicted tokens" },
    element("h4", {}, "What the model predicted here"),
    element("p", { class: "muted" }, about),
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "likeliest tokens" }, table),
    ...(largest === 0 ? [] : [formula(lines, "gradient by the logits; g is ∂L/∂log p")]),
  );
}

/** Number of tokens named for each head. */
const NAMED = 4;

/** @param shade colours the strip by the weights of a head */
export function attentionView(
  { attention }: PlaceView,
  tokens: readonly EpisodeToken[],
  shade: (weights: Float32Array, head: string) => void,
): HTMLElement {
  const heads = attention.flatMap((layer, l) =>
    layer.map((weights, h) => ({ weights, name: `layer ${l + 1}, head ${h + 1}` })),
  );
  const buttons = heads.map(({ weights, name }) => {
    const top = [...weights.keys()].toSorted((a, b) => weights[b]! - weights[a]!).slice(0, NAMED);
    const named = top.map((t) => {
      const chip = element(
        "span",
        { class: "chip" },
        element("code", {}, quoted(tokens[t]!.text)),
        ` ${formatPercent(weights[t]!)}`,
      );
      chip.style.backgroundColor = `color-mix(in srgb, var(--heat) ${Math.round(70 * weights[t]!)}%, transparent)`;
      return chip;
    });
    const button = element(
      "button",
      { type: "button", class: "head", "aria-pressed": "false" },
      element("span", {}, name),
      ...named,
    );
    button.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      shade(weights, `attention of ${name}`);
    });
    return button;
  });
  return element(
    "section",
    { "aria-label": "Attention" },
    element("h4", {}, "What its heads looked at"),
    element(
      "p",
      { class: "muted" },
      "At the place before the token, where it is predicted. A head's button colours the strip.",
    ),
    element("div", { class: "heads" }, ...buttons),
  );
}
