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

// Rows of cells; a cell is a text or { text, className, dot, tag }. The first one heads its row.
export const rows = (body, table) => {
  const make = (row) => {
    const made = element("tr");
    row.cells.forEach((_, position) => {
      const cell = element(position ? "td" : "th");
      if (!position) cell.scope = "row";
      made.append(cell);
    });
    return made;
  };
  children(body, table, make, (made, row) => {
    setClass(made, row.className ?? "");
    row.cells.forEach((value, position) => fill(made.children[position], value));
  });
};

const fill = (cell, value) => {
  const { text, className = "", dot = false, tag = "" } = typeof value === "string" ? { text: value } : value;
  setClass(cell, className);
  if (!dot && !tag && !cell.firstElementChild) return say(cell, text);
  const written = `${text}|${tag}`;
  if (cell.dataset.written === written) return;
  cell.dataset.written = written;
  cell.replaceChildren(...(dot ? [mark()] : []), text, ...(tag ? [element("span", "tag", tag)] : []));
};

const mark = () => {
  const made = element("span", "dot");
  made.setAttribute("aria-hidden", "true");
  return made;
};

// Terms and what is said of each: { term, text, more }.
export const terms = (parent, pairs) => {
  const make = () => {
    const made = element("div");
    made.append(element("dt"), element("dd"));
    made.lastElementChild.append(element("span"), element("span", "more"));
    return made;
  };
  children(parent, pairs, make, (made, { term, text, more = "" }) => {
    say(made.firstElementChild, term);
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
    say(time, remark.at == null ? "" : ofDay(remark.at));
    say(text.firstElementChild, remark.is_warning ? "Warning: " : "");
    say(text.lastElementChild, remark.text);
  });
};
