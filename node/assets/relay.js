// What a relay carries: a part of the page of a tracker, or of a node, that is one.

import { byId, rows, terms } from "./elements.js";
import { bytes, count, counted, total } from "./words.js";

export const showRelay = (relay) => {
  if (!relay) return byId("relay")?.remove();
  if (!byId("relay")) byId("remarks").closest("section").before(byId("relay-part").content.cloneNode(true));
  terms(byId("relay-facts"), [
    { term: "Members connected", text: count(relay.connected), more: `of ${counted(relay.swarms, "swarm")}` },
    { term: "Carried", text: bytes(relay.carried_bytes), more: `in ${counted(relay.carried_frames, "frame")}` },
    { term: "Waiting", text: bytes(relay.waiting_bytes), more: "for members that read slowly" },
    { term: "Not carried", text: counted(total(relay.dropped), "frame"), more: "their senders send them again" },
    { term: "Open invitations", text: count(relay.rooms) },
  ]);
  rows(byId("relay-members"), relay.members.map(({ key, swarm, carriers, carried_bytes: carried }) => ({
    cells: [
      { text: key.slice(0, 8), className: "mono" },
      { text: swarm.slice(0, 8), className: "mono" },
      { text: count(carriers), className: "number" },
      { text: bytes(carried), className: "number" },
    ],
  })));
};
