// Unit tests: bundle, then Node's own runner.
import { spawnSync } from "node:child_process";
import { readdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { bundle } from "./bundle.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const tests = (await readdir(here)).filter((f) => f.endsWith(".test.ts")).sort();
const files = await bundle(tests.map((f) => join(here, f)));
const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], { stdio: "inherit" });
process.exit(status ?? 1);
