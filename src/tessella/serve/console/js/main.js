// Main: starts the parts of the page.

import { restore, startAddress } from "./address.js";
import { onActivity, onTokenNeeded } from "./api.js";
import { startBoosts } from "./boosts.js";
import { loadStats, startCatalogue } from "./catalogue.js";
import { byId } from "./dom.js";
import { addItem, editItem, removeItem } from "./editing.js";
import { startFilters } from "./filters.js";
import { startKeys } from "./keys.js";
import { startList } from "./list.js";
import { startLooked } from "./looked.js";
import { startOptions } from "./options.js";
import { failed, loading } from "./states.js";
import { on, state, tell } from "./state.js";
import { startTheme, switchTheme } from "./themes.js";
import { askForToken } from "./token.js";
import { startTraffic } from "./traffic.js";
import { startWatch } from "./watch.js";
import { startWho } from "./who.js";

function startProgress() {
  let timer = 0;
  onActivity((active) => {
    clearTimeout(timer);
    if (!active) byId("progress").hidden = true;
    else timer = setTimeout(() => { byId("progress").hidden = false; }, 150);
  });
}

/** On a phone, filters and boosts start folded; unfolding them keeps the list in view. */
function startSheet() {
  if (!matchMedia("(max-width: 47.99rem)").matches) return;
  byId("tune").open = false;
  byId("tune").addEventListener("toggle", () => { if (byId("tune").open) byId("facts").scrollIntoView(); });
}

async function begin() {
  byId("lists").replaceChildren(loading());
  try {
    await restore();
    await loadStats();
    tell("question");
  } catch (error) {
    if (error.status === 404 && state.generation !== null) { // the address names a generation that no longer exists
      state.generation = null;
      history.replaceState(null, "", location.pathname);
      return begin();
    }
    byId("lists").replaceChildren(failed(error, begin, "The catalogue could not be loaded"));
  }
}

const canWrite = () => state.stats?.writable;

startTheme();
startProgress();
onTokenNeeded(askForToken);
startSheet();
startCatalogue();
startWho();
startFilters();
startBoosts();
startOptions(addItem);
startList(editItem, removeItem);
startLooked();
startAddress();
on("generation", async () => {
  try { await loadStats(); } catch { /* the list shows the error */ }
  tell("question");
});
startKeys({
  "/": ["Find a user", () => byId("find-user").focus()],
  l: ["Find an item to like", () => byId("find-item").focus()],
  n: ["Add an item", () => canWrite() && addItem()],
  t: ["Switch between light and dark", switchTheme],
});
await begin();
startTraffic();
startWatch(async () => { await loadStats(); tell("items"); });
