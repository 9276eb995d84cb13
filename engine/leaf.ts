/** The variables of a gradient: handles on the memory of tensors, with a history that begins here. */
import { recordingOutside, recordNode } from "./tape.ts";
import { Tensor } from "./tensor.ts";

/** Another handle on the same memory, without history. */
export function handle(x: Tensor): Tensor {
  return new Tensor(x.storage, x.shape, x.dtype);
}

/**
 * A variable to differentiate by, with the values of `x`. Inside an outer recording, `x` is the history of the variable
 * if it has one itself; otherwise the history begins here.
 */
export function leaf(x: Tensor, path = ""): Tensor {
  const alias = handle(x);
  const inputs = x.node !== undefined && recordingOutside() ? [x] : [];
  recordNode("leaf", path === "" ? {} : { path }, inputs, [alias], (g) => inputs.map(() => g[0]!));
  return alias;
}
