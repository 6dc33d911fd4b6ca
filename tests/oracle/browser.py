"""Headless Chromium, controlled with its DevTools protocol over two pipes: reads the content of a page and the messages of its console."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

import pytest

needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="SKIPPED: there is no chromium")


class Browser:
    """with Browser(folder) as browser: browser.open(url)."""

    def __init__(self, folder, width=1400, height=1000):
        self.folder, self.size, self.number, self.session, self.held, self.said, self.asked = folder, (width, height), 0, None, b"", [], []
        self.loaded = False

    def __enter__(self):
        to_read, self.to = os.pipe()
        self.got, to_write = os.pipe()

        def pipes():  # the browser reads from 3 and writes to 4
            read, write = os.dup(to_read), os.dup(to_write)
            os.dup2(read, 3)
            os.dup2(write, 4)

        # Other copies of the descriptors, above 4, are closed by close_fds.
        self.process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder}", f"--window-size={self.size[0]},{self.size[1]}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=pipes, pass_fds=(3, 4))
        os.close(to_read)
        os.close(to_write)
        try:
            self.enter()
        except BaseException:
            self.__exit__()
            raise
        return self

    def enter(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(domain + ".enable")

    def __exit__(self, *fault):
        os.close(self.to)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.got)

    def next(self, until):
        while b"\0" not in self.held:
            assert select.select([self.got], [], [], max(0, until - time.monotonic()))[0], "chromium does not answer"
            more = os.read(self.got, 1 << 20)
            assert more, "chromium has ended"
            self.held += more
        message, _, self.held = self.held.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.to, text):]
        until = time.monotonic() + 60
        while True:
            answer = self.next(until)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.hear(answer)

    def hear(self, event):
        """All that a console would show, and all that is asked of a network."""
        method = event.get("method")
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(event)
        if method == "Network.requestWillBeSent":
            self.asked.append(event["params"]["request"]["url"])
        self.loaded = self.loaded or method == "Page.loadEventFired"

    def open(self, url):
        self.asked, self.loaded = [], False
        self.call("Page.navigate", url=url)
        until = time.monotonic() + 60
        while not self.loaded:
            self.hear(self.next(until))

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, expression, seconds=60):
        """Until it is true."""
        until = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < until, f"never: {expression}"
            time.sleep(0.05)

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]))
