/** The tables of exact.html. Runs in the browser. */
import { formatNumber, formatPercent } from "../../run/figures/format.ts";
import { element } from "../../run/page/dom.ts";
import { angleOf, type Figures, type ParameterShare } from "./figures.ts";
import { methodByName } from "./methods.ts";
import type { Settings } from "./settings.ts";
import { episodesForEven, formatAngle, formatFigure } from "./words.ts";

/** A table that scrolls by itself on a narrow screen, also by keys. */
function table(caption: string, head: readonly string[], rows: readonly (readonly string[])[]): HTMLElement {
  const headCell = (text: string, i: number): HTMLElement =>
    i === 0 ? element("td", {}, text) : element("th", { scope: "col" }, text);
  const body = rows.map(([name = "", ...cells]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, ...breakable(name)),
      ...cells.map((cell) => element("td", {}, cell)),
    ),
  );
  const own = element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...head.map(headCell))),
    element("tbody", {}, ...body),
  );
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, own);
}

/** A parameter's name, which may be broken behind its dots. */
const breakable = (name: string): (Node | string)[] =>
  name.split(/(?<=\.)/).flatMap((part, i) => (i === 0 ? [part] : [element("wbr"), part]));

/** The figures of methods at one group size. */
export function figuresTable(
  settings: Settings,
  rows: readonly { readonly method: string; readonly figures: Figures }[],
): HTMLElement {
  return table(
    `Groups of ${settings.group}`,
    ["", "mean's length", "mean's angle", "bias", "variance", "signal / noise", "episodes for 1"],
    rows.map(({ method, figures }) => [
      methodByName(method).label,
      formatFigure(figures.length),
      formatAngle(angleOf(figures)),
      withError(figures),
      formatFigure(figures.variance),
      formatNumber(figures.signalToNoise),
      formatNumber(Math.round(episodesForEven(figures, settings))),
    ]),
  );
}

const withError = ({ bias, biasError }: Figures): string =>
  biasError > 0 ? `${formatFigure(bias)} ± ${Number(biasError.toPrecision(2))}` : formatFigure(bias);

/** Each parameter's share of the true gradient and of the variance. */
export function sharesTable(label: string, shares: readonly ParameterShare[]): HTMLElement {
  return table(
    `${label}, by parameter`,
    ["", "numbers", "of ‖g‖²", "of the variance"],
    shares.map(({ name, size, gradient, variance }) => [
      name.replace(/\.weight$/, ""),
      String(size),
      formatPercent(gradient),
      formatPercent(variance),
    ]),
  );
}
