// Watch: checks whether the service answers, and whether the store has changed elsewhere.

import { byId } from "./dom.js";

const EVERY = 3000;

export function startWatch(reload) {
  let version = null;
  let lost = false;
  async function look() {
    if (document.hidden) return;
    try {
      const health = await (await fetch("/healthz")).json();
      const newer = version !== null && health.version > version;
      if (lost || newer) await reload();
      version = health.version;
      lost = false;
      byId("banner").hidden = true;
    } catch {
      lost = true;
      byId("banner").textContent = "The service does not answer. Retrying every few seconds.";
      byId("banner").hidden = false;
    }
  }
  look();
  setInterval(look, EVERY);
  document.addEventListener("visibilitychange", look);
}
