// A code, whose words are completed from the list of all words.

import { byId, element } from "../page/elements.js";
import { files } from "./fields.js";

const BEGUN = /^(.*\/\d{5}-(?:[a-z]+-){0,2})([a-z]{2,})$/; // the words that begin with one letter are too many

export const joinScreen = {
  title: "Join",
  template: "join-screen",
  async show({ data }, query, desk) {
    files(byId("join-data"), data);
    const { words } = await desk.get("/v1/words");
    const complete = () => {
      const [, before, begun] = BEGUN.exec(byId("code").value.trim().toLowerCase()) ?? [];
      const near = begun && !words.includes(begun) ? words.filter((word) => word.startsWith(begun)) : [];
      const isLast = before?.split("-").length === 4;
      byId("code-words").replaceChildren(
        ...near.map((word) => {
          const button = Object.assign(element("button", "", word), { type: "button" });
          button.addEventListener("click", () => {
            byId("code").value = `${before}${word}${isLast ? "" : "-"}`;
            complete();
            byId("code").focus();
          });
          return button;
        }),
      );
    };
    byId("code").addEventListener("input", complete);
    desk.talks(byId("join-form"), "join", () => ({ code: byId("code").value, data: byId("join-data").value, "allow-code": byId("allow-code").checked }));
  },
};
