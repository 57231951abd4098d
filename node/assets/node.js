// What a node shows its owner.

import { Chart, ROUNDS, stepsOf, SUMS, summary } from "./charts.js";
import { CurvesPart } from "./curves.js";
import { byId, children, element, remarks, rows, say, terms } from "./elements.js";
import { explain } from "./glossary.js";
import { aloneTile, OwnRows } from "./own.js";
import { showRelay } from "./relay.js";
import { RoundsTable } from "./rounds.js";
import { Download } from "./stream.js";
import { ACCOUNTANTS, besideText, bytes, capital, count, counted, decimals, figure, fixed, inSentence, JOB_PHASES, JOB_STEPS, kindOf, list, metricOf, NONE, noteOf, ofAll, ofAllText, ofDate, ofDay, outcome, outcomes, PHASES, seconds, STEPS, TOO_FEW, total, valueOf } from "./words.js";

const CONTACTS = {
  reachable: "Reachable",
  unreachable: "Not reachable",
  silent: "Not heard for a while",
  left: "Has left",
  "not met": "Not met yet",
  refuses: "Refuses this node",
};
const IN_PRIVACY = new Set(["privacy", "trust", "opened", "protects", "unit", "not covered"]);

export const title = (view) => view.task;

export const identity = (view) => `key ${view.key.slice(0, 16)}`;

const loss = (round) => round.loss;
const short = (value) => fixed(value);
const TERMS = { Rounds: "fallback", "Epsilon spent": "epsilon", sums: "additive shares", model: "base" };
const STEP_TERMS = { group: "group", shares: "additive shares" };
const explained = (made, term) => TERMS[term] && explain(made, TERMS[term]);

export class NodePage {
  constructor() {
    this.metric = metricOf();
    const alone = (value) => (round) => (kindOf(round) === "alone" ? value(round) : null);
    const lines = [
      [{ label: "Common model", colour: "--series-1", value: valueOf }, { label: "A constant answer", colour: "--muted", value: (round) => round.baseline, dash: [4, 4] }, { label: "All peers", colour: "--series-4", value: ofAll, optional: true }],
      [{ label: "Common model", colour: "--series-1", value: loss }, { label: "Own training", colour: "--series-3", value: (round) => round.train_loss }],
    ];
    const lonely = (value) => ({ label: "Round on its own", colour: "--series-2", value: alone(value), points: true });
    this.accuracy = new Chart(byId("accuracy-plot"), [...lines[0], lonely(valueOf)], { mark: (value, step) => this.metric.axis(value, step), format: (value) => this.metric.text(value), range: (plot, low, high) => rangeOf(this.metric, low, high) });
    this.loss = new Chart(byId("loss-plot"), [...lines[1], lonely(loss)], { mark: (value, step) => fixed(value, decimals(step)), format: short });
    this.own = new OwnRows(() => this.#own(this.view));
    this.curves = new CurvesPart();
    this.table = new RoundsTable();
    this.download = new Download(byId("model-download"), byId("model-why"));
  }

  show(view, now) {
    if (this.drawn !== view.history) this.#history(view);
    this.view = view;
    this.#own(view);
    this.curves.show(view.curves);
    this.#privacy(view);
    this.#peers(view);
    this.#traffic(view);
    showRelay(view.relay);
    remarks(byId("remarks"), [...view.remarks, ...standing(view)], ofDay);
    this.download.offer(view.kept ? null : view.model_bytes, `${view.task}-model.safetensors`);
    const about = Object.entries(view.about).filter(([term]) => !IN_PRIVACY.has(term));
    terms(byId("about"), [...about.map(([term, text]) => ({ term, text })), { term: "model", text: model(view) }], explained);
  }

  #own(view) {
    this.own.show(view);
    this.#figures(view);
  }

  // What moves with the clock alone.
  tick(view, now) {
    const over = isOver(view);
    const step = bySteps(view) && !view.exact ? `, step ${count(Math.min(view.generation + 1, view.steps))} of ${count(view.steps)}` : "";
    say(byId("now-title"), over ? overText(view) : `${view.exact ? `Sum ${count(Math.min(view.generation + 1, view.steps))}` : `Round ${count(view.round + 1)} of ${count(view.rounds)}`}${step}${view.purpose ? `: ${view.purpose}` : ""}`);
    const left = view.until == null || view.phase === "idle" || view.ended || view.silent_since != null ? "" : `at most ${count(Math.max(0, Math.ceil(view.until - now)))} s more`;
    say(byId("now-left"), left);
    byId("now-progress").max = view.over ? 1 : view.rounds;
    byId("now-progress").value = view.over ? 1 : bySteps(view) && !over ? view.generation / view.report_every : view.round;
    say(byId("now-sentence"), sentence(view));
    say(byId("now-waiting"), waiting(view));
    byId("now-waiting").hidden = !view.waiting;
    const still = over || view.silent_since != null;
    byId("now-steps").hidden = still;
    children(byId("now-steps"), still ? [] : steps(view, now), makeStep, updateStep);
  }

  // For the live region: rounds and warnings, not every phase.
  news(view) {
    const last = view.history[view.history.length - 1];
    const warned = view.remarks.filter((remark) => remark.is_warning).pop();
    const round = last ? `${capital(one(view))} ${last.sum_number ?? last.round}: ${outcome(last, bySteps(view))}; ${view.accuracy_of} ${inSentence(metricOf(last))} ${metricOf(last).text(valueOf(last))}.` : "";
    return warned && warned.text !== this.warned?.text ? `Warning: ${(this.warned = warned).text}` : `${round} ${capital(view.waiting)}`.trim();
  }

  #history(view) {
    this.drawn = view.history;
    const rounds = view.history;
    const across = view.exact ? SUMS : bySteps(view) ? stepsOf(view.report_every, view.steps) : ROUNDS;
    this.#name(view);
    const last = rounds[rounds.length - 1];
    this.metric = metricOf(last);
    say(byId("accuracy-title"), this.metric.name);
    this.accuracy.show(rounds, across);
    this.loss.show(rounds, across);
    const of = `${view.accuracy_of} rows`;
    picture(view, "accuracy", summary(this.metric.name, rounds, valueOf, this.metric.text, across), `Of the common model on the ${of}. ${rounds.some((round) => round.swarm) ? "Others see your rows only inside the sum of all peers." : "It stays on this node."} ${constant(last)}`);
    const only = last?.only_class == null ? [] : [`the model says “${last.only_class}” to every row: it does not tell the classes apart`];
    const flaws = [...only, ...(last?.flaws ?? [])];
    say(byId("only-class"), flaws.length ? `${capital(flaws.join("; "))}.` : "");
    byId("only-class").hidden = !flaws.length;
    picture(view, "loss", summary("Loss", rounds, loss, short, across), `Of the common model on the ${of}, and ${view.exact ? "on this node's own rows" : "of this node's own training"}.`);
    this.table.show(rounds, view.privacy != null, bySteps(view) && !view.exact);
    const { aggregated, rest } = view.whole ?? outcomes(rounds);
    say(byId("rounds-sum"), rounds.length ? `${view.exact ? `${count(view.generation)} done` : `${count(aggregated)} aggregated`}, ${rest}` : "none is over yet");
    const left = view.whole ? view.whole.rounds - rounds.length : 0;
    say(byId("rounds-left-out"), left ? `${count(rounds.length)} of ${count(view.whole.rounds)} rounds are shown, evenly spaced; python -m node.report --csv writes all of them.` : "");
  }

  // What is counted: the rounds of a run, or the sums of a job.
  #name(view) {
    this.loss.series[1].label = view.exact ? "Own rows" : "Own training";
    say(byId("rounds-title").firstChild, view.exact ? "Sums " : "Rounds ");
    say(byId("rounds-none"), `No ${one(view)} is over yet: the first line comes with the end of the first ${one(view)}.`);
  }

  #figures(view) {
    const rounds = view.history;
    const last = rounds[rounds.length - 1];
    const { aggregated, rest } = view.whole ?? outcomes(rounds);
    const told = rounds.findLast((round) => round.swarm);
    const spent = view.privacy;
    const own = this.own.of(view);
    const measured = !last ? `measured when the first ${one(view)} is over` : last.loss == null ? TOO_FEW : `on the ${view.accuracy_of} rows`;
    terms(byId("figures"), [
      { term: this.metric.name, text: last ? this.metric.text(valueOf(last)) : NOT_YET, more: [measured, last ? besideText(last) : ""].filter(Boolean).join("; ") },
      ...(own?.alone ? [aloneTile(own, this.metric)] : []),
      ...(told ? [{ term: "All peers", ...ofAllText(told) }] : []),
      { term: "Loss", text: last ? short(last.loss) : NOT_YET, more: measured },
      view.exact ? { term: "Sums done", text: count(view.generation), more: [view.made, rest].filter(Boolean).join("; ") } : { term: "Rounds", text: count(aggregated), more: `aggregated, ${rest}` },
      { term: "Peers", ...company(view) },
      { term: "Sent", text: bytes(total(view.sent)), more: `${bytes(total(view.received))} received` },
      { term: "Epsilon spent", text: spent ? bound(spent.epsilon_spent) : "none", more: spent ? `of ${figure(spent.epsilon_budget)}${spent.honest ? `; ${figure(spent.epsilon_alone, 3)} if all others collude` : ""}` : "no differential privacy" },
    ], explained);
  }

  #privacy(view) {
    const privacy = view.privacy;
    say(byId("privacy-sentence"), privacy ? ledger(privacy) : `No differential privacy is on, so nothing is counted. ${[view.about.privacy, view.about.opened && `${capital(view.about.opened)}.`].filter(Boolean).join(" ")}`);
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
      ...(privacy.apart ?? []).map((one) => ({ term: "Apart", text: `${apart(one)}; this run's epsilon does not count it` })),
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
        { text: stateOf(peer), className: `state ${peer.contact.replace(" ", "-")}`, dot: true, tag: peer.is_awaited ? "waited for" : "" },
        peer.name ? { text: peer.name } : { text: peer.key?.slice(0, 8) ?? NONE, className: "mono" },
        { text: count(peer.round), className: "number" },
        { text: note(peer), className: "why" },
      ],
    })));
    const { text, more } = company(view);
    say(byId("peers-sum"), view.peers.length ? `${text} ${more}` : "");
    byId("peers-none").hidden = view.peers.length > 0;
    byId("peers-none").nextElementSibling.hidden = !view.peers.length;
    say(byId("peers-none"), isOver(view) ? "No peer is known from this run." : "Nobody is known yet.");
  }

  #traffic(view) {
    const names = { group: "Meeting, finding groups, catching up", shares: "Shares", sums: "Sums" };
    const there = Object.entries(names).filter(([phase]) => !("all" in view.sent) || phase in view.sent);
    const lines = there.map(([phase, name]) => ({ cells: [name, bytes(view.sent[phase] ?? 0), bytes(view.received[phase] ?? 0)] }));
    rows(byId("traffic"), [...lines, { cells: ["All", bytes(total(view.sent)), bytes(total(view.received))] }]);
    const dropped = Object.entries(view.dropped).sort((a, b) => b[1] - a[1]);
    say(byId("dropped"), dropped.length ? `Dropped: ${list(dropped.map(([why, times]) => `${count(times)} × ${why}`), 4)}` : "Nothing that came in was dropped.");
  }
}

const NOT_YET = "not yet";
const MISSING = {
  unreachable: "cannot be reached",
  silent: "has not been heard for a while",
  refuses: "refuses this node",
};

const isOver = (view) => view.ended || view.over || view.round >= view.rounds;
const one = (view) => (view.exact ? "sum" : "round");
const overText = (view) => (view.exact ? `${view.over ? "" : "Unfinished: "}${counted(view.generation, "sum")} ${view.generation === 1 ? "is" : "are"} done` : `${count(view.round)} of ${counted(view.rounds, "round")} are over`);

// For whom the node waits, what follows, and since when that is so.
const waiting = (view) => (view.waiting ? `${capital(view.waiting)}${view.waiting_since == null ? "" : ` (since ${ofDate(view.waiting_since)})`}` : "");

const others = (view) => view.peers.filter((peer) => !peer.is_tracker);

// Who learns with this node: whom it reaches now, and once the run is over, with how many it last summed up.
const company = (view) => {
  const known = others(view).length;
  if (!isOver(view)) {
    const reachable = others(view).filter((peer) => peer.contact === "reachable").length;
    return { text: count(reachable), more: `reachable, of ${count(known)} known` };
  }
  const last = view.history.findLast((round) => round.participants > 1);
  if (!last) return { text: "0", more: `others took part, of ${count(known)} known: this node learned alone` };
  return { text: count(last.participants - 1), more: `others took part in the last common ${one(view)} (${count(last.sum_number ?? last.round)}): ${counted(last.participants, "member")} with this node` };
};

// Who is missing at this moment, as warnings above those that came before.
const standing = (view) => {
  if (isOver(view) || view.silent_since != null) return [];
  const warning = (text) => ({ at: null, when: "now", is_warning: true, text });
  return view.peers
    .filter((peer) => peer.contact in MISSING || (peer.contact === "not met" && peer.is_awaited))
    .map((peer) => warning(`${peer.is_tracker ? "the tracker " : ""}${(peer.presence && peer.name) || peer.endpoint} ${MISSING[peer.contact] ?? "has not come yet"}${peer.why ? `: ${peer.why}` : ""}`));
};

const rangeOf = (metric, low, high) => {
  if (low == null) return [0, 1];
  const room = Math.max(0.01, (high - low) * 0.08);
  return metric.isShare ? [Math.max(0, low - room), Math.min(1, high + room)] : [low - room, high + room];
};

const constant = (round) => (round?.baseline == null ? "" : `${metricOf(round).constant}: ${metricOf(round).text(round.baseline)}.`);

const picture = (view, name, text, caption) => {
  byId(`${name}-plot`).setAttribute("aria-label", `${text} Each ${one(view)} stands in the table of ${one(view)}s.`);
  say(byId(`${name}-caption`), caption);
};

const bySteps = (view) => view.report_every != null;

const honestWords = (honest, declared) => {
  if (honest === 0) return "none";
  return `${count(honest)}${honest === declared ? ", as declared" : ""}`;
};

const bound = (epsilon, digits = 4) => (epsilon == null ? "no bound" : figure(epsilon, digits));
const level = (epsilon) => ({ text: bound(epsilon, 3), className: "number" });

// What the key has spent for another unit than this run's.
const apart = (one) => {
  const alone = one.epsilon_alone === one.epsilon ? "" : ` (${bound(one.epsilon_alone)} if all others collude)`;
  return `${one.epsilon == null ? "" : "epsilon "}${bound(one.epsilon)}${alone} with delta ${figure(one.delta)}, for ${one.unit} (${one.neighbours} one)`;
};

const ledger = (privacy) => {
  if (privacy.no_bound) return `${capital(privacy.no_bound)}. This node offers no more and follows the others.`;
  const spent = privacy.epsilon_spent == null ? "No bound can be given for what is spent" : `Epsilon ${figure(privacy.epsilon_spent)} of ${figure(privacy.epsilon_budget)} is spent`;
  const left = privacy.epsilon_remaining ? `${figure(privacy.epsilon_remaining)} remains` : "nothing remains: this node offers no more and follows the others";
  const whom = privacy.honest ? `, if at least ${counted(privacy.honest, "other member")} ${privacy.honest === 1 ? "is" : "are"} honest` : "";
  return `${spent}, ${left}, with delta ${figure(privacy.delta)}, for ${privacy.unit}${whom}.`;
};

const model = (view) => `generation ${count(view.generation)}, base ${view.base_digest.slice(0, 16)}`;

// Of a member that is reached by its key, also whether a relay leads to it.
const stateOf = ({ contact, presence }) => {
  if (!presence || contact === "left" || contact === "refuses") return CONTACTS[contact] ?? contact;
  if (presence.relay) return contact === "reachable" ? "Here" : CONTACTS[contact];
  return presence.since == null ? "Not seen yet" : "Away";
};

const note = (peer) => {
  const parts = [peer.is_tracker ? "the tracker" : "", peer.follows ? "follows: its privacy budget is spent" : "", peer.presence && noteOf(peer.presence), peer.why];
  return parts.filter(Boolean).join("; ");
};

const isStoring = (view) => view.phase === "idle" && (view.spent_s.group ?? 0) > 0;

const ended = (view) => {
  if (view.over || view.round >= view.rounds) return view.exact ? "The job is over: the model is ready." : "The run is over.";
  if (view.history.at(-1)?.reason === "all-spent") return "The run is over: too few members have any privacy budget left.";
  if (view.exact && view.generation) return "The job stopped unfinished: all its sums have the members of the first one. What was agreed is kept; the same command goes on from here once all are there.";
  return "The node ended before its run was over; the same command goes on from here.";
};

const sentence = (view) => {
  if (view.silent_since != null) return `The node has written nothing since ${ofDate(view.silent_since)}: it was killed, or it hangs. The same command goes on from here.`;
  if (view.ended) return ended(view);
  if (view.phase === "idle" && (view.over || view.round >= view.rounds)) return "Storing the model.";
  const what = isStoring(view) ? "Judging and storing the new model" : (view.exact ? JOB_PHASES : PHASES)[view.phase] ?? view.phase;
  return view.waiting_for.length ? `${what}; waiting for ${list(view.waiting_for)}.` : `${what}.`;
};

const steps = (view, now) => (view.exact ? JOB_STEPS : STEPS).map(([phase, name], position) => {
  const at = isStoring(view) ? STEPS.length : STEPS.findIndex(([other]) => other === view.phase);
  const spent = view.spent_s[phase] ?? 0;
  if (position === at) return { phase, name, className: "now", text: `now, ${count(Math.floor(spent + Math.max(0, now - view.phase_since)))} s` };
  if (spent > 0 && (at < 0 || position < at)) return { phase, name, className: "done", text: `done in ${seconds(spent)}` };
  return { phase, name, className: "", text: "to come" };
});

const makeStep = ({ phase }) => {
  const made = element("li");
  made.append(element("span", "name"), element("span", "state"));
  if (STEP_TERMS[phase]) explain(made.firstElementChild, STEP_TERMS[phase]);
  made.firstElementChild.prepend(element("span"));
  return made;
};

const updateStep = (made, { name, className, text }) => {
  made.className = className;
  if (className === "now") made.setAttribute("aria-current", "step");
  else made.removeAttribute("aria-current");
  say(made.firstElementChild.firstElementChild, name);
  say(made.lastElementChild, text);
};
