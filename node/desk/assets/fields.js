// Parts that several screens have: lists to choose from, tables with headings of their own, lists of lines.

import { byId, element, rows } from "../page/elements.js";
import { bytes } from "../page/words.js";

export const options = (select, pairs, chosen) => {
  select.replaceChildren(...pairs.map(([value, text]) => Object.assign(element("option", "", text), { value })));
  if (pairs.some(([value]) => value === chosen)) select.value = chosen;
};

export const files = (select, data, chosen) =>
  options(select, data.map((file) => [file.name, `${file.name} (${file.bytes == null ? "images" : bytes(file.bytes)})`]), chosen);

export const headed = (head, body, columns, cells) => {
  byId(head).replaceChildren(
    ...columns.map((name) => {
      const made = element("th", "", name);
      made.scope = "col";
      made.setAttribute("role", "columnheader");
      return made;
    }),
  );
  byId(body).replaceChildren();
  rows(byId(body), cells.map((row) => ({ cells: row })));
};

// What a check found, or a command said: { level, text, table }; a level of "" is a plain line.
export const findings = (list, found) =>
  list.replaceChildren(
    ...found.map(({ level, text, table }) => {
      const item = element("li", level);
      const said = element("div", "", text);
      if (table.length) said.append(Object.assign(element("pre", "", table.join("\n")), { tabIndex: 0 }));
      item.append(...(level ? [element("strong", "", level)] : []), said);
      return item;
    }),
  );

export const items = (list, texts) => list.replaceChildren(...texts.map((text) => element("li", "", text)));
