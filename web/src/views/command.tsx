// A command line and the button that copies it. Lines break between words, not at the hyphens of options.

import { useRef, useState } from "preact/hooks";

const SHOWN_MS = 1500;

export function Command(p: { text: string; note?: string }) {
  const code = useRef<HTMLElement>(null);
  const [label, setLabel] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(p.text);
      setLabel("Copied");
    } catch {
      // Browsers may refuse on file://: the text is selected instead.
      if (code.current) getSelection()?.selectAllChildren(code.current);
      setLabel("Press Ctrl+C");
    }
    setTimeout(() => setLabel("Copy"), SHOWN_MS);
  };
  return (
    <div class="command">
      <code ref={code}>
        {p.text.split(" ").flatMap((word, i) => [i > 0 ? " " : "", <span key={i}>{word}</span>])}
      </code>
      {p.note && <span class="muted">{p.note}</span>}
      <button type="button" aria-label={`Copy: ${p.text}`} onClick={copy}>
        <span aria-live="polite">{label}</span>
      </button>
    </div>
  );
}
