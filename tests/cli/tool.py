# SPDX-License-Identifier: MIT
"""What the tests of the command weft share. WEFT_TOOL names it; without that it is looked for under build/."""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import common
from common import DONE, WAIT

TOOL = os.environ.get("WEFT_TOOL", os.path.join(common.TOP, "build", "tool", "weft"))
HELLO = b"Hello, world!"
# libfabric's own leaks on EFA, software or not, are passed over.
SOFTWARE_VARIABLES = {"LSAN_OPTIONS": "print_suppressions=0:suppressions=" +
                      os.path.join(common.TOP, "softefa", "tests", "lsan.supp")}


def softefa():
    """The command that makes an EFA device of software, or None. It is built after the tests, beside the tool."""
    path = os.path.join(os.path.dirname(os.path.dirname(TOOL)), "softefa", "softefa")
    return path if os.path.exists(path) else None


def numbers(line):
    """The NAME=NUMBER words of a line, as a dictionary."""
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}


def parse(text):
    """The one JSON document that text has to be, by Python, and by jq where that is installed."""
    document = json.loads(text)
    assert text.isascii() and text.endswith("\n"), text
    if shutil.which("jq"):
        said = subprocess.run(["jq", "-c", "."], input=text, capture_output=True, text=True, timeout=WAIT, check=True)
        assert said.stdout.count("\n") == 1, said.stdout
    return document


def wait_until(condition, what, timeout=WAIT):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} after {timeout} s")
        time.sleep(0.02)  # between two looks


class Serve(common.Program):
    """A server that is ready."""

    def __init__(self, *options, prefix=(), wait=True, **kwargs):
        super().__init__([*prefix, TOOL, "serve", *options], **kwargs)
        self.address = None
        if wait:
            try:
                # On stderr, where it is with --json too.
                self.address = self.err.wait(r"a client is started by: (?:\S+ )+send '(\S+)'")[1]
            except AssertionError:
                self.kill()
                raise

    def rendezvous(self):
        return self.err.wait(r"^weft: rendezvous at (\S+)$")[1]

    def statistics(self):
        """What the server is asked for and says."""
        seen = len(self.err.list)
        self.signal(signal.SIGUSR1)
        self.err.wait(r"^weft: in use: ", after=seen)
        return numbers(" ".join(line for line in self.err.list[seen:] if re.match("weft: (statistics|in use): ", line)))

    def wait_statistics(self, condition, what, timeout=WAIT):
        deadline = time.monotonic() + timeout
        while True:
            now = self.statistics()
            if condition(now):
                return now
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: still {now} after {timeout} s")
            time.sleep(0.05)  # between two questions, not for an answer


class Terminal:
    """A pseudo-terminal, to be given to a program as one of its descriptors."""

    def __init__(self):
        self.outer, self.inner = pty.openpty()
        self.bytes = b""

    def read_until(self, done, timeout=WAIT):
        """Reads until done(all that came) or the other end is closed."""
        deadline = time.monotonic() + timeout
        while not done(self.bytes) and time.monotonic() < deadline:
            if not select.select([self.outer], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.outer, 65536)
            except OSError:
                data = b""
            if not data:
                break
            self.bytes += data
        return self.bytes

    def close_inner(self):
        if self.inner >= 0:
            os.close(self.inner)
        self.inner = -1

    def close(self):
        self.close_inner()
        os.close(self.outer)


class TestCase(common.TestCase):
    def serve(self, *options, **kwargs):
        return self.start(Serve, *options, **kwargs)

    def weft(self, *args, stdin=b"", timeout=WAIT, prefix=(), env=None, **kwargs):
        """Runs the command to its end. Returns its status, and the bytes of its stdout and stderr."""
        kwargs.setdefault("stdout", subprocess.PIPE)
        done = subprocess.run([*prefix, TOOL, *args], input=stdin, stderr=subprocess.PIPE, timeout=timeout,
                              env=env or common.environment(**self.variables), check=False, **kwargs)
        return done.returncode, done.stdout, done.stderr.decode("utf-8", "backslashreplace")

    def document(self, *args, status=DONE, **kwargs):
        """Runs the command with --json, and returns its document, which has to agree with its status."""
        if "--json" not in args:
            args = *args, "--json"
        got, out, err = self.weft(*args, **kwargs)
        self.assertEqual(got, status, f"{args}: {out} {err}")
        document = parse(out.decode())
        self.assertEqual(document["status"], status)
        self.assertEqual(document["ok"], status == DONE)
        if status == DONE:
            self.assertIsNone(document["error"])
        return document

    def answer(self, *args, **kwargs):
        status, out, err = self.weft("send", *args, **kwargs)
        self.assertEqual(status, DONE, err)
        return out

    def assert_serves(self, server, text="still there?"):
        self.assertEqual(self.answer(server.address, text), text.encode()[::-1])

    def assert_one_line(self, err, *words):
        """One line that tells what is wrong; what the command opened may be told before."""
        before = r"weft: (provider |warning: |serving |this address )"
        lines = [line for line in err.splitlines() if not re.match(before, line)]
        self.assertEqual(len(lines), 1, err)
        self.assertTrue(lines[0].startswith("weft: "), err)
        for word in words:
            self.assertIn(word, lines[0])
