/**
 * The page's script and style as text. `npm run build` bundles them once (page.ts, uPlot and page.css into report-page.js and
 * report-page.css beside this module's JavaScript); from a source checkout they are bundled on the fly by esbuild, which is only a
 * development dependency. So the installed package needs nothing, and a checkout can never show a stale page.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { check } from "../../engine/errors.ts";

export interface PageAssets {
  readonly script: string;
  readonly style: string;
}

/** Names of the built files. */
export const PAGE_SCRIPT = "report-page.js";
export const PAGE_STYLE = "report-page.css";

/** The built files if this is the built package, else a fresh bundle. Throws if there is neither. */
export async function loadPageAssets(): Promise<PageAssets> {
  const beside = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
  if (existsSync(beside(PAGE_SCRIPT))) {
    return { script: readFileSync(beside(PAGE_SCRIPT), "utf8"), style: readFileSync(beside(PAGE_STYLE), "utf8") };
  }
  check(
    existsSync(beside("page.ts")),
    () => `report: expected ${PAGE_SCRIPT} beside ${fileURLToPath(import.meta.url)}`,
  );
  return bundlePage();
}

/**
 * Bundles a page from source, by default the report's. For `npm run build`, which writes the result as PAGE_SCRIPT and PAGE_STYLE.
 * @param script the page's script, from this folder; the style is the same for all
 */
export async function bundlePage(script: string = "page.ts"): Promise<PageAssets> {
  const { build } = await import("esbuild");
  const folder = fileURLToPath(new URL(".", import.meta.url));
  const result = await build({
    entryPoints: [script, "page.css"],
    absWorkingDir: folder,
    outdir: folder,
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2022",
    // ASCII only, so that the file reads the same in any encoding.
    charset: "ascii",
    legalComments: "inline",
    logLevel: "silent",
  });
  const text = (end: string): string => {
    const file = result.outputFiles.find(({ path }) => path.endsWith(end));
    check(file !== undefined, () => `report: the bundle has no ${end}`);
    return file.text.trim();
  };
  // Inside <script> and <style> nothing may look like their end.
  return {
    script: text(".js").replaceAll("</script", "<\\/script"),
    style: text(".css").replaceAll("</style", "<\\/style"),
  };
}
