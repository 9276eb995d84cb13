/** The figures in sentences. */
import { formatNumber } from "../../run/figures/format.ts";
import { angleOf, type Figures } from "./figures.ts";
import type { Sample, StateFacts } from "./laboratory.ts";
import { methodByName } from "./methods.ts";
import type { Settings } from "./settings.ts";
import { TASKS } from "./task.ts";

const labelOf = (method: string): string => methodByName(method).label;

/** The bias of a method in words. */
export function biasInWords(figures: Figures): string {
  const { cosine, length, biasError } = figures;
  const angle = angleOf(figures);
  if (Number.isNaN(angle)) return "it has no mean that could be told from 0";
  const factor =
    Math.abs(length - 1) < 1e-6 ? "" : ` but for a factor of ${formatFigure(length)}, which the learning rate takes up`;
  if (biasError === 0 && angle === 0) return `on average it is the true gradient${factor}`;
  const about = biasError > 0 ? "about " : "";
  const turned = `its mean is turned away from the true gradient by ${about}${formatAngle(angle)}`;
  if (cosine <= 0) return `${turned}: such steps lower the expected reward`;
  return `${turned}, which no learning rate mends, and is ${formatFigure(length)} times as long`;
}

/** An angle with three digits. */
export const formatAngle = (angle: number): string =>
  Number.isNaN(angle) ? "–" : `${Number(angle.toPrecision(3)).toLocaleString("en-GB")}°`;

/** Four digits, without the zeros that rounding to them leaves. */
export const formatFigure = (value: number): string => formatNumber(Number(value.toPrecision(4)));

/** Number of episodes with which a step has as much signal as noise, if the noise falls as 1 / episodes. */
export const episodesForEven = ({ signalToNoise }: Figures, { group }: Pick<Settings, "group">): number =>
  (TASKS.length * group) / signalToNoise;

export function aboutMethod(settings: Settings, figures: Figures): string {
  const { method, group } = settings;
  const even = episodesForEven(figures, settings);
  const ratio = formatFigure(figures.signalToNoise);
  return (
    `${labelOf(method)} in groups of ${group}: ${biasInWords(figures)}. ` +
    `A step of ${TASKS.length * group} episodes has ${ratio} times as much signal as noise; ` +
    `about ${Number.isFinite(even) ? formatNumber(Math.round(even)) : "∞"} episodes would make them equal.`
  );
}

export function aboutSample({ points, meanCosine }: Sample): string {
  const uphill = points.filter(([along]) => along > 0).length;
  return (
    `Of ${points.length} sampled steps ${uphill} raise the expected reward to first order; ` +
    `their cosine with the true gradient is ${formatNumber(meanCosine)} on average.`
  );
}

/** A sentence on the drawn methods with the most signal for its noise and with the largest angle. */
export function comparison(
  all: readonly { readonly method: string; readonly figures: Figures }[],
  group: number,
): string {
  if (all.length < 2) return "";
  const by = (value: (figures: Figures) => number): (typeof all)[number] =>
    all.reduce((a, b) => (value(b.figures) > value(a.figures) ? b : a));
  const clearest = by(({ signalToNoise }) => signalToNoise);
  const turned = by(angleOf);
  return (
    `Of the methods in the table, in groups of ${group}, ${labelOf(clearest.method)} has most signal for its noise ` +
    `(${formatFigure(clearest.figures.signalToNoise)}), and ${labelOf(turned.method)} is turned furthest from the ` +
    `true gradient (${formatAngle(angleOf(turned.figures))}).`
  );
}

export function aboutWorld({ worldCosine, worldNorm, gradientNorm, worldWholeCosine }: StateFacts): string {
  const times = formatNumber(worldNorm / gradientNorm);
  const how = worldCosine < -0.1 ? "against" : worldCosine > 0.1 ? "with" : "across";
  return (
    `Here the gradient of the world-model loss works ${how} that of the reward: their cosine is ` +
    `${formatNumber(worldCosine)}, and at λ = 1 the former is ${times} times as long. ECHO takes the episodes as ` +
    "given. The whole derivative of that loss would also make the agent prefer actions whose answers it knows; " +
    `the cosine of ECHO's part with it is ${formatNumber(worldWholeCosine)}.`
  );
}
