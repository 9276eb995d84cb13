/** MathML elements from the trees of site/mathml.ts. Text becomes text nodes only. */
import type { MathNode } from "./mathml.ts";

const MATHML = "http://www.w3.org/1998/Math/MathML";

function elementOf({ tag, children }: MathNode): Element {
  const made = document.createElementNS(MATHML, tag);
  made.append(...children.map((child) => (typeof child === "string" ? child : elementOf(child))));
  return made;
}

/** A formula as a block of its own. */
export function mathElement(formula: MathNode): Element {
  const math = elementOf({ tag: "math", children: [formula] });
  math.setAttribute("display", "block");
  return math;
}
