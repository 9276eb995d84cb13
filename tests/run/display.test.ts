/** The terminal display, watched through a small terminal emulator, and its parts. */
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { createDisplay, type Display, type OutputStream } from "../../run/display/display.ts";
import { bar, sparkline } from "../../run/display/spark.ts";
import { createStyle, wantsColour } from "../../run/display/style.ts";
import {
  comparisonTable,
  familyTable,
  formatRate,
  scoreLine,
  successChange,
  tableLines,
} from "../../run/display/table.ts";
import { fit, textWidth, truncate, wrap } from "../../run/display/width.ts";
import { formatCount, formatDuration, formatNumber, formatPercent } from "../../run/figures/format.ts";
import { visible } from "../../run/visible.ts";
import type { Summary, Transcript } from "../../run/records.ts";
import { rateDifference, wilson } from "../../run/figures/statistics.ts";

const ESC = "\u001b";

/**
 * Understands what the display may send, and refuses the rest: text, \n, \r, cursor up, clear line end, clear below,
 * SGR, cursor on/off.
 */
class Terminal implements OutputStream {
  columns: number;
  rows = 40;
  readonly lines: string[] = [""];
  raw = "";
  cursorShown = true;
  writes = 0;
  private row = 0;
  private column = 0;
  private listeners: (() => void)[] = [];

  constructor(columns: number) {
    this.columns = columns;
  }
  on(_event: "resize", listener: () => void): void {
    this.listeners.push(listener);
  }
  off(_event: "resize", listener: () => void): void {
    this.listeners = this.listeners.filter((known) => known !== listener);
  }
  /** Shrinks or widens, rewrapping what is on the screen as terminals do. */
  resize(columns: number): void {
    const wrapped = this.lines.flatMap((text) => wrap(text, columns));
    this.row = wrapped.length - 1;
    this.lines.splice(0, this.lines.length, ...wrapped);
    this.columns = columns;
    for (const listener of this.listeners) listener();
  }
  write(text: string): void {
    this.writes++;
    this.raw += text;
    for (const [, up, code, char] of text.matchAll(/\u001b\[(\d+)A|\u001b\[([\d;]*m|K|J|\?25[lh])|([^])/gu)) {
      if (up !== undefined) this.row = Math.max(0, this.row - Number(up));
      else if (code === "K") this.put((this.lines[this.row] ?? "").slice(0, this.column));
      else if (code === "J") this.lines.splice(this.row + 1, Infinity);
      else if (code === "?25l" || code === "?25h") this.cursorShown = code.endsWith("h");
      else if (char === "\n") [this.row, this.column] = [this.row + 1, 0];
      else if (char === "\r") this.column = 0;
      else if (char !== undefined) {
        if (char === ESC) throw new Error("an escape code that the emulator does not know");
        const line = this.lines[this.row] ?? "";
        this.put(line.slice(0, this.column).padEnd(this.column) + char + line.slice(this.column + char.length));
        this.column += char.length;
        const cells = textWidth(this.lines[this.row]?.slice(0, this.column) ?? "");
        if (cells > this.columns) throw new Error(`a line of ${cells} cells in ${this.columns} columns`);
      }
      while (this.lines.length <= this.row) this.lines.push("");
    }
  }
  get screen(): string {
    return this.lines.join("\n");
  }
  private put(text: string): void {
    while (this.lines.length <= this.row) this.lines.push("");
    this.lines[this.row] = text;
  }
}

const record: Transcript = {
  step: 40,
  phase: "rl",
  env: "terminal",
  family: "find-file",
  task: "find it",
  group: 1,
  reward: 1,
  success: true,
  stopReason: "completed",
  turns: 2,
  tokens: [
    { id: 1, text: "Find the note.\n", role: "prompt", turn: 0 },
    { id: 2, text: "$ ", role: "scaffold", turn: 1 },
    { id: 3, text: "ls\n", role: "action", turn: 1 },
    { id: 4, text: `a.txt ${ESC}[2Jb.txt\n`, role: "observation", turn: 1 },
    { id: 0, text: "", role: "pad", turn: 1 },
  ],
};

const summary: Summary = {
  before: {
    label: "warm start",
    episodes: 100,
    successes: 30,
    meanTurns: 5,
    worldLoss: 0.5,
    families: { find: { episodes: 10, successes: 3 } },
  },
  after: {
    label: "after RL",
    episodes: 100,
    successes: 70,
    meanTurns: 3,
    worldLoss: 0.2,
    families: { find: { episodes: 10, successes: 4 } },
  },
};

let open: Display | undefined;
afterEach(() => open?.close());

function start(
  columns: number,
  env: Record<string, string> = {},
): { terminal: Terminal; display: Display; clock: { ms: number } } {
  const terminal = new Terminal(columns);
  const clock = { ms: 0 };
  const display = createDisplay({ stream: terminal, isTTY: true, now: () => clock.ms, env });
  open = display;
  return { terminal, display, clock };
}

describe("on a terminal", () => {
  test("redraws in place: a hundred updates leave one frame with the last numbers", () => {
    const { terminal, display, clock } = start(80);
    display.phase("GRPO + ECHO", 100);
    for (let step = 1; step <= 100; step++) {
      clock.ms += 1000;
      display.update(step, { reward: step / 100, world_loss: 1 / step, success: 0.5 });
    }
    expect(terminal.cursorShown).toBe(false);
    display.close();
    expect(terminal.cursorShown).toBe(true);
    expect(terminal.screen.match(/GRPO \+ ECHO/g)).toHaveLength(1);
    expect(terminal.screen).toContain("100/100");
    expect(terminal.screen).toContain("100 %");
    expect(terminal.screen).toMatch(/reward +1 +▁.*█/);
    expect(terminal.screen).toMatch(/world loss +0\.0100/);
    expect(terminal.screen).toContain("1:40 elapsed · 0:00 left");
  });

  test("says how long is left from the speed of the last steps", () => {
    const { terminal, display, clock } = start(80);
    display.phase("sft", 100, 20);
    for (let step = 21; step <= 40; step++) {
      clock.ms += 2000;
      display.update(step, {});
    }
    expect(terminal.screen).toContain("2:00 left");
    expect(terminal.screen).toContain("40 %");
  });

  test("draws at most ten times a second", () => {
    const { terminal, display, clock } = start(80);
    display.phase("sft", 1000);
    const before = terminal.writes;
    for (let step = 1; step <= 1000; step++) {
      clock.ms += 1;
      display.update(step, { loss: 1 });
    }
    expect(terminal.writes - before).toBeLessThanOrEqual(10);
    expect(terminal.writes - before).toBeGreaterThanOrEqual(9);
  });

  test("notes, transcripts and tables stay above the live lines", () => {
    const { terminal, display } = start(80);
    display.phase("rl", 10);
    display.update(3, { reward: 0.5 });
    display.evaluation(3, { episodes: 8, successes: 5, worldLoss: 0.5 });
    display.transcript(record);
    display.update(4, { reward: 0.6 });
    display.table(comparisonTable(summary));
    display.close();
    const order = [
      "• held-out tasks: 62.5 % of 8 solved, world-model loss 0.500",
      "✔ success",
      "│ Find the note.",
      "│ $ ls",
      "Held-out tasks",
      "▸ rl",
    ].map((text) => terminal.screen.indexOf(text));
    expect(order).not.toContain(-1);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    // What the model printed could have cleared the screen; it is shown instead.
    expect(terminal.screen).toContain("a.txt ␛[2Jb.txt");
    expect(terminal.raw).not.toContain(`${ESC}[2J`);
  });

  test("a finished phase stays on the screen, and its table comes under it", () => {
    const { terminal, display } = start(80);
    display.phase("warm start", 2);
    display.update(2, { loss: 0.25 });
    display.phase("rl", 1);
    display.update(1, { reward: 1 });
    display.table(comparisonTable(summary));
    display.note("bye");
    display.close();
    const order = ["warm start 2/2", "0.2500", "rl 1/1", "Held-out tasks", "• bye"].map((text) =>
      terminal.screen.indexOf(text),
    );
    expect(order).not.toContain(-1);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  });

  test.each([40, 57, 80, 133, 200, 260])("every line fits into %i columns", (columns) => {
    const { terminal, display, clock } = start(columns);
    display.note("a message that is a good deal longer than forty columns are wide, 日本語 too");
    display.phase("a phase with a rather long name that needs to be cut", 10);
    for (let step = 1; step <= 10; step++) {
      clock.ms += 500;
      display.update(step, { reward: step, success: 1, policy_loss: -1e-9, "a/very/long/metric/name": NaN });
    }
    display.transcript(record);
    display.table(comparisonTable(summary));
    display.close();
    for (const line of terminal.lines) expect(textWidth(line)).toBeLessThan(columns);
  });

  test("survives a window that shrinks", () => {
    const { terminal, display, clock } = start(120);
    display.phase("grpo", 10);
    display.update(1, { reward: 1, success: 0.5, entropy: 2, grad_norm: 1 });
    terminal.resize(50);
    clock.ms += 1000;
    display.update(2, { reward: 1, success: 0.5, entropy: 2, grad_norm: 1 });
    display.close();
    expect(terminal.screen.match(/▸ grpo/g)).toHaveLength(1);
    expect(terminal.screen).toContain("2/10");
  });

  test("roles have distinct colours, NO_COLOR takes all of them and FORCE_COLOR wins", () => {
    const paints = Object.values(createStyle(true).role).map((paint) => paint("x"));
    expect(new Set(paints).size).toBeGreaterThanOrEqual(5);
    const coloured = start(80);
    coloured.display.transcript(record);
    expect(coloured.terminal.raw).toContain(`${ESC}[1;32mls`);
    expect(coloured.terminal.raw).toContain(`${ESC}[34ma.txt`);
    coloured.display.close();
    const plain = start(80, { NO_COLOR: "1" });
    plain.display.phase("rl", 2);
    plain.display.transcript(record);
    expect(plain.terminal.raw).not.toMatch(/\u001b\[[\d;]*m/);
    expect(plain.terminal.screen).toMatch(/│ action +ls/);
    expect(wantsColour(false, { FORCE_COLOR: "1", NO_COLOR: "1" })).toBe(true);
    expect(wantsColour(true, { FORCE_COLOR: "0" })).toBe(false);
    expect(wantsColour(true, { TERM: "dumb" })).toBe(false);
    expect(wantsColour(true, {})).toBe(true);
  });
});

describe("without a terminal", () => {
  test("appends plain lines, at most one per lineMs, the first and the last always", () => {
    let text = "";
    const clock = { ms: 0 };
    const stream: OutputStream = { write: (part) => (text += part) };
    const display = createDisplay({
      stream,
      isTTY: false,
      now: () => clock.ms,
      env: { FORCE_COLOR: "1" },
      lineMs: 1000,
    });
    display.phase("rl", 25);
    for (let step = 1; step <= 25; step++) {
      clock.ms += 100;
      display.update(step, { reward: 0.5, tokens_per_second: 4100 });
    }
    display.transcript(record);
    display.table(comparisonTable(summary));
    display.note(`done${ESC}[2J`);
    display.close();
    display.note("after the end");
    expect(text).not.toContain(ESC);
    expect(text.match(/^rl (\d+)\/25/gm)).toEqual(["rl 1/25", "rl 11/25", "rl 21/25", "rl 25/25"]);
    expect(text).toContain("| reward 0.5000 | tokens/s 4.1k");
    expect(text).toContain("│ observation a.txt ␛[2Jb.txt");
    expect(text).not.toContain("after the end");
  });
});

test("names of metrics, runs and families move no cursor and hide nothing, on a terminal or without", () => {
  const evil = `${ESC}[2J${ESC}]0;mine\u0007\u202ex\ny\r`;
  const hostile: Summary = {
    before: { ...summary.before, label: evil, families: { [evil]: { episodes: 4, successes: 1 } } },
    after: { ...summary.after, label: evil, families: { constructor: { episodes: 4, successes: 1 } } },
  };
  const metrics = { [evil]: 1, constructor: 2, toString: 3, reward: 4 };
  const { terminal, display, clock } = start(120); // refuses what the display may not send
  let plain = "";
  const lines = createDisplay({
    stream: { write: (text) => ((plain += text), true) },
    isTTY: false,
    now: () => 0,
    env: {},
  });
  for (const shown of [display, lines]) {
    shown.phase(evil, 1, 0, [evil, "b"]);
    clock.ms += 1000;
    shown.update(1, metrics, 0);
    shown.update(1, metrics, 1);
    shown.table(comparisonTable(hostile));
    shown.table(familyTable(hostile)!);
    shown.note(evil);
    shown.close();
  }
  expect(plain).not.toMatch(/(?!\n)[\p{Cc}\u202a-\u202e]/u);
  expect(plain).toContain("␛[2J␛]0;mine␇�x␊y␍ 1 | constructor 2");
  expect(terminal.raw).not.toContain(`${ESC}[2J`);
  expect(terminal.raw).not.toContain("\u202e");
});

describe("tables", () => {
  test("before and after, with intervals and a change that is judged", () => {
    const lines = tableLines(comparisonTable(summary), createStyle(false), 100).join("\n");
    expect(lines).toMatch(/success rate \[95 %\] +30\.0 % \[22, 40\] +70\.0 % \[60, 78\] +\+40\.0 \[\+26, \+51\]/);
    expect(lines).toMatch(/world loss, nats\/token +0\.5000 +0\.2000 +−0\.3000/);
    expect(familyTable(summary)?.rows).toHaveLength(1);
    expect(
      familyTable({
        before: { label: "a", episodes: 1, successes: 0 },
        after: { label: "b", episodes: 1, successes: 0 },
      }),
    ).toBeNull();
    expect(formatRate({ episodes: 0, successes: 0 })).toBe("–");
    expect(successChange({ episodes: 10, successes: 3 }, { episodes: 10, successes: 4 }).tone).toBeUndefined();
    expect(successChange({ episodes: 99, successes: 90 }, { episodes: 99, successes: 9 }).tone).toBe("bad");
  });

  test("the mean reward is shown where it is another number than the success, with 1.96·s/√n", () => {
    const graded = {
      before: { ...summary.before, meanReward: -0.5, rewardStd: 1 },
      after: { ...summary.after, meanReward: 0.25, rewardStd: 0.5 },
    };
    const lines = tableLines(comparisonTable(graded), createStyle(false), 100).join("\n");
    expect(lines).toMatch(/mean reward ± 95 % +−0\.5000 ± 0\.1960 +0\.2500 ± 0\.0980 +\+0\.7500/);
    expect(scoreLine(graded.before)).toContain("30.0 % of 100 solved, mean reward −0.5000");
    // Where a success earns 1, they are the same number, but for rounding.
    const plain = { ...summary, after: { ...summary.after, meanReward: 0.7 + 1e-16, rewardStd: 0.46 } };
    expect(comparisonTable(plain).rows.map(([name]) => name)).not.toContain("mean reward ± 95 %");
    expect(scoreLine(plain.after)).not.toContain("reward");
    const absent = comparisonTable({ ...graded, before: summary.before });
    expect(absent.rows.find(([name]) => name === "mean reward ± 95 %")).toMatchObject([{}, "–", {}, { text: "–" }]);
  });

  test("Wilson and Newcombe agree with published values", () => {
    // Newcombe (1998): 81/263 gives .2553 to .3662, 0/20 gives 0 to .1611; 56/70 − 48/80 gives .0524 to .3339.
    expect(wilson(81, 263).low).toBeCloseTo(0.2553, 4);
    expect(wilson(81, 263).high).toBeCloseTo(0.3662, 4);
    expect(wilson(0, 20).low).toBe(0);
    expect(wilson(0, 20).high).toBeCloseTo(0.1611, 4);
    expect(wilson(20, 20).high).toBe(1);
    expect(wilson(0, 0)).toEqual({ value: NaN, low: 0, high: 1 });
    const difference = rateDifference({ successes: 48, trials: 80 }, { successes: 56, trials: 70 });
    expect(difference.low).toBeCloseTo(0.0524, 4);
    expect(difference.high).toBeCloseTo(0.3339, 4);
    expect(() => wilson(3, 2)).toThrow(/0 ≤ successes ≤ trials, got 3 of 2/);
  });
});

describe("cells", () => {
  test("wide, combining and coloured text", () => {
    expect(textWidth("日本")).toBe(4);
    expect(textWidth("e\u0301")).toBe(1);
    expect(textWidth(`${ESC}[1;32mls${ESC}[0m`)).toBe(2);
    expect(textWidth("⏎·…█▁")).toBe(5);
    expect(truncate("日本語", 4)).toBe("日…");
    expect(fit("ab", 4, "right")).toBe("  ab");
    expect(visible("a\tb\r\u009b\u202e\u2028\n")).toBe("a→b␍���\n");
  });

  test("cutting never exceeds the width and loses nothing by wrapping", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 2, max: 30 }), (raw, width) => {
        const text = visible(raw).replaceAll("\n", "");
        expect(textWidth(fit(text, width))).toBe(width);
        const lines = wrap(text, width);
        for (const line of lines) expect(textWidth(line)).toBeLessThanOrEqual(width);
        expect(lines.join("")).toBe(text);
      }),
    );
  });

  test("bars and sparklines", () => {
    expect(sparkline([0, 1, 2, 7], 3)).toBe("▁▂█");
    expect(sparkline([3, NaN, 3], 5)).toBe("▁ ▁");
    expect(sparkline([1], 0)).toBe("");
    expect(bar(0.5, 4)).toEqual({ filled: "██", rest: "░░" });
    expect(bar(1.5, 2).filled).toBe("██");
    expect(bar(NaN, 2).rest).toBe("░░");
    expect(bar(1 / 16, 2)).toEqual({ filled: "▏", rest: "░" });
  });

  test("numbers", () => {
    expect([0.12345, 12.345, -0.5, 1e-5, 0, NaN, 41234, -Infinity].map(formatNumber)).toEqual([
      "0.1235",
      "12.35",
      "−0.5000",
      "1.0e−5",
      "0",
      "NaN",
      "41.2k",
      "−∞",
    ]);
    expect(formatCount(4_560_000)).toBe("4.56M");
    expect([0, 0.4375, 1].map(formatPercent)).toEqual(["0 %", "43.8 %", "100 %"]);
    expect([5, 65, 3700, NaN].map(formatDuration)).toEqual(["0:05", "1:05", "1:01:40", "–:––"]);
  });
});
