# SPDX-License-Identifier: MIT
"""How weft ends: by signals, by time, by the other side; each with its status, its one document, and nothing left."""
import os
import signal
import socket
import subprocess
import tempfile
import time

import common
import tool
from common import DONE, FAILED, INTERRUPTED, TIMEOUT, shm_files

NOWHERE = "tcp://127.0.0.1:9"
SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def is_in_open(pid):
    """Whether a process sleeps in open(2) of a pipe."""
    with open(f"/proc/{pid}/wchan", encoding="ascii") as file:
        return "wait_for_partner" in file.read()


class Signals(tool.TestCase):
    def test_serve(self):
        for provider in "tcp", "shm":
            for number in SIGNALS:
                with self.subTest(provider=provider, signal=number.name):
                    server = self.serve("--provider", provider, "-v")
                    self.assert_serves(server)
                    server.signal(number)
                    self.assertEqual(server.wait(), DONE, server.err.text())
                    server.err.wait("^weft: statistics: ")
                    self.assertEqual(shm_files(server.address), [])

    def test_send_that_connects(self):
        for number in SIGNALS:
            for address in NOWHERE, "shm://weft-0000000000000000":
                with self.subTest(address=address, signal=number.name):
                    client = self.start(common.Program, [tool.TOOL, "send", "-v", "-t", "1m", "--json", address])
                    own = client.err.wait(r"^weft: provider .* address (\S+)$")[1]
                    client.err.wait("^weft: connecting")
                    client.signal(number)
                    self.assertEqual(client.wait(), INTERRUPTED, client.err.text())
                    document = tool.parse(client.out.text() + "\n")
                    self.assertEqual((document["interrupted"], document["status"]), (True, INTERRUPTED))
                    self.assertEqual(shm_files(own), [])

    def test_send_that_waits_for_input(self):
        server = self.serve()
        for args in ("-",), ("--file", "/dev/stdin"):
            client = self.start(common.Program, [tool.TOOL, "send", "-v", "--json", server.address, *args],
                                stdin=True)
            client.err.wait("^weft: connected")
            client.signal(signal.SIGINT)
            self.assertEqual(client.wait(), INTERRUPTED, client.err.text())
            self.assertTrue(tool.parse(client.out.text() + "\n")["interrupted"])

    def test_send_that_opens_a_pipe(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            client = self.start(common.Program, [tool.TOOL, "send", "--json", "--file", pipe, NOWHERE])
            # It waits in open(2) for another end.
            tool.wait_until(lambda: is_in_open(client.pid), "it does not wait for the pipe")
            client.signal(signal.SIGINT)
            self.assertEqual(client.wait(), INTERRUPTED, client.err.text())
            self.assertTrue(tool.parse(client.out.text() + "\n")["interrupted"])

    def test_send_at_the_rendezvous_and_between_attempts(self):
        port = common.free_port()
        client = self.start(common.Program, [tool.TOOL, "send", "--json", "--retry", "1000", f"127.0.0.1:{port}"])
        client.err.wait("trying again")
        client.signal(signal.SIGINT)
        self.assertEqual(client.wait(), INTERRUPTED, client.err.text())
        self.assertTrue(tool.parse(client.out.text() + "\n")["interrupted"])

    def test_each_at_a_rendezvous_that_does_not_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            target = "127.0.0.1:%d" % listener.getsockname()[1]
            for command in "send", "ping", "info":
                for number in SIGNALS:
                    with self.subTest(command=command, signal=number.name):
                        client = self.start(common.Program, [tool.TOOL, command, "--json", target])
                        with listener.accept()[0]:
                            client.signal(number)
                            self.assertEqual(client.wait(), INTERRUPTED, client.err.text())
                        document = tool.parse(client.out.text() + "\n")
                        self.assertEqual((document["command"], document["interrupted"], document["status"]),
                                         (command, True, INTERRUPTED))

    def test_serve_under_nohup(self):
        server = self.serve(prefix=["nohup"])
        server.signal(signal.SIGHUP)
        # It was sent SIGHUP before, so that one is over when this is answered.
        server.statistics()
        self.assert_serves(server)
        self.end(server)

    def test_serve_that_inherits_ignored_signals(self):
        def ignore():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        server = self.serve(preexec_fn=ignore)
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), DONE)

    def test_a_crash_is_seen(self):
        for number in signal.SIGSEGV, signal.SIGABRT:
            for guard in "1", None:
                server = self.serve(env=common.environment(
                    IPATH_NO_BACKTRACE=guard, ASAN_OPTIONS="handle_segv=0:handle_abort=0",
                    UBSAN_OPTIONS="handle_segv=0:handle_abort=0", TSAN_OPTIONS="handle_segv=0:handle_abort=0"))
                server.signal(number)
                self.assertEqual(server.wait(), -number)


class Failures(tool.TestCase):
    def assert_gives_up(self, address, seconds, *words):
        started = time.monotonic()
        status, out, err = self.weft("send", "--timeout", f"{int(seconds * 1000)}ms", address)
        self.assertEqual((status, out), (TIMEOUT, b""), err)
        self.assertGreaterEqual(time.monotonic() - started, seconds)
        self.assert_one_line(err, *words)
        self.assertIn(words[0], self.document("send", "-t", f"{int(seconds * 1000)}ms", address,
                                              status=TIMEOUT)["error"])

    def test_nobody_there(self):
        self.assert_gives_up(NOWHERE, 1, "no answer from tcp://127.0.0.1:9 within 1 s, never connected")
        self.assert_gives_up("shm://weft-0000000000000000", 0.3, "within 300 ms, never connected")

    def test_a_server_that_is_stopped(self):
        server = self.serve()
        client = self.start(common.Program, [tool.TOOL, "send", "-v", "-t", "2s", server.address, "-"], stdin=True)
        client.err.wait("^weft: connected")
        server.signal(signal.SIGSTOP)
        try:
            client.process.stdin.write(b"abc")
            client.process.stdin.close()
            self.assertEqual(client.wait(), TIMEOUT, client.err.text())
        finally:
            server.signal(signal.SIGCONT)
        client.err.wait("^weft: no answer from .* within 2 s, connected, 0 of 1 messages answered")
        self.assert_serves(server)

    def test_a_server_that_is_gone(self):
        server = self.serve()
        client = self.start(common.Program, [tool.TOOL, "send", "-v", "-t", "5s", server.address, "-"], stdin=True)
        client.err.wait("^weft: connected")
        self.end(server)
        self.assertEqual(client.wait(), FAILED, client.err.text())
        client.err.wait("^weft: lost tcp://127.0.0.1:.*: .*shutting down")
        self.assertEqual(client.out.text(), "")

    def test_a_server_that_is_full(self):
        server = self.serve("--max-peers", "1")
        first = self.start(common.Program, [tool.TOOL, "send", "-v", server.address, "-"], stdin=True)
        first.err.wait("^weft: connected")
        status, _, err = self.weft("send", server.address)
        self.assertEqual(status, FAILED, err)
        self.assert_one_line(err, "cannot connect to", "--max-peers")
        first.process.stdin.close()
        self.assertEqual(first.wait(), DONE)
        self.assertEqual(self.answer("--retry", "5", server.address, "ab"), b"ba")

    def test_once_refuses_others(self):
        server = self.serve("--once")
        first = self.start(common.Program, [tool.TOOL, "send", "-v", server.address, "-"], stdin=True)
        first.err.wait("^weft: connected")
        status, _, err = self.weft("send", server.address)
        self.assertEqual(status, FAILED, err)
        self.assert_one_line(err, "cannot connect to", "--once")
        first.process.stdin.close()
        self.assertEqual(first.wait(), DONE)
        self.assertEqual(server.wait(), DONE, server.err.text())

    def test_once_tells_of_a_bad_end(self):
        server = self.serve("--once", "--json")
        client = self.start(common.Program, [tool.TOOL, "ping", server.address])
        client.out.wait("seq=1 ")
        client.kill()
        # Another process at the same address, or a long silence, would tell. So does the provider where it can.
        server.signal(signal.SIGTERM)
        self.assertIn(server.wait(), (DONE, FAILED))
        self.assertEqual(tool.parse(server.out.text() + "\n")["command"], "serve")

    def test_output_of_serve_that_nobody_reads(self):
        reader, writer = os.pipe()
        os.close(reader)
        process = subprocess.run([tool.TOOL, "serve"], stdout=writer, stderr=subprocess.PIPE, timeout=common.WAIT,
                                 env=common.environment(), check=False)
        os.close(writer)
        self.assertEqual(process.returncode, FAILED)
        self.assertIn(b"standard output: Broken pipe", process.stderr)


if __name__ == "__main__":
    common.main()
