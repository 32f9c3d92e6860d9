# SPDX-License-Identifier: MIT
"""Clients that go without a word are forgotten, with all that they have cost."""
import time

import common
from common import Hostile
from hostile_rules import CONNECT, DATA, RECEIVES


class Forget(common.TestCase):
    def check(self, provider):
        server = self.server(provider, "--idle", "1s", "--timeout", "2s")
        before = server.statistics()
        peers = [self.start(Hostile, server.address) for _ in range(3)]
        for number, peer in enumerate(peers):
            peer.send(CONNECT + peer.raw, number)
            peer.send(DATA + b"abc", number)
            self.assertEqual(peer.receive(), (DATA + b"cba", number))
        now = server.wait_statistics(lambda now: now["clients"] == 0, "clients")
        self.assertEqual((now["served"], now["peers"]), (3, 0))
        # What was not silent but killed is forgotten just as well.
        for number, peer in enumerate(peers):
            peer.send(CONNECT + peer.raw, number)
        server.out.wait_count("^CONNECT received", 6)
        for peer in peers:
            peer.kill()
        same = ("receives", "buffers", "peers", "operations", "held", "clients", "descriptors")
        server.wait_statistics(
            lambda now: all(now[name] == before[name] for name in same), f"back to {before}")

    def test_tcp(self):
        self.check("tcp")

    def test_shm(self):
        self.check("shm")

    def test_udp(self):
        self.check("udp")

    def test_a_data_after_the_silence_is_not_answered(self):
        server = self.server("tcp", "--idle", "1s")
        peer = self.start(Hostile, server.address)
        peer.send(CONNECT + peer.raw, 5)
        server.out.wait("^CONNECT received")
        server.wait_statistics(lambda now: now["clients"] == 0, "clients")
        peer.send(DATA + b"late", 5)
        # It is held for a CONNECT, which does not come a second time.
        now = server.wait_statistics(lambda now: now["unmatched"] == 1, "unmatched")
        self.assertEqual((now["clients"], now["served"]), (0, 0))

    def test_a_held_data_expires(self):
        server = self.server("shm", "--idle", "1s")
        peer = self.start(Hostile, server.address)
        for cookie in range(64):  # as many as are held
            peer.send(DATA + b"early", cookie)
        now = server.wait_statistics(lambda now: now["unmatched"] == 64, "unmatched")
        self.assertEqual((now["clients"], now["buffers"]), (0, RECEIVES))
        # A CONNECT that comes too late finds nothing to be answered.
        peer.send(CONNECT + peer.raw, 5)
        server.out.wait("^CONNECT received")
        self.assertEqual(server.statistics()["served"], 0)
        # There is room again for another one.
        peer.send(DATA + b"early", 99)
        peer.send(CONNECT + peer.raw, 99)
        self.assertEqual(peer.receive(), (DATA + b"ylrae", 99))

    def test_one_who_goes_on_sending_is_not_forgotten(self):
        server = self.server("shm", "--idle", "1s")
        peer = self.start(Hostile, server.address)
        peer.send(CONNECT + peer.raw, 5)
        started = time.monotonic()
        while time.monotonic() < started + 2.5:
            peer.send(DATA + b"abc", 5)
            self.assertEqual(peer.receive(), (DATA + b"cba", 5))
            peer.receive(200)
        self.assertEqual(server.out.count("^CONNECT received"), 1)
        self.assertEqual(server.statistics()["unmatched"], 0)


if __name__ == "__main__":
    common.main()
