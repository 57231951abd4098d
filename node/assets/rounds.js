// The table of rounds, the latest first, a page at a time: a thousand rows are never in the document at once.

import { byId, element, rows, say } from "./elements.js";
import { bytes, count, figure, fixed, kindOf, metricOf, NONE, outcome, seconds, valueOf } from "./words.js";

const A_PAGE = 12;
const ALONE = "If all collude";
const HEADLINE = ""; // the name of the metric
const HEADINGS = ["Round", "Outcome", "Members", HEADLINE, "Loss", "Own loss", "Train", "Aggregate", "Sent", "Received"];

export class RoundsTable {
  constructor() {
    this.page = 0;
    this.rounds = [];
    byId("rounds-newer").addEventListener("click", () => this.#turn(-1));
    byId("rounds-older").addEventListener("click", () => this.#turn(1));
  }

  // `bySteps`: whether a round is made of steps whose noise all members share.
  show(rounds, isPrivate, bySteps) {
    Object.assign(this, { rounds, isPrivate, bySteps });
    this.#draw();
  }

  #turn(by) {
    this.page += by;
    this.#draw();
  }

  get #pages() {
    return Math.max(1, Math.ceil(this.rounds.length / A_PAGE));
  }

  #draw() {
    this.page = Math.max(0, Math.min(this.page, this.#pages - 1));
    const end = this.rounds.length - this.page * A_PAGE;
    const shown = this.rounds.slice(Math.max(0, end - A_PAGE), end).reverse();
    this.#head();
    byId("rounds-none").hidden = this.rounds.length > 0;
    byId("rounds-none").nextElementSibling.hidden = !this.rounds.length;
    rows(byId("rounds"), shown.map((round) => ({ className: kindOf(round), cells: this.#cells(round) })));
    say(byId("rounds-page"), `Page ${count(this.page + 1)} of ${count(this.#pages)}`);
    byId("rounds-newer").disabled = this.page === 0;
    byId("rounds-older").disabled = this.page === this.#pages - 1;
    byId("rounds-newer").parentElement.hidden = this.#pages === 1;
  }

  #head() {
    const name = metricOf(this.rounds[this.rounds.length - 1]).name;
    const isJob = this.rounds.some((round) => round.purpose != null);
    const named = { [HEADLINE]: name, ...(isJob ? { Round: "Sum", Train: "Own rows", Aggregate: "Together" } : {}) };
    const headings = [...HEADINGS.map((heading) => named[heading] ?? heading), ...(this.isPrivate ? ["Epsilon"] : []), ...(this.bySteps ? [ALONE] : [])];
    const row = byId("rounds-head");
    if (row.children.length === headings.length && [...row.children].every((cell, place) => cell.textContent === headings[place])) return;
    row.replaceChildren(...headings.map((heading) => {
      const cell = element("th", heading === "Outcome" ? "text" : "", heading);
      cell.scope = "col";
      cell.setAttribute("role", "columnheader");
      return cell;
    }));
  }

  #cells(round) {
    return [
      count(round.sum_number ?? round.round),
      { text: outcome(round, this.bySteps), className: "text outcome" },
      round.participants ? count(round.participants) : NONE,
      metricOf(round).text(valueOf(round)),
      fixed(round.loss),
      fixed(round.train_loss),
      seconds(round.train_s),
      seconds(round.aggregate_s),
      bytes(round.bytes_sent),
      bytes(round.bytes_received),
      ...(this.isPrivate ? [fixed(round.epsilon)] : []),
      ...(this.bySteps ? [figure(round.epsilon_alone, 3)] : []),
    ];
  }
}
