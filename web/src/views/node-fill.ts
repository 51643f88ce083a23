// The look of a node: a shade and a pattern, so that it can be told without colour. Of 16 nodes no two look alike: where shades are
// close, patterns differ.

import { css, nodeColor, oklab, type Palette } from "../model/colors.ts";

export function nodeFill(node: number, palette: Palette, withPattern = true): { backgroundColor: string; backgroundImage: string } {
  const color = nodeColor(node, palette);
  const ink = oklab(color)[0] < 0.6 ? "rgba(255,255,255,0.6)" : "rgba(0,0,0,0.55)";
  const patterns = [
    "none",
    `repeating-linear-gradient(135deg, ${ink} 0 1.5px, transparent 1.5px 7px)`,
    `repeating-linear-gradient(0deg, ${ink} 0 1.5px, transparent 1.5px 5px)`,
    `repeating-linear-gradient(45deg, ${ink} 0 3px, transparent 3px 6px)`,
  ];
  const pattern = withPattern ? (node + Math.floor(node / patterns.length)) % patterns.length : 0;
  return { backgroundColor: css(color), backgroundImage: patterns[pattern] };
}
