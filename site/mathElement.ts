/** MathML in the page: elements of what site/formulas/mathml.ts makes. Text becomes text nodes only. */
import type { MathNode } from "./formulas/mathml.ts";

const MATHML = "http://www.w3.org/1998/Math/MathML";

function elementOf({ tag, attributes = {}, children }: MathNode): Element {
  const made = document.createElementNS(MATHML, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.map((child) => (typeof child === "string" ? child : elementOf(child))));
  return made;
}

/** A formula as a block of its own. */
export function mathElement(formula: MathNode): Element {
  return elementOf({ tag: "math", attributes: { display: "block" }, children: [formula] });
}
