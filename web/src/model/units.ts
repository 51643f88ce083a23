// Numbers as text. A thin space would wrap or look odd in some fonts; U+00A0 keeps a value and its unit on one line.

const NB = "\u00a0";
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const THOUSANDS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Three significant digits, without trailing zeros after the point. */
function three(value: number): string {
  const abs = Math.abs(value);
  if (abs >= 100) return value.toFixed(0);
  const text = value.toFixed(abs >= 10 ? 1 : 2);
  return text.replace(/\.?0+$/, "");
}

/** `1536` -> `1.5 KiB`. */
export function bytes(value: number): string {
  if (!Number.isFinite(value)) return "–";
  let unit = 0;
  let v = value;
  while (Math.abs(v) >= 1023.5 && unit < BYTE_UNITS.length - 1) {
    v /= 1024;
    unit++;
  }
  return `${unit === 0 ? THOUSANDS.format(v) : three(v)}${NB}${BYTE_UNITS[unit]}`;
}

/** `12345` -> `12,345`. */
export function count(value: number): string {
  return Number.isFinite(value) ? THOUSANDS.format(value) : "–";
}

/** An estimate that need not be whole: `0.52`, `12.3`, `1,234`. */
export function estimate(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return "–";
  return Math.abs(value) >= 100 ? THOUSANDS.format(value) : three(value);
}

/** `0.0123` -> `12.3 ms`. */
export function seconds(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const abs = Math.abs(value);
  if (abs === 0) return `0${NB}s`;
  if (abs >= 120) {
    const whole = Math.round(value);
    const h = Math.floor(whole / 3600);
    const m = Math.floor((whole % 3600) / 60);
    const s = String(whole % 60).padStart(2, "0");
    return h > 0 ? `${h}:${String(m).padStart(2, "0")}:${s}${NB}h` : `${m}:${s}${NB}min`;
  }
  if (abs >= 0.9995) return `${value.toFixed(abs >= 10 ? 1 : 2)}${NB}s`;
  if (abs >= 0.9995e-3) return `${three(value * 1e3)}${NB}ms`;
  if (abs >= 0.9995e-6) return `${three(value * 1e6)}${NB}µs`;
  return `${three(value * 1e9)}${NB}ns`;
}

/** `0.4523` -> `45.2 %`; what rounds to nothing but is not nothing: `<0.1 %`. */
export function percent(share: number | null): string {
  if (share === null) return "–";
  if (!Number.isFinite(share)) return "–";
  if (share === 0) return `0${NB}%`;
  if (Math.abs(share) < 0.0005) return `<0.1${NB}%`;
  return `${(share * 100).toFixed(1)}${NB}%`;
}

/** The half-width that goes behind a percentage: `±0.8`, or nothing where there is none. */
export function plusMinus(error: number | null | undefined): string {
  if (error == null || !Number.isFinite(error)) return "";
  const points = error * 100;
  return points < 0.05 ? "±<0.1" : `±${points.toFixed(1)}`;
}

/** `1 page`, `3 pages`. */
export function plural(n: number, noun: string): string {
  return `${count(n)}${NB}${noun}${n === 1 ? "" : "s"}`;
}

export interface Tick {
  value: number;
  label: string;
}

/** Ticks at powers of two, labelled exactly and in one unit: a page boundary never reads as a rounded decimal. */
export function byteTicks(lo: number, hi: number, most: number): Tick[] {
  if (!(hi > lo) || most < 1) return [];
  let step = 1;
  while ((hi - lo) / step > most) step *= 2;
  let unit = 0;
  while (unit < BYTE_UNITS.length - 1 && hi >= 1024 ** (unit + 1) && (step * 8) % 1024 ** (unit + 1) === 0) unit++;
  const size = 1024 ** unit;
  const ticks: Tick[] = [];
  for (let value = Math.ceil(lo / step) * step; value <= hi; value += step) {
    const number = (value / size).toLocaleString("en-US", { maximumFractionDigits: 3 });
    ticks.push({ value, label: value === 0 ? "0" : `${number}${NB}${BYTE_UNITS[unit]}` });
  }
  return ticks;
}

/** Ticks at 1, 2 or 5 times a power of ten, labelled in one unit. */
export function timeTicks(lo: number, hi: number, most: number): Tick[] {
  if (!(hi > lo) || most < 1) return [];
  const raw = (hi - lo) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * (1 - 1e-9)) ?? 10 * power;
  const [scale, unit] = hi >= 1 ? [1, "s"] : hi >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  const digits = Math.max(0, -Math.floor(Math.log10(step * scale) + 1e-9));
  const ticks: Tick[] = [];
  const first = Math.ceil(lo / step - 1e-9);
  for (let i = first; i * step <= hi * (1 + 1e-12); i++) {
    const value = i * step;
    ticks.push({ value, label: `${(value * scale).toFixed(digits)}${NB}${unit}` });
  }
  return ticks;
}
