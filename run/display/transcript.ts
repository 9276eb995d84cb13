/**
 * A trajectory in the terminal. With colours it is the text as the agent's terminal would show it, each token in the
 * colour of its role. Without colours it has one block per role, so that a log file tells roles apart, too.
 */
import { formatNumber } from "../figures/format.ts";
import { visible } from "../visible.ts";
import type { Role, Transcript, TranscriptToken } from "../records.ts";
import type { NamedTranscript } from "./contract.ts";
import type { Style } from "./style.ts";
import { fit, textWidth, truncate, wrap, wrapWords } from "./width.ts";

/** The most lines of a transcript; the middle of a longer one is left out. */
const MAX_LINES = 28;

/** Lines of at most `width` cells: a head, the text, a legend. */
export function transcriptLines(transcript: Transcript, style: Style, width: number): string[] {
  const { step, phase, family, reward, success, stopReason, turns } = transcript;
  const outcome = success ? style.good("✔ success") : style.bad(`✘ ${stopReason}`);
  const facts = [
    `${phase} step ${step}`,
    visible(family),
    `reward ${formatNumber(reward)}`,
    `${turns} turn${turns === 1 ? "" : "s"}`,
  ];
  const head = truncate(`┌ ${outcome} ${style.dim(facts.join(" · "))}`, width);
  const tokens = transcript.tokens.filter((token) => token.role !== "pad");
  const body = style.enabled ? colouredLines(tokens, style, width - 2) : labelledLines(tokens, width - 2);
  const shown =
    body.length <= MAX_LINES
      ? body
      : [
          ...body.slice(0, MAX_LINES / 2),
          style.dim(`⋯ ${body.length - MAX_LINES} lines more ⋯`),
          ...body.slice(-MAX_LINES / 2),
        ];
  const lines = [head, ...shown.map((line) => `│ ${line}`)];
  return style.enabled ? [...lines, truncate(`└ ${legend(tokens, style)}`, width)] : lines;
}

/** The width below which a column would break nearly every line. */
const MIN_COLUMN = 44;

/** Several agents' ways through one task: a column for each if there is room, else one below the other. */
export function sideBySideLines(records: readonly NamedTranscript[], style: Style, width: number): string[] {
  if (records.length === 0) return [];
  const columns = Math.max(1, Math.min(records.length, Math.floor(width / MIN_COLUMN)));
  const cells = Math.floor(width / columns);
  const blocks = records.map(({ name, record }) => expectationLines(name, record, style, cells - 2));
  const lines = [truncate(`┌ ${style.bold(visible(records[0]!.record.task))}`, width)];
  for (let first = 0; first < blocks.length; first += columns) {
    const row = blocks.slice(first, first + columns);
    const height = Math.max(...row.map(({ length }) => length));
    for (let i = 0; i < height; i++)
      lines.push(
        row
          .map((block) => fit(`│ ${block[i] ?? ""}`, cells))
          .join("")
          .trimEnd(),
      );
  }
  return lines;
}

/** An agent's way through the task: each action, the answer that it expected, and the answer that came. */
function expectationLines(name: string, record: Transcript, style: Style, width: number): string[] {
  const outcome = record.success ? style.good("✔") : style.bad("✘");
  const lines = [truncate(`${outcome} ${style.bold(visible(name))} ${style.dim(`step ${record.step}`)}`, width)];
  const textOf = (turn: number, role: Role): string =>
    record.tokens.flatMap((token) => (token.turn === turn && token.role === role ? [token.text] : [])).join("");
  const show = (mark: string, text: string, paint: (text: string) => string): void => {
    // Special tokens belong to the template and are not shown.
    const words = visible(text.replace(/<\|\w+\|>/g, "").trim());
    const rows = (words === "" ? "(nothing)" : words)
      .split("\n")
      .flatMap((row) => wrapWords(row, Math.max(8, width - 10)));
    for (const [i, row] of rows.entries()) lines.push(`${style.dim(fit(i === 0 ? mark : "", 9))} ${paint(row)}`);
  };
  for (let turn = 0; turn < record.turns; turn++) {
    show("$", textOf(turn, "action"), style.role.action);
    const expected = record.expected?.[turn];
    const came = textOf(turn, "observation");
    if (expected === undefined) continue; // the last action ended the episode without an answer
    const isLast = turn + 1 === record.turns && came === "";
    if (isLast) continue;
    show("expected", expected, expected.trim() === came.trim() ? style.good : style.dim);
    show("answered", came, style.role.observation);
  }
  return lines;
}

/** The roles that occur, each in its colour. */
function legend(tokens: readonly TranscriptToken[], style: Style): string {
  const roles = [...new Set(tokens.map((token) => token.role))];
  return roles.map((role) => style.role[role](role)).join(style.dim(" · "));
}

/** Joins neighbouring tokens of the same role, which then need one colour code. */
function runs(tokens: readonly TranscriptToken[]): { role: Role; text: string }[] {
  const found: { role: Role; text: string }[] = [];
  for (const { role, text } of tokens) {
    const last = found.at(-1);
    if (last?.role === role) last.text += text;
    else found.push({ role, text });
  }
  return found.map(({ role, text }) => ({ role, text: visible(text) }));
}

function colouredLines(tokens: readonly TranscriptToken[], style: Style, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  let cells = 0;
  const end = (): void => {
    lines.push(line);
    [line, cells] = ["", 0];
  };
  for (const { role, text } of runs(tokens)) {
    text.split("\n").forEach((part, i) => {
      if (i > 0) end();
      // First the rest of this line is filled, then whole lines.
      const room = width - cells;
      const [first = "", ...more] = textWidth(part) <= room ? [part] : splitAt(part, room, width);
      line += style.role[role](first);
      cells += textWidth(first);
      for (const piece of more) {
        end();
        line = style.role[role](piece);
        cells = textWidth(piece);
      }
    });
  }
  if (line !== "") end();
  return lines;
}

/** Splits a text into the part that fits into `room`, then pieces of `width`. */
function splitAt(text: string, room: number, width: number): string[] {
  if (room < 2) return ["", ...wrap(text, width)];
  const [first = ""] = wrap(text, room);
  return [first, ...wrap(text.slice(first.length), width)];
}

function labelledLines(tokens: readonly TranscriptToken[], width: number): string[] {
  return runs(tokens).flatMap(({ role, text }) =>
    text
      .replace(/\n$/, "")
      .split("\n")
      .flatMap((line) => wrap(line, Math.max(8, width - 13)))
      .map((line, i) => `${(i === 0 ? role : "").padEnd(11)} ${line}`.trimEnd()),
  );
}
