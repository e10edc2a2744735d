// Browsers refuse workers on pages that are opened as files. There the worker of the search runs in a hidden frame.
// (The theme's own remedy is a script on another host; `offline` leaves it out when it sees the name of this file.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.started = new Promise((resolve, reject) => {
        this.frame.onload = () => {
          const inner = this.frame.contentWindow;
          inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inner.document.createElement("script");
          script.src = url;
          script.onload = () => resolve(inner);
          script.onerror = () => reject(new Error(`${url} cannot be loaded`));
          inner.document.body.append(script);
        };
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      this.started.then((inner) => inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
