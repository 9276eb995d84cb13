/** TypeScript to JavaScript in the page, by sucrase: types are taken away, lines stay where they are. */
import { transform } from "sucrase";

/** @throws Error with `loc` if the text does not parse */
export function compile(text: string): string {
  return transform(text, { transforms: ["typescript"], disableESTransforms: true, preserveDynamicImport: true }).code;
}
