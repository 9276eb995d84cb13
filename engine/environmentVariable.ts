/** An environment variable; undefined where it cannot be read, as in Deno without `--allow-env` and on a page. */
export function environmentVariable(name: string): string | undefined {
  const { process } = globalThis as { process?: { readonly env?: Readonly<Record<string, string | undefined>> } };
  try {
    return process?.env?.[name];
  } catch {
    return undefined;
  }
}
