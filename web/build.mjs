// Bundles src/ into dist/view.html: one file with script and style inline and a mark where the report's data goes.
// crates/report/build.rs embeds that file; crates/report/src/html.rs puts the data in.
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { join } from "node:path";

const here = fileURLToPath(new URL(".", import.meta.url));
/** Replaced by the data's script element; html.rs knows the same text. */
const DATA_MARK = "<!--numamma:data-->";

const { outputFiles } = await build({
  entryPoints: [join(here, "src/main.tsx")],
  outdir: join(here, "dist"),
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  target: "es2020",
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".css": "css" },
});
const text = (suffix) => outputFiles.find((f) => f.path.endsWith(suffix)).text.trim();
const script = text(".js").replaceAll("</script", "<\\/script");
const style = text(".css").replaceAll("</style", "<\\/style");

// A function as replacement: text such as "$&" in the bundle must stay as it is.
const page = (await readFile(join(here, "src/template.html"), "utf8"))
  .replace("/*style*/", () => style)
  .replace("/*script*/", () => script);
if (page.split(DATA_MARK).length !== 2) throw new Error(`dist/view.html must hold ${DATA_MARK} exactly once`);
await mkdir(join(here, "dist"), { recursive: true });
await writeFile(join(here, "dist/view.html"), page);
console.log(`dist/view.html ${(page.length / 1024).toFixed(1)} KiB`);
