// What a tracker shows: who is here, and what the next groups wait for.

import { byId, children, element, remarks, rows, say, terms } from "./elements.js";
import { showRelay } from "./relay.js";
import { count, counted, ofDay } from "./words.js";

const STATES = {
  ready: "Ready for a group",
  here: "Here",
  follows: "Here; follows, its privacy budget is spent",
  unreachable: "Not reachable",
};
const COLUMNS = ["Address", "State", "Key", "Round"];

export const title = () => "Tracker";

export const identity = (view) => `key ${view.key.slice(0, 16)}`;

export class TrackerPage {
  show(view) {
    this.#figures(view);
    children(byId("swarms"), view.swarms, makeSwarm, updateSwarm);
    if (!view.swarms.length) byId("swarms").textContent = "No peer is here.";
    showRelay(view.relay);
    remarks(byId("remarks"), view.remarks, ofDay);
    terms(byId("about"), Object.entries(view.about).map(([term, text]) => ({ term, text })));
  }

  tick() {}

  news(view) {
    return `${counted(view.peers, "peer")} here, ${counted(groups(view), "group")} formed.`;
  }

  #figures(view) {
    terms(byId("figures"), [
      { term: "Peers here", text: count(view.peers) },
      { term: "Swarms", text: count(view.swarms.length), more: "tasks with equal parameters" },
      { term: "Groups formed", text: count(groups(view)), more: "in the swarms that are here" },
    ]);
  }
}

const groups = (view) => view.swarms.reduce((sum, swarm) => sum + swarm.groups, 0);

const waiting = ({ ready, needed, peers, groups: formed }) => {
  const missing = Math.max(0, needed - ready);
  const next = missing ? `the next group waits for ${counted(missing, "more peer")}` : "the next group is about to be formed";
  return `${counted(peers.length, "peer")} here, ${count(ready)} ready; a group needs ${count(needed)}, so ${next}. ${counted(formed, "group")} formed so far.`;
};

const makeSwarm = () => {
  const made = element("div", "swarm");
  const scroll = element("div", "wide");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  const table = element("table", "words");
  const head = element("tr");
  table.setAttribute("role", "table");
  head.setAttribute("role", "row");
  for (const name of COLUMNS) {
    const cell = element("th", name === "Round" ? "number" : "", name);
    cell.scope = "col";
    cell.setAttribute("role", "columnheader");
    head.append(cell);
  }
  table.append(element("caption", "unseen"), element("thead"), element("tbody"));
  table.tHead.append(head);
  for (const part of [table.tHead, table.tBodies[0]]) part.setAttribute("role", "rowgroup");
  scroll.append(table);
  made.append(element("h3"), element("p", "sentence"), scroll);
  return made;
};

const updateSwarm = (made, swarm) => {
  const name = `${swarm.task} (parameters ${swarm.parameters.slice(0, 8)})`;
  const [heading, sentence, scroll] = made.children;
  say(heading, name);
  say(sentence, waiting(swarm));
  scroll.setAttribute("aria-label", `Peers of ${name}`);
  say(scroll.querySelector("caption"), `Peers of ${name}`);
  rows(scroll.querySelector("tbody"), swarm.peers.map(({ endpoint, key, round, state }) => ({
    cells: [
      { text: endpoint, className: "mono" },
      { text: STATES[state] ?? state, className: `state ${state}`, dot: true },
      { text: key.slice(0, 8), className: "mono" },
      { text: count(round), className: "number" },
    ],
  })));
};
