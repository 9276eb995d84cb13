/**
 * A drawing as a plain tree, which becomes text where pages are made and elements where a cell has run anew. Colours
 * are classes of book.css, so that a drawing follows the theme.
 */

export interface Svg {
  readonly tag: string;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly children: readonly (Svg | string)[];
}

export const svg = (
  tag: string,
  attributes: Readonly<Record<string, string | number>>,
  ...children: readonly (Svg | string)[]
): Svg => ({ tag, attributes, children });

/** Coordinates with a tenth of a pixel: the same bits on every machine. */
const shown = (value: string | number): string =>
  typeof value === "number" ? String(Math.round(10 * value) / 10) : value;
const escape = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

export function svgText({ tag, attributes, children }: Svg): string {
  const own = Object.entries(attributes).map(([name, value]) => ` ${name}="${escape(shown(value))}"`);
  const inside = children.map((child) => (typeof child === "string" ? escape(child) : svgText(child)));
  return `<${tag}${own.join("")}>${inside.join("")}</${tag}>`;
}

export function svgElement({ tag, attributes, children }: Svg): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, shown(value));
  made.append(...children.map((child) => (typeof child === "string" ? child : svgElement(child))));
  return made;
}
