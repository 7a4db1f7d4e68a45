/* SPDX-License-Identifier: MIT
   The search of a page that is read from a file: browsers start no worker for file: addresses, so its script runs in a
   hidden frame. The theme takes such a script from the network; the site needs none. */
if (location.protocol === "file:") {
    window.IFrameWorker = class extends EventTarget {
        constructor(url) {
            super();
            const frame = document.createElement("iframe");
            frame.hidden = true;
            document.body.appendChild(frame);
            const inside = frame.contentDocument;
            inside.open();
            inside.write(`<html><body><script>
                window.postMessage = m => parent.postMessage(m, "*");
                window.importScripts = (...urls) => urls.reduce((after, url) => after.then(() => new Promise((done, failed) => {
                    const script = document.createElement("script");
                    script.onload = done;
                    script.onerror = failed;
                    script.src = url;
                    document.body.appendChild(script);
                })), Promise.resolve());
                <\/script><script src="${url}"><\/script></body></html>`);
            const is_ready = new Promise(done => (frame.onload = done));
            inside.close();
            this.postMessage = data =>
                is_ready.then(() => frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
            this.terminate = () => frame.remove();
            window.addEventListener("message", event => {
                if (event.source !== frame.contentWindow)
                    return;
                const message = new MessageEvent("message", { data: event.data });
                this.dispatchEvent(message);
                if (this.onmessage)
                    this.onmessage(message);
            });
        }
    };
    window.Worker = window.IFrameWorker;
}
