/** Options of esbuild for pages: for `npm run build`, and for the checks and tests that open a page. */

/** No import is external by default: an import of `node:` or of a package is an error. */
export const FOR_BROWSERS = {
  bundle: true,
  write: false,
  minify: true,
  format: "esm",
  platform: "browser",
  target: "es2023",
  legalComments: "none",
} as const;
