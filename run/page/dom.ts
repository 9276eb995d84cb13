/** The DOM helpers of the report pages. Text becomes text nodes only, never HTML. Runs in the browser. */

type Attributes = Readonly<Record<string, string | number | boolean>>;

/** Makes an element with attributes and children. The value `true` sets an empty attribute, `false` none. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children);
  return node;
}

/** A labelled drop-down. `onChange` gets the chosen value. */
export function select(
  label: string,
  options: readonly (readonly [value: string, text: string])[],
  onChange: (value: string) => void,
): { readonly field: HTMLElement; readonly input: HTMLSelectElement } {
  const input = element("select");
  setOptions(input, options);
  input.addEventListener("change", () => onChange(input.value));
  return { field: element("label", { class: "field" }, element("span", {}, label), input), input };
}

/** Replaces the options and keeps the choice if it still exists. */
export function setOptions(
  input: HTMLSelectElement,
  options: readonly (readonly [value: string, text: string])[],
): void {
  const chosen = input.value;
  input.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  if (options.some(([value]) => value === chosen)) input.value = chosen;
}

/** Radio buttons side by side. */
export function choice<T extends string>(
  label: string,
  options: readonly (readonly [value: T, text: string])[],
  initial: T,
  onChange: (value: T) => void,
): HTMLElement {
  const group = element("fieldset", { class: "choice" }, element("legend", {}, label));
  for (const [value, text] of options) {
    const input = element("input", { type: "radio", name: label, value, checked: value === initial });
    input.addEventListener("change", () => onChange(value));
    group.append(element("label", {}, input, element("span", {}, text)));
  }
  return group;
}

/** The value of a CSS custom property, so that canvas drawings follow the theme. */
export function cssColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
