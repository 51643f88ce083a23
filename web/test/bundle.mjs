// Bundles TypeScript for Node, which cannot run it by itself before version 22.
import { build } from "esbuild";
import { mkdir, rm } from "node:fs/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { basename, join } from "node:path";

const here = fileURLToPath(new URL(".", import.meta.url));
export const outdir = join(here, "../node_modules/.cache/numamma-test");

/** Bundles each file into a module of its own; returns their paths. */
export async function bundle(files) {
  await rm(outdir, { recursive: true, force: true });
  await mkdir(outdir, { recursive: true });
  await build({
    entryPoints: files,
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node18",
    sourcemap: "inline",
    loader: { ".json": "json" },
  });
  return files.map((f) => join(outdir, basename(f).replace(/\.ts$/, ".mjs")));
}

/** Bundles and imports one file of this folder. */
export async function load(name) {
  const [path] = await bundle([join(here, name)]);
  return import(pathToFileURL(path).href);
}
