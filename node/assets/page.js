// One page for nodes and trackers: what comes in is kept, and drawn once a frame.

import { byId, say } from "./elements.js";
import { NodePage, identity as nodeIdentity, title as nodeTitle } from "./node.js";
import { Stream, tokens } from "./stream.js";
import { identity as trackerIdentity, title as trackerTitle, TrackerPage } from "./tracker.js";

const KINDS = {
  node: { Page: NodePage, identity: nodeIdentity, title: nodeTitle, overline: "Murmuration node" },
  tracker: { Page: TrackerPage, identity: trackerIdentity, title: trackerTitle, overline: "Murmuration tracker" },
};
const QUIET_MS = 10000; // so long the live region holds its tongue after it has spoken

let view = null;
let page = null;
let kind = null;
let asked = false;
let over = false;
let clock = 0; // the node's clock less this one, in seconds

const now = () => Date.now() / 1000 + clock;

const draw = () => {
  asked = false;
  say(byId("kind"), kind.overline);
  say(byId("title"), kind.title(view));
  say(byId("identity"), `${location.host}, ${kind.identity(view)}`);
  document.title = `${kind.title(view)} · ${location.host} · Murmuration`;
  page.show(view, now());
  page.tick(view, now());
};

const drawSoon = () => {
  if (!asked) requestAnimationFrame(draw);
  asked = true;
};

const begin = (values) => {
  if (kind !== KINDS[values.kind]) {
    kind = KINDS[values.kind];
    byId("content").replaceChildren(byId(`${values.kind}-page`).content.cloneNode(true));
    page = new kind.Page();
  }
  view = values;
};

const change = ({ history_more: more, ...values }) => {
  Object.assign(view, values);
  if (more) view.history = [...view.history, ...more];
};

const on = {
  event(name, { at, ...values }) {
    clock = at - Date.now() / 1000;
    over = name === "end";
    if (name === "view") begin(values);
    if (name === "change") change(values);
    if (over) return state("ended", "The run is over; this is how it ended");
    state("live", "Live");
    drawSoon();
    announce(page.news(view));
  },
  state(name, why) {
    // After its last word a node is not lost: it has ended. It is called again all the same.
    if (over && name === "lost") return;
    state(name, why);
  },
};

const state = (name, text) => {
  byId("connection").dataset.state = name;
  say(byId("connection-text"), text || "The token is needed");
  byId("unlock").hidden = name !== "locked";
  byId("unlock-why").hidden = !text;
  if (name === "locked") say(byId("unlock-why"), text);
  if (name === "lost" && page) announce(text, true);
};

let told = "";
let toldAt = 0;
let telling;

// For those who do not see: the last news, and not more often than can be listened to.
const announce = (text, atOnce = false) => {
  clearTimeout(telling);
  if (!text || text === told) return;
  const wait = atOnce ? 0 : Math.max(0, toldAt + QUIET_MS - Date.now());
  telling = setTimeout(() => {
    told = text;
    toldAt = Date.now();
    say(byId("announcer"), text);
  }, wait);
};

const stream = new Stream(on);

byId("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  tokens.set(byId("token").value.trim());
  byId("token").value = "";
  stream.open();
});
window.addEventListener("hashchange", () => stream.open());
setInterval(() => view && !document.hidden && page.tick(view, now()), 1000);
stream.open();
