/* Lets the search work where the site is opened from a file: there a browser starts no workers and fetches
   nothing. This replaces Worker by a hidden frame, which runs the same script and exchanges the same messages.
   The theme itself then reads search/search_index.js, which website/hooks.py writes. */
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "Search";
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => Promise.all(urls.map(each => this.load(each)));
      this.loaded = this.load(url);
    }

    load(url) {
      return new Promise((done, failed) => {
        const script = this.inside.document.createElement("script");
        script.addEventListener("load", done);
        script.addEventListener("error", failed);
        script.src = url;
        this.inside.document.body.append(script);
      });
    }

    async postMessage(data) {
      await this.loaded;
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
  };
}
