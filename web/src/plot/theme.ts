// Colours of the canvas: those of the style sheet, read once per theme.

import type { Palette } from "../model/colors.ts";

export interface Theme {
  palette: Palette;
  text: string;
  muted: string;
  line: string;
  grid: string;
  surface: string;
  accent: string;
  brush: string;
  veil: string;
  font: string;
}

export function readTheme(palette: Palette): Theme {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(name).trim();
  return {
    palette,
    text: get("--text"),
    muted: get("--muted"),
    line: get("--line"),
    grid: get("--grid"),
    surface: get("--plot"),
    accent: get("--accent"),
    brush: get("--brush"),
    veil: get("--veil"),
    font: `11px ${get("--font")}`,
  };
}
