/**
 * A variable of the process that runs this. Whether one may be read must not decide what runs: Deno without
 * `--allow-env` refuses, and a page has none.
 */
export function environmentVariable(name: string): string | undefined {
  const { process } = globalThis as { process?: { readonly env?: Readonly<Record<string, string | undefined>> } };
  try {
    return process?.env?.[name];
  } catch {
    return undefined;
  }
}
