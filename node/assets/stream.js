// The node's events. Not an EventSource, for that can send no token but in a cookie or an address, and a
// cookie goes to every port of a host. Comes back by itself, later each time, also after a restart.

import { element, say } from "./elements.js";
import { bytes } from "./words.js";

const SILENT_MS = 15000; // the node says something every five seconds
const FIRST_MS = 400;
const LAST_MS = 4000;
const HIDDEN_MS = 60000; // a tab that nobody sees lets go of its stream

export const tokens = {
  // A token comes behind the # of the address the first time, and leaves the address at once.
  get() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given) {
      sessionStorage.setItem("token", given);
      history.replaceState(null, "", location.pathname);
    }
    return sessionStorage.getItem("token");
  },
  set: (token) => sessionStorage.setItem("token", token),
};

// The button that saves the model's file. It asks with the token, which a link could not send.
export class Download {
  constructor(button, why) {
    Object.assign(this, { button, why });
    button.addEventListener("click", () => this.#save().catch(() => say(why, "The node cannot be reached.")));
  }

  // `size` in bytes; null if there is nothing to save.
  offer(size, name) {
    this.name = name;
    this.button.hidden = size == null;
    if (size != null) say(this.button, `Download the common model (${bytes(size)})`);
  }

  async #save() {
    say(this.why, "");
    const answer = await fetch("v1/model", { headers: authorization(), cache: "no-store" });
    if (!answer.ok) return say(this.why, `The model cannot be had: ${(await answer.text()).trim()}`);
    const link = element("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = this.name;
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

export const authorization = () => {
  const token = tokens.get();
  return token ? { Authorization: `Bearer ${token}` } : {};
};

// `on`: { event(name, values), state(name, why) }, states being connecting, live, lost, locked, paused.
export class Stream {
  constructor(on) {
    this.on = on;
    this.wait = FIRST_MS;
    document.addEventListener("visibilitychange", () => this.#visible());
  }

  open() {
    clearTimeout(this.again);
    this.#read().catch(() => this.#lost("The node cannot be reached"));
  }

  #visible() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.paused = true;
        clearTimeout(this.again);
        this.abort?.abort();
        this.on.state("paused", "Paused while the tab is hidden");
      }, HIDDEN_MS);
    } else if (this.paused) {
      this.paused = false;
      this.open();
    }
  }

  #lost(why) {
    if (this.paused || this.locked) return;
    this.on.state("lost", `${why}; trying again`);
    this.again = setTimeout(() => this.open(), this.wait * (0.8 + 0.4 * Math.random()));
    this.wait = Math.min(LAST_MS, this.wait * 1.6);
  }

  async #read() {
    this.locked = false;
    this.abort = new AbortController();
    const headers = authorization();
    const answer = await fetch("v1/events", { headers, cache: "no-store", signal: this.abort.signal });
    if (answer.status === 401) {
      this.locked = true;
      return this.on.state("locked", headers.Authorization ? "This is not the token of this node" : "");
    }
    if (!answer.ok) return this.#lost(answer.status === 503 ? "Too many watch this node" : `It answers ${answer.status}`);
    this.wait = FIRST_MS;
    await this.#events(answer.body.pipeThrough(new TextDecoderStream()).getReader());
    this.#lost("The connection ended");
  }

  async #events(reader) {
    let text = "";
    let watch;
    const heard = () => {
      clearTimeout(watch);
      watch = setTimeout(() => this.abort.abort(), SILENT_MS);
    };
    try {
      for (;;) {
        heard();
        const { value, done } = await reader.read();
        if (done) return;
        const parts = (text + value).split("\n\n");
        text = parts.pop();
        for (const part of parts) this.#event(part);
      }
    } finally {
      clearTimeout(watch);
    }
  }

  #event(part) {
    const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(part) ?? [];
    if (name) this.on.event(name, JSON.parse(data));
  }
}
