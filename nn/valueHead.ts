/**
 * A critic's head: one linear layer on the hidden states of the transformer. The value of a token is read where the
 * token is predicted, so it is the return that is expected *before* the token is written.
 */
import type { Device } from "../engine/device.ts";
import { check } from "../engine/errors.ts";
import { zeros } from "../engine/ops/create.ts";
import { matmul } from "../engine/ops/matmul.ts";
import { reshape } from "../engine/ops/movement.ts";
import { add } from "../engine/ops/pointwise.ts";
import { outsideScopes } from "../engine/scope.ts";
import type { Tensor } from "../engine/tensor.ts";
import { showShape } from "../engine/types.ts";
import type { ModelConfig } from "./config.ts";

/** `weight` [1, C] and `bias` [1], as in TRL's `v_head.summary`. */
export type ValueHead = { readonly weight: Tensor; readonly bias: Tensor };

/** A head whose values are all 0: advantages start as plain returns. It lives outside all scopes. */
export function initValueHead({ hiddenSize }: Pick<ModelConfig, "hiddenSize">, device: Device): ValueHead {
  return outsideScopes(() => ({ weight: zeros([1, hiddenSize], { device }), bias: zeros([1], { device }) }));
}

/** Values [N] of hidden states [N, C]. */
export function headValues({ weight, bias }: ValueHead, hidden_NC: Tensor): Tensor {
  const C = weight.shape[1]!;
  check(
    hidden_NC.rank === 2 && hidden_NC.shape[1] === C,
    () => `headValues: expected hidden states [N, ${C}], got ${showShape(hidden_NC.shape)}`,
  );
  const values_N1 = matmul(hidden_NC, weight, { transB: true });
  return add(reshape(values_N1, [hidden_NC.shape[0]!]), bias);
}
