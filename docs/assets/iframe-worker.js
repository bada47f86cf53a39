// A page that is opened from a folder (file://) may not start workers, which the search is.
// There, and only there, a worker is a hidden frame that runs the same script.
// SPDX-License-Identifier: Apache-2.0
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = this.onerror = null;
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.appendChild(frame);
      this.inner = frame.contentWindow;
      const tell = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      const page = this.inner.document;
      this.inner.postMessage = (data) => setTimeout(tell, 0, data);
      this.inner.importScripts = (...scripts) =>
        scripts.reduce((before, script) => before.then(() => run(page, script)), Promise.resolve());
      run(page, url).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inner.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };

  function run(page, url) {
    return new Promise((resolve, reject) => {
      const script = page.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = reject;
      page.body.appendChild(script);
    });
  }
}
