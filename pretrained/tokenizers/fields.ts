/** Reading fields of `tokenizer.json`: each error names the field, what stands there and what was expected. */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";

export type Json = Record<string, unknown>;

export function object(value: unknown, where: string): Json {
  const fits = typeof value === "object" && value !== null && !Array.isArray(value);
  check(fits, () => `tokenizer.json: ${where} is ${showValue(value)}, expected an object`);
  return value as Json;
}

export function list(value: unknown, where: string): unknown[] {
  check(Array.isArray(value), () => `tokenizer.json: ${where} is ${showValue(value)}, expected a list`);
  return value as unknown[];
}

export function integer(value: unknown, where: string): number {
  const fits = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
  check(fits, () => `tokenizer.json: ${where} is ${showValue(value)}, expected a non-negative integer`);
  return value;
}

export function text(value: unknown, where: string): string {
  check(typeof value === "string", () => unsupported(where, value));
  return value;
}

export function flag(value: unknown, where: string, otherwise: boolean): boolean {
  const given = value ?? otherwise;
  check(typeof given === "boolean", () => unsupported(where, value));
  return given;
}

export function expectValue(value: unknown, expected: string | boolean | number, where: string): void {
  check(
    value === expected,
    () => `tokenizer.json: ${where} is ${showValue(value)}, only ${showValue(expected)} is supported`,
  );
}

export function unsupported(where: string, value: unknown): string {
  return `tokenizer.json: ${where} is ${showValue(value)}, which is not supported`;
}
