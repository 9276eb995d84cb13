/** The colours of all pages (run/page/theme.css), for pictures that cannot read a style sheet. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../../scripts/packageFolder.ts";

/** @param name of a custom property, without its dashes, as `#rrggbb` in both themes */
export function themeColours(name: string): { readonly light: string; readonly dark: string } {
  const text = readFileSync(join(packageFolder, "run/page/theme.css"), "utf8");
  const [light, dark, ...more] = [...text.matchAll(new RegExp(`--${name}: (#[0-9a-f]{6});`, "g"))].map(
    ([, own]) => own,
  );
  if (light === undefined || dark === undefined || more.length > 0)
    throw new Error(`theme.css: expected --${name} once for each of two themes`);
  return { light, dark };
}
