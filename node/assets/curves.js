// What each column adds to the predictions of an additive model: curves of numbers, points of categories, each with
// its band. All values stand in a table, too.

import { byId, children, element, rows, say } from "./elements.js";
import { count, counted, figure, NONE, percent } from "./words.js";

const FIRST = matchMedia("(max-width: 600px)").matches ? 6 : 12; // columns that are drawn at once; the others are folded
const MOST_POINTS = 12;
const WIDTH = 340;
const PLOT = { left: 52, right: WIDTH - 10, top: 8, bottom: 140 };
const BARS = 22; // the height of the highest bar of rows
const MISSING = 50; // the width that the point of missing values has
const LINE = 22; // between two points of categories
const LABELS = 116;
const DAY_MS = 86400000;
const YEARS = 1000; // days: so long a time is marked by months

const SCALES = {
  odds: {
    isFactor: true,
    says: (output, many) => `How each column moves the odds of “${output}”${many ? " against the other classes" : ""}: ×2 doubles them, ×0.5 halves them, compared with the mean of all rows.`,
  },
  factor: { isFactor: true, says: (output) => `What each column multiplies ${output} by, compared with the mean of all rows.` },
  number: { isFactor: false, says: (output) => `What each column adds to ${output}, in its unit, compared with the mean of all rows.` },
};

const signed = (value) => (value > 0 ? `+${figure(value, 3)}` : figure(value, 3).replace("-", "−"));
const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const factor = (value) => {
  const power = Math.floor(Math.log10(value) + 1e-9);
  if (Math.abs(power) < 4) return `×${figure(value, 3)}`;
  const digits = figure(value / 10 ** power, 2);
  return `×${digits === "1" ? "" : `${digits}·`}10${[...String(power)].map((digit) => RAISED[digit]).join("")}`;
};
const written = (scale, value) => (scale.isFactor ? factor(Math.exp(value)) : signed(value));

const CONTENT = `
<div class="row"><h2 id="curves-title">What each column adds</h2><label>Class <select id="curves-output"></select></label></div>
<p class="sentence" id="curves-sentence"></p>
<div class="curves" id="curves-first"></div>
<details id="curves-rest" hidden><summary></summary><div class="curves"></div></details>
<details id="curves-values"><summary>All values as a table</summary>
<div class="wide" role="region" aria-label="What each value of a column adds" tabindex="0"><table role="table" class="words"><caption class="unseen">What each value of a column adds</caption>
<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Column</th><th scope="col" role="columnheader">Values</th><th scope="col" role="columnheader">Adds</th><th scope="col" role="columnheader">Band</th><th scope="col" role="columnheader">Rows</th></tr></thead><tbody role="rowgroup" id="curves-table"></tbody></table></div></details>
`;

export class CurvesPart {
  // Fills the section with the id "curves", which a node's page and the desk have.
  constructor() {
    byId("curves").innerHTML = CONTENT;
    this.output = 0;
    byId("curves-output").addEventListener("change", ({ target }) => {
      this.output = target.selectedIndex;
      this.#draw();
    });
    for (const id of ["curves-rest", "curves-values"]) byId(id).addEventListener("toggle", () => this.#unfold());
  }

  show(found) {
    if (JSON.stringify(found) === this.drawn) return;
    this.drawn = JSON.stringify(found);
    this.found = found;
    byId("curves").hidden = !found;
    if (!found) return;
    const many = found.outputs.length > 1;
    this.output = Math.min(this.output, found.outputs.length - 1);
    byId("curves-output").parentElement.hidden = !many;
    children(byId("curves-output"), found.outputs, () => element("option"), say);
    byId("curves-output").selectedIndex = this.output;
    this.#draw();
  }

  #draw() {
    const { scale: kind, outputs, columns, trees } = this.found;
    const scale = SCALES[kind];
    const ordered = [...columns].sort((one, other) => other.importance[this.output] - one.importance[this.output]);
    const curves = ordered.map((curve) => ofOutput(curve, this.output));
    const spans = curves.map(({ low, high }) => high - low).sort((one, other) => one - other);
    const least = spans[Math.floor(spans.length / 2)] / 2 || 1;
    this.parts = { curves, scale, least };
    const bands = curves.some(({ points }) => points.some(({ band }) => band));
    const hasRows = curves.some(({ points }) => points.some(({ share }) => share != null));
    say(byId("curves-sentence"), [
      scale.says(outputs[this.output], outputs.length > 1),
      "The most important columns come first; their scales differ.",
      bands ? "Shaded: 95 % of what chance may have added." : "No bands are known: chance and noise are in the curves.",
      trees ? `${counted(trees, "tree")} ${trees === 1 ? "adds" : "add"} what several columns do together; that is in no curve.` : "",
      hasRows ? "Grey: how many rows of all members are there." : "",
    ].filter(Boolean).join(" "));
    byId("curves-first").replaceChildren(...curves.slice(0, FIRST).map((curve) => drawing(curve, scale, least)));
    const rest = curves.length - FIRST;
    byId("curves-rest").hidden = rest <= 0;
    say(byId("curves-rest").firstElementChild, `${count(rest)} more ${rest === 1 ? "column" : "columns"}`);
    byId("curves-rest").lastElementChild.replaceChildren();
    byId("curves-table").replaceChildren();
    this.#unfold();
  }

  // What is folded is made when it is opened: a hundred columns have a thousand values.
  #unfold() {
    const { curves, scale, least } = this.parts ?? { curves: [] };
    const [rest, table] = [byId("curves-rest"), byId("curves-table")];
    if (rest.open && !rest.lastElementChild.children.length) rest.lastElementChild.append(...curves.slice(FIRST).map((curve) => drawing(curve, scale, least)));
    if (!byId("curves-values").open || table.rows.length) return;
    rows(table, curves.flatMap(({ column, points }) => points.map(({ label, value, band, share }) => ({
      cells: [column, label, written(scale, value), band ? `${written(scale, value - band)} to ${written(scale, value + band)}` : NONE, share == null ? NONE : percent(share)],
    }))));
  }
}

// A column's curve for one output: its points, and between which values it is drawn. A band may make that twice as much.
const ofOutput = ({ column, kind, unit, cells, values, bands, importance }, output) => {
  const points = cells.map((cell, place) => ({ ...cell, value: values[output][place], band: bands[output]?.[place] || 0 }));
  const [least, most] = [Math.min(0, ...values[output]), Math.max(0, ...values[output])];
  const room = (most - least) / 2 || Math.max(...points.map(({ band }) => band));
  const low = Math.max(least - room, Math.min(least, ...points.map(({ value, band }) => value - band)));
  const high = Math.min(most + room, Math.max(most, ...points.map(({ value, band }) => value + band)));
  return { column, kind, unit, points, low, high };
};

const drawing = (curve, scale, least) => {
  const figure_ = element("figure");
  const title = element("h3", "", curve.column);
  if (curve.unit) title.append(element("small", "", curve.unit));
  const isLine = curve.points.filter(({ low, high }) => low != null || high != null).length > 1;
  figure_.append(title, isLine ? line(curve, scale, least) : dots(curve, scale, least));
  const left = isLine ? 0 : curve.points.length - MOST_POINTS;
  if (left > 0) figure_.append(element("figcaption", "", `The ${count(MOST_POINTS)} that add most; ${count(left)} more stand in the table.`));
  return figure_;
};

const NAMESPACE = "http://www.w3.org/2000/svg";
const shape = (name, className, attributes, text = "") => {
  const made = document.createElementNS(NAMESPACE, name);
  made.setAttribute("class", className);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, typeof value === "number" ? Math.round(value * 100) / 100 : value);
  made.textContent = text;
  return made;
};

const picture = (curve, scale, height, shapes) => {
  const made = shape("svg", "curve", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": told(curve, scale) });
  made.append(...shapes);
  return made;
};

// The ends of a curve in a sentence.
const told = ({ column, points }, scale) => {
  const ordered = [...points].sort((one, other) => one.value - other.value);
  const said = ({ label, value }) => `${written(scale, value)} at ${label}`;
  const [least, most] = [ordered[0], ordered.at(-1)];
  return `${column}: ${least === most ? said(most) : `from ${said(least)} to ${said(most)}`}.`;
};

// From values between `low` and `high` to pixels.
const axis = (low, high, from, to) => (value) => from + ((value - low) / (high - low)) * (to - from);

const within = (to, least, most) => (value) => Math.min(most, Math.max(least, to(value)));

const STEPS = [1, 2, 2.5, 5, 10];
const even = (low, high, most) => {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = STEPS.map((factor) => factor * power).find((one) => one >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, place) => Number(((first + place) * step).toPrecision(12)));
};

// The marks of what columns add: round numbers, or round factors where values are logarithms.
const marks = (scale, low, high) => {
  if (!scale.isFactor) return even(low, high, 5);
  const [least, most] = [Math.exp(low), Math.exp(high)];
  if (most / least < 4) return even(least, most, 4).filter((factor) => factor > 0).map(Math.log);
  const powers = Array.from({ length: Math.ceil(Math.log10(most)) - Math.floor(Math.log10(least)) + 1 }, (_, place) => 10 ** (place + Math.floor(Math.log10(least))));
  const inside = (digits) => powers.flatMap((power) => digits.map((digit) => digit * power)).filter((factor) => factor >= least && factor <= most);
  const [fine, coarse] = [inside([1, 2, 5]), inside([1])];
  const every = Math.ceil(coarse.length / 6);
  return (fine.length <= 7 ? fine : coarse.filter((factor) => Math.round(Math.log10(factor)) % every === 0)).map(Math.log);
};

// A little room around, and at least `least` between the ends, so that a flat curve looks flat.
const range = ({ low, high }, least) => {
  const lack = Math.max(0, least - (high - low)) / 2;
  const room = 0.05 * Math.max(least, high - low);
  return [low - lack - room, high + lack + room];
};

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const place = (kind, value, isLong) => {
  if (kind === "date") return new Date(value * DAY_MS).toISOString().slice(0, isLong ? 7 : 10);
  if (kind === "time") return `${String(Math.floor(value)).padStart(2, "0")}:${String(Math.round((value % 1) * 60)).padStart(2, "0")}`;
  return Math.abs(value) >= 10000 ? COMPACT.format(value) : figure(value);
};

const line = (curve, scale, least) => {
  const cells = curve.points.filter(({ low, high }) => low != null || high != null);
  const missing = curve.points.find(({ low, high }) => low == null && high == null);
  const edges = cells.flatMap(({ low, high }) => [low, high]).filter((edge) => edge != null);
  const room = 0.06 * (Math.max(...edges) - Math.min(...edges)) || Math.abs(edges[0]) / 10 || 1;
  const [first, last] = [Math.min(...edges) - room, Math.max(...edges) + room];
  const right = PLOT.right - (missing ? MISSING : 0);
  const [low, high] = range(curve, least);
  const x = axis(first, last, PLOT.left, right);
  const y = within(axis(low, high, PLOT.bottom, PLOT.top), PLOT.top, PLOT.bottom);
  const bottom = PLOT.bottom + BARS + 6;
  const ends = (cell) => [x(cell.low ?? first), x(cell.high ?? last)];
  const most = Math.max(...curve.points.map(({ share }) => share ?? 0));
  const bar = (from, to, share) => shape("rect", "rows", { x: from, y: bottom - (BARS * share) / most, width: Math.max(0.5, to - from - 0.5), height: (BARS * share) / most });
  const bands = cells.map((cell) => [ends(cell), y(cell.value + cell.band), y(cell.value - cell.band)]);
  const steps = cells.map((cell, position) => {
    const [from, to] = ends(cell);
    const joins = position > 0 && cells[position - 1].high === cell.low;
    return `${joins ? `V${y(cell.value).toFixed(2)}` : `M${from.toFixed(2)},${y(cell.value).toFixed(2)}`}H${to.toFixed(2)}`;
  });
  const shapes = [
    ...marks(scale, low, high).flatMap((mark) => [
      shape("path", "grid", { d: `M${PLOT.left},${y(mark).toFixed(2)}H${PLOT.right}` }),
      shape("text", "mark end", { x: PLOT.left - 6, y: y(mark) + 4 }, written(scale, mark)),
    ]),
    shape("path", "zero", { d: `M${PLOT.left},${y(0).toFixed(2)}H${PLOT.right}` }),
    shape("path", "band", { d: bands.map(([[from, to], top, end]) => `M${from.toFixed(2)},${top.toFixed(2)}H${to.toFixed(2)}V${end.toFixed(2)}H${from.toFixed(2)}Z`).join("") }),
    shape("path", "line", { d: steps.join("") }),
    ...(most ? cells.map((cell) => bar(...ends(cell), cell.share)) : []),
    shape("path", "axis", { d: `M${PLOT.left},${bottom}H${right}` }),
    ...xMarks(curve.kind, first, last).map((value) => shape("text", "mark middle", { x: Math.min(x(value), right - 8), y: bottom + 15 }, place(curve.kind, value, last - first > YEARS))),
  ];
  if (missing) {
    const middle = PLOT.right - MISSING / 2 + 4;
    shapes.push(
      ...point(middle, y(missing.value), y(missing.value - missing.band), y(missing.value + missing.band), false),
      ...(most ? [bar(middle - 8, middle + 8, missing.share)] : []),
      shape("text", "mark middle", { x: middle - 2, y: bottom + 15 }, missing.label),
    );
  }
  return picture(curve, scale, bottom + 22, shapes);
};

const xMarks = (kind, first, last) => (kind === "date" ? [0.14, 0.5, 0.86].map((share) => first + share * (last - first)) : even(first, last, 4));

// A point with its interval, which lies on one axis from `from` to `to`.
const point = (x, y, from, to, isFlat) => [
  shape("path", "interval", { d: isFlat ? `M${from.toFixed(2)},${y}H${to.toFixed(2)}` : `M${x},${from.toFixed(2)}V${to.toFixed(2)}` }),
  shape("circle", "point", { cx: x, cy: y, r: 4 }),
];

const short = (label) => (label.length > 16 ? `${label.slice(0, 14)}…` : label);

const dots = (curve, scale, least) => {
  const chosen = [...curve.points].sort((one, other) => Math.abs(other.value) - Math.abs(one.value)).slice(0, MOST_POINTS);
  const points = chosen.sort((one, other) => other.value - one.value);
  const [low, high] = range(curve, least);
  const hasRows = points.some(({ share }) => share != null);
  const right = PLOT.right - (hasRows ? 44 : 6);
  const x = within(axis(low, high, LABELS + 8, right), LABELS + 8, right);
  const bottom = PLOT.top + LINE * points.length + 4;
  const all = marks(scale, low, high);
  const every = Math.ceil(all.length / 4); // labels lie side by side
  const start = Math.max(0, all.indexOf(0)) % every;
  const shapes = [
    ...all.filter((mark, position) => position % every === start).flatMap((mark) => [
      shape("path", "grid", { d: `M${x(mark).toFixed(2)},${PLOT.top}V${bottom}` }),
      shape("text", "mark middle", { x: x(mark), y: bottom + 15 }, written(scale, mark)),
    ]),
    shape("path", "zero", { d: `M${x(0).toFixed(2)},${PLOT.top}V${bottom}` }),
    ...points.flatMap(({ label, value, band, share }, position) => {
      const y = PLOT.top + LINE * (position + 0.5);
      const name = shape("text", "label end", { x: LABELS, y: y + 4 }, short(label));
      name.append(shape("title", "", {}, label));
      return [
        name,
        ...point(x(value), y, x(value - band), x(value + band), true),
        ...(share == null ? [] : [shape("text", "mark end", { x: PLOT.right, y: y + 4 }, percent(share, share < 0.1 ? 1 : 0))]),
      ];
    }),
  ];
  return picture(curve, scale, bottom + 22, shapes);
};
