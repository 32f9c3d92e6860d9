# SPDX-License-Identifier: MIT
"""Clients whose server is not there, not there yet, or silent: each ends in time and says why."""
import os
import socket
import subprocess
import time
import unittest

import common
from common import DONE, TIMEOUT, free_port

SLACK = 2.0  # seconds that a process may take to start and to end


class Namespace:
    """A network namespace with an interface whose neighbour swallows all that is sent to it."""

    def __init__(self):
        self.name = f"weft-test-{os.getpid()}"
        subnet = f"10.213.{os.getpid() % 250}"
        self.own, self.hole = f"{subnet}.1", f"{subnet}.2"
        self._ip("netns", "add", self.name)
        try:
            self._inside("link", "set", "lo", "up")
            self._inside("link", "add", "hole0", "type", "veth", "peer", "name", "hole1")
            self._inside("addr", "add", f"{self.own}/24", "dev", "hole0")
            self._inside("link", "set", "hole0", "up")
            self._inside("link", "set", "hole1", "up")
            # An address that is not the far end's: without an ARP answer, connecting would fail.
            self._inside("neigh", "add", self.hole, "lladdr", "02:00:00:00:00:99",
                         "dev", "hole0", "nud", "permanent")
        except subprocess.CalledProcessError:
            self.remove()
            raise

    @staticmethod
    def _ip(*args):
        subprocess.run(["ip", *args], check=True, capture_output=True, timeout=common.WAIT)

    def _inside(self, *args):
        self._ip("-n", self.name, *args)

    @property
    def prefix(self):
        return ["ip", "netns", "exec", self.name]

    def remove(self):
        self._ip("netns", "del", self.name)


class Unreachable(common.TestCase):
    def assert_gives_up(self, address, words, options=("--timeout", "2s"), seconds=2, prefix=()):
        started = time.monotonic()
        client = self.client(address, options=options, prefix=prefix)
        status = client.wait(seconds + 10)
        took = time.monotonic() - started
        self.assertEqual(status, TIMEOUT, client.err.text())
        self.assertIn(f"no answer within {seconds} s, {words}", client.err.text())
        self.assertIsNone(client.reply())
        self.assertGreaterEqual(took, seconds)
        self.assertLess(took, seconds + SLACK)

    def test_closed_port_with_the_default_timeout(self):
        self.assert_gives_up(f"tcp://127.0.0.1:{free_port()}", "never connected",
                             options=(), seconds=5)

    def test_absent_shm_name(self):
        self.assert_gives_up("shm://weft-0000000000000000", "never connected")

    def test_closed_udp_port(self):
        self.assert_gives_up(f"udp://127.0.0.1:{free_port(socket.SOCK_DGRAM)}", "never connected")

    @unittest.skipIf(os.geteuid() != 0, "making a network namespace takes root")
    def test_black_hole(self):
        namespace = Namespace()
        self.addCleanup(namespace.remove)
        self.assert_gives_up(f"tcp://{namespace.hole}:4567", "never connected",
                             prefix=namespace.prefix)

    def test_a_server_that_is_gone(self):
        for provider, kill in ("tcp", False), ("tcp", True), ("shm", False):
            server = self.server(provider)
            if kill:
                server.kill()
            else:
                self.end(server)
            self.assert_gives_up(server.address, "never connected")

    def test_a_server_that_never_answers(self):
        # The peer takes what comes, as it polls in order to receive, and says nothing.
        for provider in "tcp", "shm", "udp":
            silent = self.start(common.Hostile, self.server(provider).address)
            client = self.client(silent.address, options=("--timeout", "2s"))
            first, _ = silent.receive()
            second, _ = silent.receive()
            self.assertEqual(first[0], 0)
            self.assertEqual(second, b"\x01Hello, world!")
            silent.receive(3000)
            self.assertEqual(client.wait(), TIMEOUT)
            self.assertIn("no answer within 2 s, sent but not answered", client.err.text())

    def test_timeouts_of_less_than_a_second_are_named_as_such(self):
        client = self.client("shm://weft-0000000000000000", options=("--timeout", "250ms"))
        self.assertEqual(client.wait(), TIMEOUT)
        self.assertIn("no answer within 250 ms, never connected", client.err.text())

    def test_the_server_may_come_later(self):
        port = free_port()
        client = self.client(f"tcp://127.0.0.1:{port}", options=("--timeout", "20s"))
        client.out.wait("^own address: ")
        # Three seconds without a server is what is tested, and nothing tells when they are over.
        time.sleep(3)
        self.assertIsNone(client.process.poll())
        server = self.server("tcp", "--bind", f"127.0.0.1:{port}")
        self.assertEqual(server.address, f"tcp://127.0.0.1:{port}")
        self.assertEqual(client.wait(), DONE, client.err.text())
        client.out.text()
        self.assertEqual(client.reply(), (13, "!dlrow ,olleH"))


if __name__ == "__main__":
    common.main()
