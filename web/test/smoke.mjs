// Opens a report in headless Chromium as a user would, from file://, and looks at what is on the screen.
//
//   node test/smoke.mjs [FILE.html [OUTDIR]]
//
// Without a file, or with `fixtures` for it, reports are made from the fixtures (`npm run build` comes first). Screenshots
// go to OUTDIR: light, dark, narrow, wide, and with the pointer, brushes and tabs; without it the first two go to
// dist/screenshots. $CHROMIUM names the browser, /usr/bin/chromium is the default.
import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { fileURLToPath, pathToFileURL } from "node:url";
import { join, resolve } from "node:path";
import { load } from "./bundle.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const [file, outdir] = process.argv.slice(2);
const given = file === "fixtures" ? undefined : file;
const out = outdir ?? join(here, "../dist/screenshots");
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const PHONE = { width: 390, height: 844 };
/** A frame of the memory view; the budget is for a machine of its own, tests run on busy ones. */
const FRAME_MS = Number(process.env.FRAME_MS ?? 400);

async function reportsOfFixtures(dir) {
  const fixture = await load("fixture.ts");
  const page = await readFile(join(here, "../dist/view.html"), "utf8");
  const placement = {
    typical: JSON.parse(await readFile(join(here, "placement.json"), "utf8")),
    empty: { version: 1, missing: "no access to memory was sampled", advice: null },
  };
  const files = {};
  for (const name of ["typical", "large", "empty"]) {
    const json = JSON.stringify({ ...fixture[name](), placement: placement[name] }).replaceAll("<", "\\u003c");
    const data = `<script type="application/json" id="data">${json}</script>`;
    files[name] = join(dir, `${name}.html`);
    await writeFile(files[name], page.replace("<!--numamma:data-->", () => data));
  }
  return files;
}

/** Opens a report; fails on any error in the console and on any request to the network. */
async function open(browser, file, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const problems = [];
  page.on("console", (m) => {
    // This test itself reads the canvas back.
    if (m.text().includes("willReadFrequently")) return;
    if (["error", "warning"].includes(m.type())) problems.push(`console: ${m.text()}`);
  });
  page.on("pageerror", (e) => problems.push(`exception: ${e.message}`));
  page.on("request", (r) => /^(file|data|blob):/.test(r.url()) || problems.push(`request: ${r.url()}`));
  const began = performance.now();
  await page.goto(pathToFileURL(resolve(file)).href);
  await page.waitForSelector("header");
  const ms = Math.round(performance.now() - began);
  return { page, context, problems, ms };
}

const settle = (page) => page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r()))));
const frameMs = (page) => page.evaluate(() => Number(document.querySelector(".plot").dataset.millis));

/** A sum over the pixels of a part of the plot, and how many of them are not its basis. */
function pixels(page, part) {
  return page.evaluate((part) => {
    const host = document.querySelector(".plot");
    const canvas = host.querySelector("canvas");
    const r = JSON.parse(host.dataset.layout)[part];
    const k = canvas.width / host.clientWidth;
    const d = canvas.getContext("2d").getImageData(r.x * k, r.y * k, r.w * k, r.h * k).data;
    let sum = 0;
    const colors = new Map();
    for (let i = 0; i < d.length; i += 4) {
      const c = (d[i] << 16) | (d[i + 1] << 8) | d[i + 2];
      sum = (sum * 31 + c + (i % 1009)) % 2147483647;
      colors.set(c, (colors.get(c) ?? 0) + 1);
    }
    const basis = Math.max(...colors.values());
    return { sum, filled: d.length / 4 - basis, total: d.length / 4, colors: colors.size };
  }, part);
}

async function box(page, part) {
  return page.evaluate((part) => {
    const host = document.querySelector(".plot");
    const at = host.getBoundingClientRect();
    const r = JSON.parse(host.dataset.layout)[part];
    return { x: at.x + r.x, y: at.y + r.y, w: r.w, h: r.h };
  }, part);
}

/** What any report with at least one detailed object must do. */
async function exercise(page) {
  const rows = page.locator(".table-panel tbody tr.choosable");
  const before = await pixels(page, "heat");
  assert.ok(before.filled > 50, `the heat map is empty (${before.filled} pixels)`);
  assert.ok((await pixels(page, "scatter")).colors > 1, "the scatter is empty");
  if ((await rows.count()) > 1) {
    // Two small objects of one thread may look alike; not all of them do.
    let differs = false;
    for (let i = 1; i < Math.min(6, await rows.count()) && !differs; i++) {
      await rows.nth(i).click();
      await settle(page);
      differs = (await page.locator(".plot").count()) === 0 || (await pixels(page, "heat")).sum !== before.sum;
    }
    assert.ok(differs, "other objects have the same heat map");
    await rows.nth(1).click();
    await rows.nth(1).press("ArrowUp");
    await settle(page);
    assert.equal((await pixels(page, "heat")).sum, before.sum, "back by keyboard is not the same");
  }
  const scatter = await box(page, "scatter");
  const whole = await pixels(page, "scatter");
  await page.mouse.move(scatter.x + scatter.w * 0.4, scatter.y + scatter.h * 0.4);
  for (let i = 0; i < 4; i++) await page.mouse.wheel(0, -240);
  await settle(page);
  assert.notEqual((await pixels(page, "scatter")).sum, whole.sum, "the wheel did not zoom");
  assert.ok((await frameMs(page)) < FRAME_MS, `a frame took ${await frameMs(page)} ms`);
  await page.mouse.down();
  await page.mouse.move(scatter.x + scatter.w * 0.6, scatter.y + scatter.h * 0.6, { steps: 3 });
  await page.mouse.up();
  await page.mouse.dblclick(scatter.x + 20, scatter.y + 20);
  await settle(page);
  assert.equal((await pixels(page, "scatter")).sum, whole.sum, "double click did not reset");

  await page.getByRole("radio", { name: "Writes" }).click();
  await settle(page);
  await page.getByRole("radio", { name: "All" }).click();
  const timeline = await box(page, "timeline");
  await page.mouse.move(timeline.x + timeline.w * 0.3, timeline.y + 20);
  await page.mouse.down();
  await page.mouse.move(timeline.x + timeline.w * 0.5, timeline.y + 20, { steps: 4 });
  await page.mouse.up();
  await settle(page);
  assert.notEqual((await pixels(page, "heat")).sum, before.sum, "a brush of time did not filter the heat map");
  assert.ok(await page.locator(".selection").isVisible(), "the brush says nothing");
  assert.equal(await page.locator(".table-panel th", { hasText: "In range" }).count(), 1);
  await page.keyboard.press("Escape");
  await settle(page);
  assert.equal((await pixels(page, "heat")).sum, before.sum, "Escape did not clear the brush");
  for (const tab of ["Threads", "Lines", "Sites", "Objects"]) {
    await page.getByRole("tab", { name: tab }).click();
    assert.ok(await page.locator(".table-panel table").isVisible());
  }
}

/** The tab of placement, if the report has one: advice, bars, strips, matrix; or why there is none. */
async function exercisePlacement(page) {
  const tab = page.getByRole("tab", { name: "Placement" });
  if ((await tab.count()) === 0) return;
  await tab.click();
  if ((await page.locator(".placement").count()) === 0) {
    assert.match(await page.locator(".table-panel").innerText(), /no advice on placement: ./);
    return;
  }
  assert.equal(await page.locator(".plot").count(), 0, "the view has the whole window");
  const bars = await page.locator(".time-bar").evaluateAll((all) =>
    all.map((bar) => [".time-fill", ".whisker"].map((part) => bar.querySelector(part).getBoundingClientRect())),
  );
  assert.ok(bars.length >= 3, `${bars.length} bars`);
  for (const [fill, whisker] of bars) {
    assert.ok(whisker.left <= fill.right + 1 && fill.right <= whisker.right + 1, "a time lies outside of its interval");
  }
  assert.equal(await page.locator(".predicted .mark").count(), 1, "one placement is recommended");
  assert.ok((await page.locator(".matrix td").count()) >= 1, "no matrix");
  assert.ok((await page.locator(".segment").count()) >= (await page.locator(".strip").count()), "an empty strip");
  // By keyboard: a name selects its object in the diagnosis and in the map.
  const names = page.locator(".diagnoses .object");
  const last = names.nth((await names.count()) - 1);
  await last.focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".diagnoses .chosen .object").innerText(), await last.innerText());
  assert.equal(await page.locator(".strips.chosen .object").innerText(), await last.innerText());
  const copy = page.locator(".command button").first();
  await copy.click();
  await page.waitForFunction(() => /Copied|Ctrl/.test(document.querySelector(".command button").textContent));
  await page.locator(".chosen .link", { hasText: "Show pages" }).click();
  assert.equal(await page.locator('.table-panel tr[aria-selected="true"]').count(), 1, "the object is selected in the table");
}

/** On a phone nothing is cut off: what is wider than the screen scrolls by itself. */
async function fitsPhone(page) {
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= PHONE.width, `${width} pixels on a screen of ${PHONE.width}`);
}

/** An address that is edited is followed, and one that means nothing is put right. */
async function followsAddress(page) {
  const selected = () => page.locator('[role="tab"][aria-selected="true"]').innerText();
  await page.evaluate(() => (location.hash = "#tab=threads"));
  await page.waitForFunction(() => location.hash.includes("object="));
  assert.match(await selected(), /Threads/);
  await page.evaluate(() => (location.hash = "#object=123456&tab=nothing"));
  await page.waitForFunction(() => !location.hash.includes("123456"));
  assert.match(await selected(), /Threads/);
}

async function placementTabs(browser, file) {
  const { page, context } = await open(browser, file, {});
  const tabs = await page.getByRole("tab", { name: "Placement" }).count();
  await context.close();
  return tabs;
}

async function shoot(browser, file, name, options, prepare) {
  const { page, context, problems, ms } = await open(browser, file, { deviceScaleFactor: 1, ...options });
  await settle(page);
  await prepare?.(page);
  await settle(page);
  await page.screenshot({ path: join(out, `${name}.png`) });
  assert.deepEqual(problems, [], name);
  await context.close();
  return ms;
}

const profile = await mkdtemp(join(tmpdir(), "numamma-smoke-"));
await mkdir(out, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: FLAGS,
});
try {
  const files = given ? { report: given } : await reportsOfFixtures(profile);
  const size = (width, height, colorScheme = "light") => ({ viewport: { width, height }, colorScheme });
  for (const [name, file] of Object.entries(files)) {
    const { page, context, problems, ms } = await open(browser, file, size(1440, 900));
    await settle(page);
    const plot = (await page.locator(".plot").count()) > 0;
    if (plot) await exercise(page);
    await exercisePlacement(page);
    await followsAddress(page);
    assert.deepEqual(problems, [], name);
    console.log(`${name}: open ${ms} ms${plot ? `, frame ${await frameMs(page)} ms` : ", no memory view"}`);
    await context.close();
    for (const scheme of ["light", "dark"]) {
      await shoot(browser, file, `${name}-${scheme}`, size(1440, 900, scheme));
    }
    const phone = { viewport: PHONE, screen: PHONE, isMobile: true, hasTouch: true };
    await shoot(browser, file, `${name}-phone`, phone, fitsPhone);
    if ((await placementTabs(browser, file)) > 0) {
      const show = (page) => page.getByRole("tab", { name: "Placement" }).click();
      await shoot(browser, file, `${name}-placement-light`, size(1280, 720), show);
      await shoot(browser, file, `${name}-placement-dark`, size(1280, 720, "dark"), show);
      await shoot(browser, file, `${name}-placement-phone`, phone, async (page) => {
        await show(page);
        await fitsPhone(page);
      });
    }
    if (!plot || !outdir) continue;
    await shoot(browser, file, `${name}-narrow`, { ...size(900, 760), screen: { width: 900, height: 760 } });
    await shoot(browser, file, `${name}-wide`, size(1920, 1080, "dark"));
    await shoot(browser, file, `${name}-hover`, size(1440, 900), async (page) => {
      const heat = await box(page, "heat");
      await page.mouse.move(heat.x + heat.w * 0.3, heat.y + heat.h * 0.35);
    });
    await shoot(browser, file, `${name}-brush`, size(1440, 900), async (page) => {
      const s = await box(page, "scatter");
      await page.keyboard.down("Shift");
      await page.mouse.move(s.x + s.w * 0.3, s.y + s.h * 0.3);
      await page.mouse.down();
      await page.mouse.move(s.x + s.w * 0.6, s.y + s.h * 0.7, { steps: 4 });
      await page.mouse.up();
      await page.keyboard.up("Shift");
      await page.mouse.move(5, 5);
    });
    for (const tab of ["Threads", "Lines", "Sites"]) {
      await shoot(browser, file, `${name}-${tab.toLowerCase()}`, size(1440, 900), (page) => page.getByRole("tab", { name: tab }).click());
    }
    await shoot(browser, file, `${name}-coverage`, size(1440, 900, "dark"), (page) => page.locator(".coverage summary").click());
  }
  console.log(`screenshots in ${resolve(out)}`);
} finally {
  await browser.close();
  await rm(profile, { recursive: true, force: true });
}
