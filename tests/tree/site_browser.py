#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Opens the built site in Chromium: every page without an error of a script and without a broken picture; the search finds
pages by a word; the table of device cards and the cards open; the page of `copse conformance site` filters its rows.

usage: site_browser.py HTML COPSE
Exit code 77: there is no Chromium, or no site.
"""
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


class Browser:
    """Chromium's DevTools protocol over a pipe: file descriptors 3 and 4, messages that end with a zero byte."""

    def __init__(self, program: str, folder: str) -> None:
        to_read, self.to = os.pipe()
        self.come, from_write = os.pipe()

        def descriptors() -> None:
            a, b = os.dup(to_read), os.dup(from_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.log = open(os.path.join(folder, "log"), "w+")
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={folder}/profile"],
            close_fds=False, preexec_fn=descriptors, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(to_read)
        os.close(from_write)
        self.rest, self.events, self.number, self.session = b"", [], 0, None

    def message(self, deadline: float) -> dict:
        while b"\0" not in self.rest:
            ready = select.select([self.come], [], [], max(0, deadline - time.time()))[0]
            part = os.read(self.come, 1 << 16) if ready else b""
            if not part:
                self.log.seek(0)
                raise SystemExit(f"chromium does not answer: {self.log.read()[-2000:]}")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method: str, **params: object) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            got = self.message(time.time() + 60)
            if got.get("id") == self.number:
                if "error" in got:
                    raise SystemExit(f"{method}: {got['error']}")
                return got["result"]
            self.events.append(got)

    def start(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def value(self, script: str) -> object:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, script: str, what: str, seconds: float = 20) -> object:
        end = time.time() + seconds
        while not (value := self.value(script)):
            if time.time() > end:
                no(f"after {seconds:g} s: {what}")
                return None
            time.sleep(0.1)
        return value

    def open(self, path: Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait(f"location.href == {json.dumps(path.as_uri())} && document.readyState == 'complete'", f"{path} is not loaded")

    def errors(self) -> list[str]:
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
                found.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        self.events.clear()
        return found


faults: list[str] = []


def no(text: str) -> None:
    faults.append(text)
    print(f"FAILED: {text}")


BROKEN = """Promise.all([...document.images].map(i => i.complete ? 0 : new Promise(r => { i.onload = i.onerror = r })))
    .then(() => [...document.images].filter(i => !i.naturalWidth).map(i => i.src))"""
SEARCH = """(() => { const q = document.querySelector('input.md-search__input'); q.focus(); q.value = %s;
    for (const e of ['input', 'keyup', 'change']) q.dispatchEvent(new Event(e, { bubbles: true })); return true })()"""
RESULTS = "[...document.querySelectorAll('a.md-search-result__link')].map(a => a.getAttribute('href'))"
ROWS = "[...document.querySelectorAll('tbody tr')].filter(r => r.offsetParent).map(r => r.cells[0].textContent)"


def check_pages(browser: Browser, html: Path) -> int:
    pages = [html / "index.html", *sorted((html / "docs").rglob("*.html")), *sorted((html / "bindings").rglob("*.html"))]
    for page in pages:
        browser.open(page)
        for picture in browser.value(BROKEN):
            no(f"{page.relative_to(html)}: the picture {picture} cannot be shown")
        for error in browser.errors():
            no(f"{page.relative_to(html)}: {error}")
    return len(pages)


def check_search(browser: Browser, html: Path) -> None:
    for word, page in ("oclgrind", "docs/internals/conformance.html"), ("AdamW", "docs/optimizers.html"):
        browser.open(html / "index.html")
        browser.value(SEARCH % json.dumps(word))
        found = browser.wait(f"(r => r.length && r)({RESULTS})", f"the search for {word} finds nothing") or []
        if found and not any(page in link for link in found):
            no(f"the search for {word} does not find {page}: {found[:10]}")
    browser.open(html / "index.html")
    browser.value(SEARCH % '"qqxzzy"')
    time.sleep(1)
    if browser.value(RESULTS):
        no("the search finds a word that no page has")
    for error in browser.errors():
        no(f"the search: {error}")


def check_cards(browser: Browser, html: Path) -> int:
    browser.open(html / "docs/devices/index.html")
    cards = browser.value("[...document.querySelectorAll('table a')].map(a => a.href).filter(h => h.includes('/devices/'))")
    if len(cards) < 8:
        no(f"the table of device cards has {len(cards)} cards")
    for link in cards:
        path = Path(link[len("file://"):].split("#")[0])
        if not path.is_file():
            no(f"the table of device cards links to {path}, which is not there")
            continue
        browser.open(path)
        if not browser.value("document.querySelectorAll('table tr').length > 3"):
            no(f"the card {path.name} has no table")
    return len(cards)


def check_filter(browser: Browser, copse: str, work: Path) -> None:
    environment = dict(os.environ, XDG_CACHE_HOME=str(work / "cache"))
    results = subprocess.run([copse, "conformance", "run", "--device", "host:0", "--ops", "tanh,sigmoid,softmax", "--json"],
                             capture_output=True, env=environment, check=True).stdout
    (work / "a.json").write_bytes(results)
    (work / "out").mkdir()
    subprocess.run([copse, "conformance", "site", work / "a.json", "--out", work / "out"], check=True, capture_output=True)
    browser.open(work / "out/index.html")
    every = browser.value(ROWS)
    if sorted(every) != ["sigmoid", "softmax", "tanh"]:
        no(f"the table of ops and devices has the rows {every}")
    for word, rows in ("softmax", ["softmax"]), ("nothing", []), ("", every):
        browser.value(f"(q => {{ q.value = {json.dumps(word)}; q.dispatchEvent(new Event('input', {{ bubbles: true }})) }})"
                      "(document.getElementById('q'))")
        if (got := browser.value(ROWS)) != rows:
            no(f"the table filtered by '{word}' shows {got}, not {rows}")
    for error in browser.errors():
        no(f"the table of ops and devices: {error}")


def main() -> int:
    html, copse = Path(sys.argv[1]).resolve(), sys.argv[2]
    program = shutil.which("chromium")
    if not program:
        print("skipped: no chromium (Debian package chromium)")
        return 77
    if not (html / "index.html").is_file():
        print(f"skipped: no site in {html}: docs/site/build.sh could not build it")
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        try:
            browser.start()
            pages = check_pages(browser, html)
            check_search(browser, html)
            cards = check_cards(browser, html)
            check_filter(browser, copse, Path(folder))
        finally:
            browser.process.terminate()
            browser.process.wait()
    print(f"{pages} pages, {cards} cards, 3 searches in {program}: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
