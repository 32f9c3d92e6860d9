# SPDX-License-Identifier: MIT
"""What the command-line tests share: programs as child processes whose output can be waited for.

Nothing here sleeps for a guessed time: every wait is for a line, an exit or a condition, with a
bound. Whatever a test starts is killed, by its process id, when the test ends.

WEFT_REVERSE and WEFT_HOSTILE name the programs; without them they are looked for under build/.
"""
import ctypes
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REVERSE = os.environ.get("WEFT_REVERSE", os.path.join(TOP, "build", "examples", "reverse"))
HOSTILE = os.environ.get("WEFT_HOSTILE", os.path.join(TOP, "build", "tests", "hostile"))

DONE, FAILED, USAGE, TIMEOUT, INTERRUPTED = 0, 1, 2, 3, 130

WAIT = 20  # seconds that a step may take which is quick on an idle machine


def environment(**changes):
    """The environment of every program: no libfabric settings but ours, and crashes that show."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("FI_")}
    env["IPATH_NO_BACKTRACE"] = "1"
    # A tcp endpoint takes 70 MiB without this and 18 MiB with it, at the same speed.
    env["FI_OFI_RXM_MSG_RX_SIZE"] = env["FI_OFI_RXM_MSG_TX_SIZE"] = "16"
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def libfabric_version():
    """The version of the libfabric that runs here, as (1, 17)."""
    number = ctypes.CDLL("libfabric.so.1").fi_version()
    return number >> 16, number & 0xffff


def shm_files(address):
    """The files in /dev/shm that belong to the endpoint with a shm:// address."""
    name = address.removeprefix("shm://")
    return sorted(file for file in os.listdir("/dev/shm") if file.startswith(name))


def free_port(kind=socket.SOCK_STREAM):
    """A port of the loopback interface that nobody uses now."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Lines:
    """The lines of a pipe, collected by a thread, so that the writer never has to wait."""

    def __init__(self, pipe):
        self.list = []
        self.ended = False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._collect, args=(pipe,), daemon=True)
        self.thread.start()

    def _collect(self, pipe):
        with pipe:
            for line in pipe:
                with self.changed:
                    self.list.append(line.rstrip(b"\n").decode("utf-8", "backslashreplace"))
                    self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def find(self, pattern, after=0):
        for line in self.list[after:]:
            match = re.search(pattern, line)
            if match:
                return match
        return None

    def count(self, pattern):
        with self.changed:
            return sum(1 for line in self.list if re.search(pattern, line))

    def wait(self, pattern, timeout=WAIT, after=0):
        """The match of the first line, from number `after` on, that has the pattern."""
        with self.changed:
            self.changed.wait_for(lambda: self.ended or self.find(pattern, after), timeout)
            match = self.find(pattern, after)
            if not match:
                raise AssertionError(f"no line with {pattern!r} in:\n" + self.tail())
            return match

    def wait_count(self, pattern, count, timeout=WAIT):
        """Waits until so many lines have the pattern."""
        def enough():
            return sum(1 for line in self.list if re.search(pattern, line)) >= count
        with self.changed:
            self.changed.wait_for(lambda: self.ended or enough(), timeout)
            if not enough():
                raise AssertionError(f"not {count} lines with {pattern!r} in:\n" + self.tail())

    def tail(self):
        return "\n".join(self.list[-30:])

    def text(self):
        self.thread.join(WAIT)
        return "\n".join(self.list)


class Program:
    """A child process with its output."""

    def __init__(self, command, stdin=False, **kwargs):
        kwargs.setdefault("env", environment())
        self.command = command
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)
        self.out = Lines(self.process.stdout)
        self.err = Lines(self.process.stderr)

    @property
    def pid(self):
        return self.process.pid

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        self.out.thread.join(WAIT)
        self.err.thread.join(WAIT)

    def wait(self, timeout=WAIT):
        """The exit status, negative for the number of the signal that ended it."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.command} still runs after {timeout} s; it said:\n"
                                 f"{self.out.tail()}\n{self.err.tail()}") from None

    def signal(self, number):
        self.process.send_signal(number)


class Server(Program):
    """A reverse server that is ready."""

    def __init__(self, provider, *options, prefix=(), **kwargs):
        super().__init__([*prefix, REVERSE, "--provider", provider, *options], **kwargs)
        try:
            self.address = self.out.wait(r"^address: (\S+)$")[1]
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"{error}\nstderr:\n" + self.err.tail()) from None

    def statistics(self):
        """What the server is asked for and prints, as a dictionary of numbers."""
        seen = len(self.out.list)
        self.signal(signal.SIGUSR1)
        line = self.out.wait(r"^statistics: (.*)$", after=seen)[1]
        return {name: int(value) for name, value in (pair.split("=") for pair in line.split())}

    def wait_statistics(self, condition, what, timeout=WAIT):
        """Asks for statistics until they meet the condition, or the time is up."""
        deadline = time.monotonic() + timeout
        while True:
            now = self.statistics()
            if condition(now):
                return now
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: still {now} after {timeout} s")
            time.sleep(0.05)  # between two questions, not for an answer


class Client(Program):
    """A reverse client."""

    def __init__(self, address, *text, options=(), prefix=(), **kwargs):
        super().__init__([*prefix, REVERSE, *options, address, *text], **kwargs)

    def reply(self):
        match = self.out.find(r"^reply \(len=(\d+)\): (.*)$")
        return (int(match[1]), match[2]) if match else None


class Hostile(Program):
    """The peer that sends what it is told to (hostile.c)."""

    def __init__(self, address, prefix=(), **kwargs):
        super().__init__([*prefix, HOSTILE, address], stdin=True, **kwargs)
        match = self.out.wait(r"^address (\S+) ([0-9a-f]+)$")
        self.address = match[1]
        self.raw = bytes.fromhex(match[2])

    def ask(self, line):
        seen = len(self.out.list)
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.out.wait("", after=seen).string

    def send(self, message, cookie=None):
        return self.ask(f"send {message.hex() or '-'}" + ("" if cookie is None else f" {cookie}"))

    def receive(self, ms=10000):
        """A message and its cookie, or None where there is one of the two only, or neither."""
        words = self.ask(f"receive {ms}").split()
        if words[0] != "received":
            return " ".join(words), None
        message = b"" if words[1] == "-" else bytes.fromhex(words[1])
        return message, int(words[2]) if len(words) > 2 else None

    def leave(self):
        self.process.stdin.close()
        return self.wait()


class TestCase(unittest.TestCase):
    """A test case that ends the programs it has started."""

    longMessage = True
    maxDiff = 4000
    variables = {}  # in the environment of every program, beside what common.environment() has

    def start(self, kind, *args, **kwargs):
        kwargs.setdefault("env", environment(**self.variables))
        program = kind(*args, **kwargs)
        self.addCleanup(program.kill)
        return program

    def server(self, provider, *options, **kwargs):
        return self.start(Server, provider, *options, **kwargs)

    def client(self, address, *text, **kwargs):
        return self.start(Client, address, *text, **kwargs)

    def run_program(self, *command, timeout=WAIT, **kwargs):
        program = self.start(Program, list(command), **kwargs)
        status = program.wait(timeout)
        return status, program.out.text(), program.err.text()

    def exchange(self, address, *text, **kwargs):
        """Runs a client that has to be answered. Returns the client."""
        client = self.client(address, *text, **kwargs)
        status = client.wait()
        self.assertEqual(status, DONE, f"{client.out.text()}\n{client.err.text()}")
        client.out.text()
        return client

    def assert_serves(self, server, text="still there?"):
        reply = self.exchange(server.address, text).reply()
        self.assertEqual(reply, (len(text), text[::-1]))

    def end(self, server):
        """Ends a server by SIGTERM, which has to go well."""
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), DONE, server.err.text())


def main():
    unittest.main(verbosity=2)
