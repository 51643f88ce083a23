// Colours of threads and nodes, and the ramp of the heat map.
//
// Up to 24 threads: threads 0 to 7 have the colours of Okabe and Ito's palette, made to be told apart with any form of
// colour blindness (its black is a grey here, and its hues are moved a little so that they keep apart on both grounds); 8 to 15 have the same hues lighter,
// 16 to 23 darker. More threads than that cannot be told apart by any palette, and a repeating one turns order into noise:
// their colours run along one scale by thread number, so that blocks of neighbouring threads show as a gradient.
// test/colors.test.ts checks the distances, also with simulated dichromacy.

export type Rgb = readonly [number, number, number];

const LIGHT = ["#0072b2", "#e28a00", "#0b9c70", "#cc6fa0", "#46a6dd", "#c74a0a", "#9ea756", "#6b7280"];
const DARK = ["#5890da", "#f0a830", "#1eb68a", "#d48ebe", "#8fd0f5", "#ef6f3c", "#e3d64a", "#8c8f9c"];
/** Nodes: shades that do not look like any thread's. */
const NODES_LIGHT = ["#3b2f63", "#8d80b8", "#5c4f93", "#c9bfe6", "#241a45", "#a497cc", "#736aa3", "#e2dbf3"];
const NODES_DARK = ["#a294d8", "#5b4c94", "#d9cff8", "#7a69b8", "#bdb1e8", "#4a3d78", "#8b7dc4", "#ece7fc"];

/** Up to so many threads each have a colour that can be named. */
export const DISTINCT_THREADS = 24;

/** Lightness rises all along: order survives colour blindness and a grey printer. */
const SCALE_LIGHT = ["#3b0f6f", "#3b4a97", "#257f96", "#2ea57c", "#80bf45", "#d3c01c"];
const SCALE_DARK = ["#6c4fd0", "#3f7fd0", "#22a8b4", "#45c98a", "#a6dc4f", "#fbe94a"];

export function parseHex(hex: string): Rgb {
  const n = Number.parseInt(hex.slice(1), 16);
  return [(n >> 16) & 255, (n >> 8) & 255, n & 255];
}

export function css(c: Rgb): string {
  return `rgb(${c[0]},${c[1]},${c[2]})`;
}

const toLinear = (v: number) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const fromLinear = (v: number) => (v <= 0.0031308 ? v * 12.92 : 1.055 * v ** (1 / 2.4) - 0.055);

/** OKLab of an sRGB colour: equal distances look about equally different. */
export function oklab(c: Rgb): Rgb {
  const [r, g, b] = c.map((v) => toLinear(v / 255)) as unknown as Rgb;
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

export function fromOklab(c: Rgb): Rgb {
  const l = (c[0] + 0.3963377774 * c[1] + 0.2158037573 * c[2]) ** 3;
  const m = (c[0] - 0.1055613458 * c[1] - 0.0638541728 * c[2]) ** 3;
  const s = (c[0] - 0.0894841775 * c[1] - 1.291485548 * c[2]) ** 3;
  const byte = (v: number) => Math.round(255 * Math.min(1, Math.max(0, fromLinear(Math.max(0, v)))));
  return [
    byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    byte(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

function mix(a: Rgb, b: Rgb, t: number): Rgb {
  const [x, y] = [oklab(a), oklab(b)];
  return fromOklab([x[0] + (y[0] - x[0]) * t, x[1] + (y[1] - x[1]) * t, x[2] + (y[2] - x[2]) * t]);
}

/** Colours of a run with a given number of threads. */
export interface Palette {
  dark: boolean;
  /** True if threads are coloured by number along a scale. */
  scale: boolean;
  /** Three bytes for each thread. */
  threads: Uint8Array;
}

export function newPalette(threads: number, dark: boolean): Palette {
  const scale = threads > DISTINCT_THREADS;
  const table = new Uint8Array(Math.max(1, threads) * 3);
  for (let t = 0; t < threads; t++) {
    table.set(scale ? along(dark ? SCALE_DARK : SCALE_LIGHT, t / (threads - 1)) : namedColor(t, dark), t * 3);
  }
  return { dark, scale, threads: table };
}

/** Colour of a thread by its number. */
export function threadColor(thread: number, p: Palette): Rgb {
  const last = p.threads.length / 3 - 1;
  const at = 3 * Math.max(0, Math.min(last, thread));
  return [p.threads[at], p.threads[at + 1], p.threads[at + 2]];
}

function namedColor(thread: number, dark: boolean): Rgb {
  const palette = dark ? DARK : LIGHT;
  const base = parseHex(palette[((thread % 8) + 8) % 8]);
  const tone = Math.floor(thread / 8) % 3;
  if (tone === 1) return mix(base, [255, 255, 255], 0.42);
  if (tone === 2) return mix(base, [0, 0, 0], 0.36);
  return base;
}

/** Colour of a node by its number. */
export function nodeColor(node: number, p: Palette): Rgb {
  const palette = p.dark ? NODES_DARK : NODES_LIGHT;
  return parseHex(palette[((node % palette.length) + palette.length) % palette.length]);
}

const RAMP_LIGHT = ["#dbe9f6", "#9ecae1", "#5fa8d3", "#2878b5", "#134b86", "#08234a"];
const RAMP_DARK = ["#12304a", "#155380", "#2379b5", "#4aa5dc", "#9bd3f3", "#f2fbff"];

/** The colour at `at` (0..1) of a row of stops. */
function along(stops: readonly string[], at: number): Rgb {
  const place = at * (stops.length - 1);
  const k = Math.min(stops.length - 2, Math.floor(place));
  return mix(parseHex(stops[k]), parseHex(stops[k + 1]), place - k);
}

/** 256 steps from few to many accesses, evenly spaced to the eye; three bytes each. */
export function ramp(dark: boolean): Uint8Array {
  const table = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) table.set(along(dark ? RAMP_DARK : RAMP_LIGHT, i / 255), i * 3);
  return table;
}

/** Step of the ramp for a value. Square root: accesses per page span orders of magnitude, and few is not none. */
export function rampStep(value: number, max: number): number {
  if (!(value > 0) || !(max > 0)) return 0;
  return Math.min(255, Math.round(255 * Math.sqrt(value / max)));
}
