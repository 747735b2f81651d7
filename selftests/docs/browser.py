# SPDX-License-Identifier: GPL-2.0-only
"""Chromium without a window, spoken to by its DevTools protocol over two pipes: no other package is needed.

A window of chromium's is at least 500 pixels wide; here a page is given the width of a device, so that 400 are 400.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Seconds that the browser may take for one answer.
PATIENCE = 60


class BrowserError(Exception):
    """The browser does not do what it is told; the text says what it said."""


def find():
    """The path of a browser, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one page. A context manager; it ends with it."""

    def __init__(self, path, dark=False):
        self._profile = tempfile.mkdtemp(prefix="rpcordma-browser-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        # The protocol has it that the browser reads its fd 3 and writes to its fd 4.
        def place():
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self._log = open(os.path.join(self._profile, "log"), "w+b")
        # No sandbox, as root has none; and nothing of it speaks to the network by itself.
        self._process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             f"--user-data-dir={self._profile}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, close_fds=False, preexec_fn=place,
            pass_fds=(), start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._number, self._session = b"", 0, None
        self.events = []
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Network", "Runtime"):
                self.call(f"{domain}.enable")
            if dark:
                self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for end in (self._out, self._in):
            os.close(end)
        try:
            # It ends when its pipe does.
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def _gone(self, why):
        self._log.flush()
        self._log.seek(0)
        return BrowserError(f"{why}; it said: {self._log.read()[-600:].decode(errors='replace')}")

    def _next(self, until):
        """The next message, as an object."""
        while b"\0" not in self._buffer:
            if not select.select((self._in,), (), (), max(0, until - time.monotonic()))[0]:
                raise self._gone(f"the browser gave no answer within {PATIENCE} seconds")
            got = os.read(self._in, 1 << 16)
            if not got:
                raise self._gone("the browser ended")
            self._buffer += got
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        """What the browser answers to @method. Events that come meanwhile are kept in self.events."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        sent = json.dumps(message).encode() + b"\0"
        while sent:
            sent = sent[os.write(self._out, sent):]
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._next(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def wait_for(self, event):
        """Returns when @event, by name, has come since the last open()."""
        until = time.monotonic() + PATIENCE
        while not any(each["method"] == event for each in self.events):
            got = self._next(until)
            if "method" in got:
                self.events.append(got)

    def open(self, path, width, height=900):
        """Loads the file @path in a window of that many pixels. Returns the addresses that the page asked for."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.events = []
        self.call("Page.navigate", url=f"file://{path}")
        self.wait_for("Page.loadEventFired")
        # What scripts of the page do after loading.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")
        return [each["params"]["request"]["url"] for each in self.events
                if each["method"] == "Network.requestWillBeSent"]

    def run(self, script):
        """The value of a JavaScript expression, in the page."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{script[:80]}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def screenshot(self, path, whole=True):
        """Writes what the page looks like as a PNG; whole: all of it, not only what the window shows."""
        options = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options = {"captureBeyondViewport": True,
                       "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))
