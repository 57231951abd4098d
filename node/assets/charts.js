// Lines over the rounds, or over the steps of which rounds are made. The same figures stand in the table of rounds.

const HEIGHT = 220;

// Where nobody points at a round, the legend tells of the last one, or of the one that is named.
const latest = (plot) => {
  if (plot.cursor.idx == null && plot.data[0].length) plot.setLegend({ idx: plot.rest ?? plot.data[0].length - 1 });
};

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// What a chart goes over: the word for it, where a round stands, and how that is written if it is no whole number.
export const ROUNDS = { label: "Round", place: (round) => round.round };
export const SUMS = { label: "Sum", place: (round) => round.sum_number };
export const stepsOf = (every, last) => ({ label: "Step", place: (round) => Math.min(round.round * every, last) });

// How wide the widest of some texts is.
const pen = document.createElement("canvas").getContext("2d");
const widest = (texts, font) => {
  pen.font = font;
  return Math.max(0, ...texts.map((text) => pen.measureText(text).width));
};

// `series`: [{ label, colour (a variable of the style sheet), value (of a round), points, dash, optional (named only
// where it has values) }]; `mark` writes a value
// at an axis whose marks are `step` apart, `format` in the legend.
export class Chart {
  constructor(box, series, { mark, format, range }) {
    Object.assign(this, { box, series, mark, format, range, rounds: [], across: ROUNDS });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#make());
    new ResizeObserver(() => this.#fit()).observe(box);
    this.#make();
  }

  show(rounds, across = this.across) {
    const renamed = across.label !== this.across.label;
    Object.assign(this, { rounds, across });
    if (renamed) return this.#make();
    this.plot.setData(this.#data());
    this.box.classList.toggle("empty", !rounds.length);
    this.series.forEach(({ points, optional, value }, position) => {
      if (points || optional) this.#name(position + 1, rounds.some((round) => value(round) != null));
    });
    latest(this.plot);
  }

  // What there is none of needs no name.
  #name(position, isThere) {
    this.box.querySelectorAll(".u-series")[position].hidden = !isThere;
  }

  #fit() {
    if (this.plot && this.plot.width !== this.box.clientWidth) this.plot.setSize(this.#size());
  }

  #size() {
    return { width: this.box.clientWidth || 300, height: HEIGHT };
  }

  #data() {
    return [this.rounds.map(this.across.place), ...this.series.map(({ value }) => this.rounds.map(value))];
  }

  #make() {
    this.plot?.destroy();
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = {
      stroke: colour("--muted"),
      font,
      grid: { stroke: colour("--rule"), width: 1 },
      ticks: { show: false },
    };
    const whole = (plot, splits) => splits.map((split) => (Number.isInteger(split) ? String(split) : ""));
    const steps = [...Array(7).keys()].flatMap((power) => [1, 2, 5].map((factor) => factor * 10 ** power));
    const options = {
      ...this.#size(),
      scales: { x: { time: false }, y: { range: this.range } },
      series: [{ label: this.across.label, value: (_, value) => (value == null ? "–" : (this.across.mark ?? String)(value)) }, ...this.series.map((one) => this.#line(one))],
      axes: [
        { ...axis, grid: { show: false }, size: 30, ...(this.across.mark ? { values: (_, splits) => splits.map(this.across.mark) } : { values: whole, incrs: steps }) },
        {
          ...axis,
          values: (plot, splits, _, space, step) => splits.map((split) => this.mark(split, step)),
          size: (plot, marks) => Math.ceil(widest(marks ?? [], font)) + 14,
        },
      ],
      cursor: { drag: { x: false, y: false }, points: { size: 7 } },
      legend: { live: true },
      padding: [8, Math.ceil(widest(["10,000"], font) / 2), 0, 0],
      hooks: { setCursor: [latest] },
    };
    this.plot = new uPlot(options, this.#data(), this.box);
    this.plot.rest = this.across.rest;
    this.show(this.rounds);
  }

  #line({ label, colour: name, points = false, dash }) {
    const stroke = colour(name);
    return {
      label,
      stroke,
      width: points ? 0 : 2,
      dash,
      spanGaps: !points,
      paths: points ? () => null : undefined,
      points: dash ? { show: false } : points ? { show: true, size: 8, fill: stroke } : { show: (plot) => plot.data[0].length < 40, size: 5, fill: stroke },
      value: (_, value) => (value == null ? "–" : this.format(value)),
    };
  }
}

// What a picture of a line says, in a sentence.
export const summary = (name, rounds, value, format, across = ROUNDS) => {
  const where = (round) => `${across.label.toLowerCase()} ${across.place(round)}`;
  const known = rounds.filter((round) => value(round) != null);
  if (!known.length) return `${name}: no round is over yet.`;
  const [first, last] = [known[0], known[known.length - 1]];
  if (first === last) return `${name} after ${where(last)}: ${format(value(last))}.`;
  return `${name} from ${format(value(first))} after ${where(first)} to ${format(value(last))} after ${where(last)}.`;
};
