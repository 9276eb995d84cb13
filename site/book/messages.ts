/** Messages between a page of the book and the worker that runs its program. */

export interface Order {
  /** A JavaScript module; its imports are whole addresses. */
  readonly module: string;
}

export type Report =
  /** A cell begins: what is printed from now on is its output. */
  | { readonly kind: "cell"; readonly cell: number }
  | { readonly kind: "printed"; readonly text: string }
  | { readonly kind: "ended" }
  /** `line` is of the module, from 1; it is missing if the error has no place in it. */
  | { readonly kind: "failed"; readonly name: string; readonly message: string; readonly line?: number };

/** The name of the function that the program calls where a cell begins. */
export const ENTER = "enterCell";
