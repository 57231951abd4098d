// What a node shows its owner.

import { Chart, ROUNDS, stepsOf, summary } from "./charts.js";
import { byId, children, element, remarks, rows, say, terms } from "./elements.js";
import { RoundsTable } from "./rounds.js";
import { ACCOUNTANTS, bytes, count, counted, figure, fixed, kindOf, list, NONE, ofDay, outcome, outcomes, percent, PHASES, seconds, STEPS, total } from "./words.js";

const CONTACTS = {
  reachable: "Reachable",
  unreachable: "Not reachable",
  silent: "Not heard for a while",
  left: "Has left",
  "not met": "Not met yet",
  refuses: "Refuses this node",
};
const IN_PRIVACY = new Set(["privacy", "trust", "protects", "unit", "not covered"]);

export const title = (view) => view.task;

export const identity = (view) => `key ${view.key.slice(0, 16)}`;

const accuracy = (round) => round.accuracy;
const loss = (round) => round.loss;
const short = (value) => fixed(value);
const axis = (value) => figure(value, 3);

export class NodePage {
  constructor() {
    const alone = (value) => (round) => (kindOf(round) === "alone" ? value(round) : null);
    const lines = [
      [{ label: "Common model", colour: "--series-1", value: accuracy }],
      [{ label: "Common model", colour: "--series-1", value: loss }, { label: "Own training", colour: "--series-3", value: (round) => round.train_loss }],
    ];
    const lonely = (value) => ({ label: "Round on its own", colour: "--series-2", value: alone(value), points: true });
    this.accuracy = new Chart(byId("accuracy-plot"), [...lines[0], lonely(accuracy)], { mark: (value) => percent(value, 0), format: (value) => percent(value), range: share });
    this.loss = new Chart(byId("loss-plot"), [...lines[1], lonely(loss)], { mark: axis, format: short });
    this.table = new RoundsTable();
  }

  show(view, now) {
    if (this.drawn !== view.history) this.#history(view);
    this.#figures(view);
    this.#privacy(view);
    this.#peers(view);
    this.#traffic(view);
    remarks(byId("remarks"), view.remarks, ofDay);
    const about = Object.entries(view.about).filter(([term]) => !IN_PRIVACY.has(term));
    terms(byId("about"), [...about.map(([term, text]) => ({ term, text })), { term: "model", text: model(view) }]);
  }

  // What moves with the clock alone.
  tick(view, now) {
    const over = view.ended || view.round >= view.rounds;
    const step = bySteps(view) ? `, step ${count(Math.min(view.generation + 1, view.steps))} of ${count(view.steps)}` : "";
    say(byId("now-title"), over ? `${count(view.round)} of ${counted(view.rounds, "round")} are over` : `Round ${count(view.round + 1)} of ${count(view.rounds)}${step}`);
    const left = view.until == null || view.phase === "idle" || view.ended ? "" : `at most ${count(Math.max(0, Math.ceil(view.until - now)))} s more`;
    say(byId("now-left"), left);
    byId("now-progress").max = view.rounds;
    byId("now-progress").value = bySteps(view) && !over ? view.generation / view.report_every : view.round;
    say(byId("now-sentence"), sentence(view));
    say(byId("now-waiting"), capital(view.waiting));
    byId("now-waiting").hidden = !view.waiting;
    byId("now-steps").hidden = over;
    children(byId("now-steps"), over ? [] : steps(view, now), makeStep, updateStep);
  }

  // For the live region: rounds and warnings, not every phase.
  news(view) {
    const last = view.history[view.history.length - 1];
    const warned = view.remarks.filter((remark) => remark.is_warning).pop();
    const round = last ? `Round ${last.round}: ${outcome(last, bySteps(view))}; ${view.accuracy_of} accuracy ${percent(last.accuracy)}.` : "";
    return warned && warned.text !== this.warned?.text ? `Warning: ${(this.warned = warned).text}` : `${round} ${capital(view.waiting)}`.trim();
  }

  #history(view) {
    this.drawn = view.history;
    const rounds = view.history;
    const across = bySteps(view) ? stepsOf(view.report_every, view.steps) : ROUNDS;
    this.accuracy.show(rounds, across);
    this.loss.show(rounds, across);
    const of = `${view.accuracy_of} rows`;
    picture("accuracy", summary("Accuracy", rounds, accuracy, percent, across), `Of the common model on the ${of}. It stays on this node.`);
    picture("loss", summary("Loss", rounds, loss, short, across), `Of the common model on the ${of}, and of this node's own training.`);
    this.table.show(rounds, view.privacy != null, bySteps(view));
    const { aggregated, rest } = outcomes(rounds);
    say(byId("rounds-sum"), rounds.length ? `${count(aggregated)} aggregated, ${rest}` : "none is over yet");
  }

  #figures(view) {
    const rounds = view.history;
    const last = rounds[rounds.length - 1];
    const { aggregated, rest } = outcomes(rounds);
    const spent = view.privacy;
    const reachable = view.peers.filter((peer) => peer.contact === "reachable" && !peer.is_tracker).length;
    terms(byId("figures"), [
      { term: "Accuracy", text: percent(last?.accuracy), more: `on the ${view.accuracy_of} rows` },
      { term: "Loss", text: short(last?.loss), more: `on the ${view.accuracy_of} rows` },
      { term: "Rounds", text: count(aggregated), more: `aggregated, ${rest}` },
      { term: "Peers", text: count(reachable), more: `reachable, of ${count(view.peers.filter((peer) => !peer.is_tracker).length)} known` },
      { term: "Sent", text: bytes(total(view.sent)), more: `${bytes(total(view.received))} received` },
      { term: "Epsilon spent", text: spent ? figure(spent.epsilon_spent) : "none", more: spent ? `of ${figure(spent.epsilon_budget)}${spent.honest ? `; ${figure(spent.epsilon_alone, 3)} if all others collude` : ""}` : "no differential privacy" },
    ]);
  }

  #privacy(view) {
    const privacy = view.privacy;
    say(byId("privacy-sentence"), privacy ? ledger(privacy) : `No differential privacy is on, so nothing is counted. ${view.about.privacy ?? ""}`);
    const gauge = byId("privacy-gauge");
    this.#trust(view);
    gauge.hidden = !privacy;
    if (!privacy) return terms(byId("privacy-facts"), []);
    const share_ = Math.min(100, Math.round((100 * (privacy.epsilon_spent ?? Infinity)) / privacy.epsilon_budget));
    gauge.setAttribute("aria-valuenow", share_);
    gauge.classList.toggle("spent", share_ >= 99);
    gauge.firstElementChild.style.width = `${share_}%`;
    terms(byId("privacy-facts"), [
      { term: "Mechanism", text: privacy.mechanism },
      { term: "What it protects", text: privacy.protects },
      { term: "Unit", text: privacy.unit },
      { term: "Neighbours", text: `${privacy.neighbours} one; sensitivity in the ${privacy.norm} norm` },
      { term: "Not covered", text: privacy.outside || "nothing that leaves this node" },
      { term: "Worked out by", text: ACCOUNTANTS[privacy.accountant] ?? privacy.accountant },
      ...(privacy.steps_charged == null ? [] : [{ term: "Steps charged", text: `${count(privacy.steps_charged)}; the model has had ${count(view.generation)} steps. A step is charged even if its sum fails.` }]),
    ]);
  }

  // Whom the guarantee rests on, where members share their noise.
  #trust(view) {
    const byHonest = Object.entries(view.privacy?.epsilon_by_honest ?? {}).sort(([one], [other]) => other - one);
    const planned = view.privacy?.budget_by_honest ?? {};
    say(byId("privacy-trust"), view.about.trust ? `${capital(view.about.trust)}.` : "");
    byId("privacy-trust").hidden = !view.about.trust;
    byId("privacy-honest").hidden = !byHonest.length;
    rows(byId("privacy-levels"), byHonest.map(([honest, spent]) => ({ cells: [honestWords(Number(honest), view.privacy.honest), level(spent), level(planned[honest])] })));
  }

  #peers(view) {
    rows(byId("peers"), view.peers.map((peer) => ({
      cells: [
        { text: peer.endpoint, className: "mono" },
        { text: CONTACTS[peer.contact] ?? peer.contact, className: `state ${peer.contact.replace(" ", "-")}`, dot: true, tag: peer.is_awaited ? "waited for" : "" },
        peer.name ? { text: peer.name } : { text: peer.key?.slice(0, 8) ?? NONE, className: "mono" },
        { text: count(peer.round), className: "number" },
        { text: note(peer), className: "why" },
      ],
    })));
    const peers = view.peers.filter((peer) => !peer.is_tracker);
    const reachable = peers.filter((peer) => peer.contact === "reachable").length;
    say(byId("peers-sum"), peers.length ? `${count(reachable)} of ${count(peers.length)} reachable` : "nobody is known yet");
  }

  #traffic(view) {
    const names = { group: "Meeting, finding groups, catching up", shares: "Shares", sums: "Sums" };
    const lines = Object.entries(names).map(([phase, name]) => ({ cells: [name, bytes(view.sent[phase] ?? 0), bytes(view.received[phase] ?? 0)] }));
    rows(byId("traffic"), [...lines, { cells: ["All", bytes(total(view.sent)), bytes(total(view.received))] }]);
    const dropped = Object.entries(view.dropped).sort((a, b) => b[1] - a[1]);
    say(byId("dropped"), dropped.length ? `Dropped: ${list(dropped.map(([why, times]) => `${count(times)} × ${why}`), 4)}` : "Nothing that came in was dropped.");
  }
}

const share = (plot, low, high) => {
  if (low == null) return [0, 1];
  const room = Math.max(0.01, (high - low) * 0.08);
  return [Math.max(0, low - room), Math.min(1, high + room)];
};

const picture = (name, text, caption) => {
  byId(`${name}-plot`).setAttribute("aria-label", `${text} Each round stands in the table of rounds.`);
  say(byId(`${name}-caption`), caption);
};

const bySteps = (view) => view.report_every != null;

const honestWords = (honest, declared) => {
  if (honest === 0) return "none";
  return `${count(honest)}${honest === declared ? ", as declared" : ""}`;
};

const level = (epsilon) => ({ text: epsilon == null ? "no bound" : figure(epsilon, 3), className: "number" });

const ledger = (privacy) => {
  const spent = privacy.epsilon_spent == null ? "No bound can be given for what is spent" : `Epsilon ${figure(privacy.epsilon_spent)} of ${figure(privacy.epsilon_budget)} is spent`;
  const left = privacy.epsilon_remaining ? `${figure(privacy.epsilon_remaining)} remains` : "nothing remains: this node offers no more and follows the others";
  const whom = privacy.honest ? `, if at least ${counted(privacy.honest, "other member")} ${privacy.honest === 1 ? "is" : "are"} honest` : "";
  return `${spent}, ${left}, with delta ${figure(privacy.delta)}, for ${privacy.unit}${whom}.`;
};

const model = (view) => `generation ${count(view.generation)}, base ${view.base_digest.slice(0, 16)}`;

const note = (peer) => {
  const parts = [peer.is_tracker ? "the tracker" : "", peer.follows ? "follows: its privacy budget is spent" : "", peer.why];
  return parts.filter(Boolean).join("; ");
};

const isStoring = (view) => view.phase === "idle" && (view.spent_s.group ?? 0) > 0;

const sentence = (view) => {
  if (view.ended) return view.round >= view.rounds ? "The run is over." : "The node was stopped; the same command goes on from here.";
  if (view.phase === "idle" && view.round >= view.rounds) return "Storing the model.";
  const what = isStoring(view) ? "Judging and storing the new model" : PHASES[view.phase] ?? view.phase;
  return view.waiting_for.length ? `${what}; waiting for ${list(view.waiting_for)}.` : `${what}.`;
};

const capital = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}` : "");

const steps = (view, now) => STEPS.map(([phase, name], position) => {
  const at = isStoring(view) ? STEPS.length : STEPS.findIndex(([other]) => other === view.phase);
  const spent = view.spent_s[phase] ?? 0;
  if (position === at) return { name, className: "now", text: `now, ${count(Math.floor(spent + Math.max(0, now - view.phase_since)))} s` };
  if (spent > 0 && (at < 0 || position < at)) return { name, className: "done", text: `done in ${seconds(spent)}` };
  return { name, className: "", text: "to come" };
});

const makeStep = () => {
  const made = element("li");
  made.append(element("span", "name"), element("span", "state"));
  return made;
};

const updateStep = (made, { name, className, text }) => {
  made.className = className;
  if (className === "now") made.setAttribute("aria-current", "step");
  else made.removeAttribute("aria-current");
  say(made.firstElementChild, name);
  say(made.lastElementChild, text);
};
