# SPDX-License-Identifier: MIT
"""Signals and lost terminals: each end is clean, with the exit status that is promised, and leaves
nothing in /dev/shm; a crash is seen as a crash."""
import signal
import subprocess
import tempfile

import common
from common import DONE, FAILED, INTERRUPTED, shm_files

PROVIDERS = ("tcp", "shm", "udp")


class Signals(common.TestCase):
    def assert_clean(self, address):
        if address.startswith("shm://"):
            self.assertEqual(shm_files(address), [])

    def end_by(self, server, number):
        if server.address.startswith("shm://"):
            self.assertNotEqual(shm_files(server.address), [])  # what is looked for can be found
        said = server.out.count("^statistics: ")
        server.signal(number)
        self.assertEqual(server.wait(), DONE, server.err.text())
        server.out.wait_count("^statistics: ", said + 1)
        self.assert_clean(server.address)

    def test_server(self):
        for provider in PROVIDERS:
            for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
                with self.subTest(provider=provider, signal=number.name):
                    server = self.server(provider)
                    self.assert_serves(server)
                    self.end_by(server, number)

    def test_server_under_nohup(self):
        for provider in PROVIDERS:
            for number in signal.SIGINT, signal.SIGTERM:
                with self.subTest(provider=provider, signal=number.name):
                    server = self.server(provider, prefix=["nohup"])
                    server.signal(signal.SIGHUP)
                    # It was sent SIGHUP before, so that one is over when this is answered.
                    server.statistics()
                    self.assert_serves(server)
                    self.end_by(server, number)

    def test_server_that_inherits_ignored_signals(self):
        # As of a shell script's background jobs; SIGINT has to end them all the same.
        def ignore():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        for provider in "tcp", "shm":
            server = self.server(provider, preexec_fn=ignore)
            self.end_by(server, signal.SIGINT)

    def test_two_signals_at_once(self):
        for provider in PROVIDERS:
            server = self.server(provider)
            server.signal(signal.SIGTERM)
            server.signal(signal.SIGINT)
            self.assertEqual(server.wait(), DONE, server.err.text())
            self.assert_clean(server.address)

    def test_client(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            for address in "shm://weft-0000000000000000", "tcp://127.0.0.1:9":
                with self.subTest(address=address, signal=number.name):
                    client = self.client(address, options=("--timeout", "1m"))
                    own = client.out.wait(r"^own address: (\S+)$")[1]
                    client.signal(number)
                    self.assertEqual(client.wait(), INTERRUPTED, client.err.text())
                    self.assert_clean(own)

    def test_statistics_on_demand_harm_nothing(self):
        server = self.server("tcp")
        for i in range(20):
            self.assertEqual(server.statistics()["served"], i // 10)
            if i == 9:
                self.assert_serves(server)
        self.end(server)

    def test_output_that_nobody_reads(self):
        for provider in "tcp", "shm":
            process = subprocess.Popen([common.REVERSE, "--provider", provider],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=common.environment())
            self.addCleanup(process.stderr.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            for line in process.stdout:
                if line.startswith(b"address: "):
                    address = line.split()[1].decode()
                if line.startswith(b"a client is started by"):
                    break
            process.stdout.close()
            # The server learns of it when it has something to say.
            client = self.client(address, options=("--timeout", "2s"))
            client.wait()
            self.assertEqual(process.wait(common.WAIT), FAILED)
            self.assertIn(b"standard output", process.stderr.read())
            self.assert_clean(address)


class Crash(common.TestCase):
    """A crash of the program has to be seen as one, whatever libraries do with its signals."""

    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)

    def test_a_crash_is_seen(self):
        for number in signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL:
            for guard in "1", None:
                with self.subTest(signal=number.name, guard=guard):
                    # Sanitizers take these signals too; here they are not to.
                    env = common.environment(
                        IPATH_NO_BACKTRACE=guard,
                        ASAN_OPTIONS="handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_abort=0",
                        UBSAN_OPTIONS="handle_segv=0:handle_sigbus=0:handle_sigill=0"
                                      ":handle_abort=0",
                        TSAN_OPTIONS="handle_segv=0:handle_sigbus=0:handle_sigill=0"
                                     ":handle_abort=0")
                    # Whatever a crash leaves behind is not to stay.
                    server = self.server("tcp", env=env, cwd=self.place.name)
                    server.signal(number)
                    self.assertEqual(server.wait(), -number)


if __name__ == "__main__":
    common.main()
