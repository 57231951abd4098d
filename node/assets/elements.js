// The document: made once, and afterwards touched only where something differs, so that neither a reader's
// place nor a screen reader's is lost.

export const byId = (id) => document.getElementById(id);

export const say = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

const setClass = (node, name) => {
  if (node.className !== name) node.className = name;
};

export const element = (name, className = "", text = "") => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
};

// As many children as there are values: made by `make`, brought up to date by `update`.
export const children = (parent, values, make, update) => {
  while (parent.children.length > values.length) parent.lastElementChild.remove();
  values.forEach((value, position) => {
    if (position === parent.children.length) parent.append(make(value));
    update(parent.children[position], value);
  });
};

// Rows of cells; a cell is a text or { text, className, dot, tag, link, swatch }. The first one heads its row. On a
// phone a row becomes a card, in which each cell has its heading beside it; the roles keep it a table for all that.
export const rows = (body, table) => {
  const headings = body.parentElement.tHead.rows[0].cells;
  const make = (row) => {
    const made = element("tr");
    made.setAttribute("role", "row");
    row.cells.forEach((_, position) => {
      const cell = element(position ? "td" : "th");
      cell.setAttribute("role", position ? "cell" : "rowheader");
      if (!position) cell.scope = "row";
      made.append(cell);
    });
    return made;
  };
  children(body, table, make, (made, row) => {
    setClass(made, row.className ?? "");
    row.cells.forEach((value, position) => {
      made.children[position].dataset.label = headings[position].textContent;
      fill(made.children[position], value);
    });
  });
};

const fill = (cell, value) => {
  const { text, className = "", dot = false, tag = "", link, swatch } = typeof value === "string" ? { text: value } : value;
  setClass(cell, className);
  if (!dot && !tag && !link && !cell.firstElementChild) return say(cell, text);
  const written = `${text}|${tag}`;
  if (cell.dataset.written === written) return;
  cell.dataset.written = written;
  const before = [...(dot ? [mark("dot")] : []), ...(swatch ? [mark("swatch", swatch)] : [])];
  cell.replaceChildren(...before, link ? anchor(text, link) : text, ...(tag ? [element("span", "tag", tag)] : []));
};

const anchor = (text, link) => {
  const made = element("a", "", text);
  made.href = link;
  return made;
};

const mark = (className, colour) => {
  const made = element("span", className);
  made.setAttribute("aria-hidden", "true");
  if (colour) made.style.background = `var(${colour})`;
  return made;
};

// Terms and what is said of each: { term, text, more }. `behind` puts something behind a new term.
export const terms = (parent, pairs, behind = () => {}) => {
  const make = (pair) => {
    const made = element("div");
    made.append(element("dt"), element("dd"));
    made.firstElementChild.append(element("span"));
    behind(made.firstElementChild, pair.term);
    made.lastElementChild.append(element("span"), element("span", "more"));
    return made;
  };
  children(parent, pairs, make, (made, { term, text, more = "" }) => {
    say(made.firstElementChild.firstElementChild, term);
    const [first, second] = made.lastElementChild.children;
    say(first, text);
    say(second, more);
  });
};

const SHOWN = 10;

export const remarks = (parent, told, ofDay) => {
  const make = () => {
    const made = element("li");
    const text = element("span");
    text.append(element("strong"), element("span"));
    made.append(element("time"), text);
    return made;
  };
  const shown = told.slice(-SHOWN).reverse();
  if (told.length > SHOWN) shown.push({ at: null, text: `and ${told.length - SHOWN} before`, is_warning: false });
  if (!told.length) shown.push({ at: null, text: "Nothing so far.", is_warning: false });
  children(parent, shown, make, (made, remark) => {
    setClass(made, remark.is_warning ? "warning" : "");
    const [time, text] = made.children;
    say(time, remark.at == null ? (remark.when ?? "") : ofDay(remark.at));
    say(text.firstElementChild, remark.is_warning ? "Warning: " : "");
    say(text.lastElementChild, remark.text);
  });
};
