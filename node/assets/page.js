// One page for nodes, trackers and runs from their folders: what comes in is kept, and drawn once a frame. In a
// report the views stand in the page itself, and nothing comes in.

import { ComparisonPage, identity as comparisonIdentity, title as comparisonTitle } from "./comparison.js";
import { byId, element, say } from "./elements.js";
import { explainAll } from "./glossary.js";
import { NodePage, identity as nodeIdentity, title as nodeTitle } from "./node.js";
import { Stream, tokens } from "./stream.js";
import { identity as trackerIdentity, title as trackerTitle, TrackerPage } from "./tracker.js";
import { ofDate } from "./words.js";

const KINDS = {
  node: { Page: NodePage, identity: nodeIdentity, title: nodeTitle, overline: "Murmuration node" },
  tracker: { Page: TrackerPage, identity: trackerIdentity, title: trackerTitle, overline: "Murmuration tracker" },
  comparison: { Page: ComparisonPage, identity: comparisonIdentity, title: comparisonTitle, overline: "Murmuration runs" },
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
  const place = view.folder || location.host;
  say(byId("identity"), [place, kind.identity(view)].filter(Boolean).join(", "));
  document.title = [kind.title(view), place, "Murmuration"].filter(Boolean).join(" · ");
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
    explainAll(byId("content"));
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
    if (over) return state("ended", isRead() ? "The command that showed this has ended" : "The run is over; this is how it ended");
    state(...connection());
    drawSoon();
    announce(page.news(view));
  },
  state(name, why) {
    // After its last word a node is not lost: it has ended. It is called again all the same.
    if (over && name === "lost") return;
    state(name, why);
  },
};

// Whether the view was read from a folder, and not from the node itself.
const isRead = () => Boolean(view?.folder) || view?.kind === "comparison";

const connection = () => {
  if (!isRead()) return view?.ended ? ["ended", "The run is over"] : ["live", "Live"];
  return view.ended ? ["live", "A run that is over, from its folder"] : ["live", "From its folder, as it grows"];
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

const live = () => {
  const stream = new Stream(on);
  byId("unlock").addEventListener("submit", (event) => {
    event.preventDefault();
    tokens.set(byId("token").value.trim());
    byId("token").value = "";
    stream.open();
  });
  window.addEventListener("hashchange", () => stream.open());
  setInterval(() => view && !document.hidden && page.tick(view, now()), 1000);
  const isBelow = /\/\d+\/$/.test(location.pathname); // a run below the comparison of several
  if (isBelow) links([["All runs", "../"]]);
  if (location.pathname.startsWith("/run/")) links([["All swarms", "../../#start"]]); // below the desk
  stream.open();
};

// The views of a report: that of the comparison, and one for each run, which the end of the address chooses.
const still = ({ at, runs, comparison }) => {
  clock = at - Date.now() / 1000;
  if (comparison) comparison.runs.forEach((run, position) => (run.path = `#${position + 1}`));
  const choose = () => {
    const chosen = runs[Number(location.hash.slice(1)) - 1] ?? comparison ?? runs[0];
    kind = null;
    begin({ ...chosen, kept: true });
    draw();
    byId("links").hidden = !comparison || chosen === comparison;
    state("kept", `A report of ${ofDate(at)}`);
  };
  if (comparison) links([["All runs", "#0"]]);
  window.addEventListener("hashchange", choose);
  choose();
};

const links = (pairs) => {
  byId("links").hidden = false;
  byId("links").replaceChildren(...pairs.map(([text, href]) => Object.assign(element("a", "", text), { href })));
};

const kept = byId("kept");
if (kept) still(JSON.parse(kept.textContent));
else live();
