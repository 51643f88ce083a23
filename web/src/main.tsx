// Reads the data in the page and shows it. Nothing is fetched.

import { render } from "preact";
import { decodeText } from "./data/decode.ts";
import { followTheme, linkToAddress, newState } from "./state.ts";
import { App } from "./views/app.tsx";
import "./style.css";
import "./placement.css";

async function start(): Promise<void> {
  const root = document.getElementById("app");
  const data = document.getElementById("data");
  if (!root) return;
  try {
    if (!data) throw new Error("This page holds no data: it is the template from which reports are made.");
    const report = await decodeText(data.textContent ?? "", data.dataset.encoding ?? "json");
    data.remove();
    const { findings } = report;
    document.title = `${findings.run.command.join(" ") || "report"} – NumaMMA`;
    const threads = findings.threads.reduce((most, t) => Math.max(most, t.thread + 1), 1);
    const state = newState(findings.objects[0]?.id ?? -1, threads);
    followTheme(state, threads);
    linkToAddress(state, new Set(findings.objects.map((o) => o.id)));
    render(<App report={report} state={state} />, root);
  } catch (error) {
    const message = document.createElement("p");
    message.className = "empty";
    message.textContent = `This report cannot be shown. ${error instanceof Error ? error.message : error}`;
    root.replaceChildren(message);
  }
}

void start();
