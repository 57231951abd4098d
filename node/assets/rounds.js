// The table of rounds, the latest first, a page at a time: a thousand rows are never in the document at once.

import { byId, element, rows, say } from "./elements.js";
import { bytes, count, fixed, kindOf, NONE, outcome, percent, seconds } from "./words.js";

const A_PAGE = 12;
const HEADINGS = ["Round", "Outcome", "Peers", "Accuracy", "Loss", "Own loss", "Train", "Aggregate", "Sent", "Received"];

export class RoundsTable {
  constructor() {
    this.page = 0;
    this.rounds = [];
    byId("rounds-newer").addEventListener("click", () => this.#turn(-1));
    byId("rounds-older").addEventListener("click", () => this.#turn(1));
  }

  show(rounds, isPrivate) {
    this.rounds = rounds;
    this.isPrivate = isPrivate;
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
    rows(byId("rounds"), shown.map((round) => ({ className: kindOf(round), cells: this.#cells(round) })));
    say(byId("rounds-page"), `Page ${count(this.page + 1)} of ${count(this.#pages)}`);
    byId("rounds-newer").disabled = this.page === 0;
    byId("rounds-older").disabled = this.page === this.#pages - 1;
    byId("rounds-newer").parentElement.hidden = this.#pages === 1;
  }

  #head() {
    const headings = this.isPrivate ? [...HEADINGS, "Epsilon"] : HEADINGS;
    const row = byId("rounds-head");
    if (row.children.length === headings.length) return;
    row.replaceChildren(...headings.map((heading) => {
      const cell = element("th", heading === "Outcome" ? "text" : "", heading);
      cell.scope = "col";
      return cell;
    }));
  }

  #cells(round) {
    const cells = [
      count(round.round),
      { text: outcome(round), className: "text outcome" },
      round.participants ? count(round.participants) : NONE,
      percent(round.accuracy),
      fixed(round.loss),
      fixed(round.train_loss),
      seconds(round.train_s),
      seconds(round.aggregate_s),
      bytes(round.bytes_sent),
      bytes(round.bytes_received),
    ];
    return this.isPrivate ? [...cells, fixed(round.epsilon)] : cells;
  }
}
