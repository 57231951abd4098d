// What the page's terms mean: a small button behind a term opens its explanation.

import { byId, element } from "./elements.js";

const TERMS = {
  base: "The model on which all members of a group agree. Each round adds the mean of the group's updates to it. Nodes with equal digests have the same base, bit for bit.",
  group: "The peers that add up their updates together in a round. A group forms when enough peers are ready; nobody in it sees another's update.",
  fallback: "A round that did not become a common one, as a peer was missing or no group formed. The node keeps its own update and goes on: it costs the swarm this node's part of that round, and nothing else.",
  "additive shares": "Each member splits its update into random parts that say nothing one by one, and sends each other member one of them. Everybody adds up what it received; only the total of these sums is the sum of the updates.",
  "masked sums": "Each member hides its update under random masks that cancel out in the sum. Such a sum survives members that fall silent.",
  epsilon: "A bound on what the models can tell about any one record (differential privacy). The smaller epsilon is, the less anybody learns. A run may spend its budget and no more; then the node offers nothing.",
  "threshold curve (ROC)": "A model gives each row a probability of a class. The lower you set the threshold, the more rows of the class it finds, and the more others it takes for it. The curve has all thresholds; one that guesses is the diagonal.",
  calibration: "Whether a probability means what it says: of the rows to which the model gives 30 %, three in ten should be so. A model trained with weighted classes is not calibrated.",
};

// Puts a button behind a term.
export const explain = (behind, term) => {
  const button = element("button", "what");
  button.type = "button";
  button.setAttribute("aria-label", `What does “${term}” mean?`);
  button.addEventListener("click", () => open(button, term));
  behind.append(button);
};

// Puts a button behind each element that names a term in its attribute data-term.
export const explainAll = (root) => root.querySelectorAll("[data-term]").forEach((found) => explain(found, found.dataset.term));

const open = (button, term) => {
  const card = byId("term");
  const isAgain = card.matches(":popover-open") && card.dataset.term === term;
  if (card.matches(":popover-open")) card.hidePopover();
  if (isAgain) return;
  card.dataset.term = term;
  card.replaceChildren(element("strong", "", term), element("p", "", TERMS[term]));
  card.showPopover({ source: button });
  place(card, button.getBoundingClientRect());
};

// Below the button, and within the window.
const place = (card, { left, bottom, top }) => {
  const { innerWidth: width, innerHeight: height } = window;
  card.style.left = `${Math.max(8, Math.min(left, width - card.offsetWidth - 8))}px`;
  card.style.top = `${bottom + card.offsetHeight + 8 > height ? Math.max(8, top - card.offsetHeight - 6) : bottom + 6}px`;
};
