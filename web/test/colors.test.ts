import assert from "node:assert/strict";
import test from "node:test";
import { DISTINCT_THREADS, fromOklab, newPalette, oklab, parseHex, ramp, rampStep, threadColor, type Rgb } from "../src/model/colors.ts";

const distance = (a: Rgb, b: Rgb) => {
  const [x, y] = [oklab(a), oklab(b)];
  return Math.hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
};

/** Machado, Oliveira and Fernandes 2009, full severity, on linear light. */
const DICHROMATS: Record<string, number[]> = {
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

function seen(c: Rgb, m: number[]): Rgb {
  const linear = c.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  const out = [0, 3, 6].map((r) => m[r] * linear[0] + m[r + 1] * linear[1] + m[r + 2] * linear[2]);
  return out.map((v) => {
    const u = Math.min(1, Math.max(0, v));
    return 255 * (u <= 0.0031308 ? u * 12.92 : 1.055 * u ** (1 / 2.4) - 0.055);
  }) as unknown as Rgb;
}

for (const dark of [false, true]) {
  const name = dark ? "dark" : "light";
  test(`the first eight threads differ for everyone (${name})`, () => {
    const colors = Array.from({ length: 8 }, (_, t) => threadColor(t, newPalette(8, dark)));
    for (let i = 0; i < 8; i++) {
      for (let j = 0; j < i; j++) {
        assert.ok(distance(colors[i], colors[j]) > 0.08, `T${j} and T${i}`);
        for (const [kind, m] of Object.entries(DICHROMATS)) {
          const d = distance(seen(colors[i], m), seen(colors[j], m));
          assert.ok(d > 0.035, `T${j} and T${i} with ${kind}: ${d.toFixed(3)}`);
        }
      }
    }
  });

  test(`24 threads have 24 colours, visible on the ground (${name})`, () => {
    const palette = newPalette(DISTINCT_THREADS, dark);
    const ground = parseHex(dark ? "#12161b" : "#f7f8fa");
    const colors = Array.from({ length: DISTINCT_THREADS }, (_, t) => threadColor(t, palette));
    for (const [t, c] of colors.entries()) {
      assert.ok(distance(c, ground) > 0.1, `T${t} on its ground: ${distance(c, ground).toFixed(3)}`);
      for (let j = 0; j < t; j++) assert.ok(distance(c, colors[j]) > 0.03, `T${j} and T${t}: ${distance(c, colors[j]).toFixed(3)}`);
    }
  });

  test(`more threads run along one scale of rising lightness (${name})`, () => {
    const palette = newPalette(128, dark);
    assert.ok(palette.scale);
    const lightness = Array.from({ length: 128 }, (_, t) => oklab(threadColor(t, palette))[0]);
    for (let t = 1; t < 128; t++) assert.ok(lightness[t] > lightness[t - 1] - 0.003, `T${t}`);
    assert.ok(lightness[127] - lightness[0] > 0.25);
  });

  test(`the ramp of the heat map is even (${name})`, () => {
    const table = ramp(dark);
    const sign = dark ? 1 : -1;
    const lightness = Array.from({ length: 256 }, (_, i) => oklab([table[i * 3], table[i * 3 + 1], table[i * 3 + 2]])[0]);
    for (let i = 1; i < 256; i++) assert.ok(sign * (lightness[i] - lightness[i - 1]) > -0.004, `step ${i}`);
  });
}

test("a thread beyond the table has a colour", () => {
  assert.deepEqual(threadColor(99, newPalette(4, false)), threadColor(3, newPalette(4, false)));
  assert.equal(newPalette(0, false).threads.length, 3);
});

test("OKLab and back", () => {
  for (const hex of ["#000000", "#ffffff", "#0072b2", "#e08a00"]) assert.deepEqual(fromOklab(oklab(parseHex(hex))), parseHex(hex));
});

test("the ramp separates few from none and ends at the maximum", () => {
  assert.equal(rampStep(100, 100), 255);
  assert.ok(rampStep(1, 100) > 20);
  assert.equal(rampStep(0, 100), 0);
  assert.equal(rampStep(5, 0), 0);
});
