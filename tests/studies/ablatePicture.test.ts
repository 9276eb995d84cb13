/** The picture of an ablation: a line, a band and a name for each arm, at the places that its numbers say. */
import { expect, it } from "vitest";
import { themeColours } from "../support/theme.ts";
import { pictureOf } from "../../studies/ablate/picture.ts";
import type { ArmResult, Results } from "../../studies/ablate/results.ts";
import type { Interval } from "../../run/figures/statistics.ts";

const arm = (name: string, success: readonly (Interval | null)[]): ArmResult =>
  ({
    arm: name,
    steps: 10,
    success: success.at(-1),
    curve: { steps: success.map((_, i) => 5 * i), success },
  }) as unknown as ArmResult;
const around = (value: number, half = 0.1): Interval => ({ value, low: value - half, high: value + half });
const picture = (...environments: { env: string; arms: ArmResult[] }[]): string =>
  pictureOf({ environments } as unknown as Results);
const numbers = (text: string): number[] => text.split(/[ ,]/).map(Number);
const points = (svg: string, kind: string): number[][] =>
  [...svg.matchAll(new RegExp(`<${kind} points="([^"]*)"`, "g"))].map(([, all]) => numbers(all!));

it("has a line through the means and a band between the limits, in the scale of its axes", () => {
  const svg = picture({ env: "home", arms: [arm("grpo", [around(0), around(0.2), around(0.4)])] });
  const [[x0, y0, x1, y1, x2, y2]] = points(svg, "polyline") as [[number, number, number, number, number, number]];
  expect(Math.abs(x0 - 2 * x1 + x2)).toBeLessThan(0.21);
  expect(Math.abs(y0 - 2 * y1 + y2)).toBeLessThan(0.21); // up is less; places are rounded to a tenth
  expect(y0 - y2).toBeGreaterThan(100);
  const [band] = points(svg, "polygon") as [number[]];
  expect(band.length).toBe(12);
  expect(band[4]).toBe(x2); // along the upper limits, and back along the lower ones
  expect(Math.abs(band[1]! + band[11]! - 2 * y0)).toBeLessThan(0.21);
  expect(svg).toContain(">grpo 40.0 %</text>");
  expect(svg).toContain(">home: success on held-out tasks</text>");
  for (const text of [">0 %<", ">15 %<", ">60 %<", ">0<", ">5<", ">10<"]) expect(svg).toContain(text);
});

it("leaves out what is not known, and the band of a single seed", () => {
  const alone = (value: number): Interval => ({ value, low: NaN, high: NaN });
  const svg = picture({ env: "home", arms: [arm("grpo", [null, alone(0.2), alone(0.4)])] });
  expect(points(svg, "polyline")[0]!.length).toBe(4);
  expect(svg).toContain('<polygon points=""');
  expect(svg).not.toContain("NaN");
});

it("has a panel for each environment, a color for each arm, and names as they are written", () => {
  const curve = [around(0), around(0.1), around(0.2)];
  const svg = picture(
    { env: "a<b", arms: [arm("grpo", curve), arm("x & y", curve)] },
    { env: "c", arms: [arm("grpo", curve)] },
  );
  expect(svg).toContain("a&lt;b: success");
  expect(svg).toContain(">x &amp; y 20.0 %<");
  const colors = [...svg.matchAll(/stroke="(#\w+)" stroke-width/g)].map(([, color]) => color);
  expect(colors.length).toBe(3);
  expect(colors[0]).not.toBe(colors[1]);
  expect(colors[2]).toBe(colors[0]);
  const [first, , second] = points(svg, "polyline");
  expect(second![1]! - first![1]!).toBeGreaterThan(200);
  const [, , , height] = numbers(/viewBox="([^"]*)"/.exec(svg)![1]!);
  expect(second![1]!).toBeLessThan(height!);
});

it("has the colours of the pages' lines, in their order", () => {
  const arms = Array.from({ length: 8 }, (_, i) => arm(`arm ${i}`, [around(0), around(0.1)]));
  const strokes = [...picture({ env: "home", arms }).matchAll(/stroke="(#\w+)" stroke-width/g)].map(([, own]) => own);
  expect(strokes).toEqual(arms.map((_, i) => themeColours(`line-${i + 1}`).light));
});
