# SPDX-License-Identifier: MIT
"""Peers that do not keep to the rules, or only just: the server answers whom it can, drops and
counts the rest, keeps its receives posted, and serves the next good client."""
import signal
import struct
import unittest

import common
from common import Hostile

CONNECT, DATA = b"\0", b"\1"
RECEIVES = 256


class Rules:
    """What holds on every provider. The classes below say which one."""

    provider = None

    def setUp(self):
        self.reverse_server = self.server(self.provider, "--idle", "30s")

    def tearDown(self):
        """Whatever a test has done, the server goes on, with all its receives."""
        server = self.reverse_server
        self.assert_serves(server)
        statistics = server.statistics()
        self.assertEqual(statistics["receives"], RECEIVES, statistics)
        self.end(server)

    def hostile(self):
        return self.start(Hostile, self.reverse_server.address)

    def connected(self, peer, cookie=None):
        """Sends CONNECT, and waits until the server has dealt with it."""
        seen = len(self.reverse_server.out.list)
        self.assertEqual(peer.send(CONNECT + peer.raw, cookie), "sent")
        self.reverse_server.out.wait(rf"^CONNECT received from {peer.address}$", after=seen)

    def assert_counted(self, **expected):
        """Waits until the statistics have these values, and no higher ones."""
        def reached(now):
            return all(now[name] >= value for name, value in expected.items())
        now = self.reverse_server.wait_statistics(reached, f"waiting for {expected}")
        self.assertEqual({name: now[name] for name in expected}, expected)

    def test_the_cookie_comes_back(self):
        peer = self.hostile()
        for cookie in 0, 1, 0x80000000, 0xffffffff:
            self.connected(peer, cookie)
            self.assertEqual(peer.send(DATA + b"abc", cookie), "sent")
            self.assertEqual(peer.receive(), (DATA + b"cba", cookie))
        self.assert_counted(served=4, clients=4, peers=1, malformed=0, unmatched=0)

    def test_a_client_without_a_cookie_is_known_by_its_source(self):
        peer = self.hostile()
        self.connected(peer)
        for text in b"abc", b"", b"12":
            self.assertEqual(peer.send(DATA + text), "sent")
            self.assertEqual(peer.receive(), (DATA + text[::-1], None))
        self.assert_counted(served=3, clients=1, peers=1, malformed=0, unmatched=0)

    def test_a_cookie_that_is_new_is_answered_by_the_source(self):
        peer = self.hostile()
        self.connected(peer)
        peer.send(DATA + b"abc", 77)
        self.assertEqual(peer.receive(), (DATA + b"cba", 77))

    def test_data_before_connect_is_answered_after_it(self):
        peer = self.hostile()
        peer.send(DATA + b"early", 5)
        self.assert_counted(clients=1, peers=0, served=0)
        self.connected(peer, 5)
        self.assertEqual(peer.receive(), (DATA + b"ylrae", 5))
        self.assert_counted(clients=1, peers=1, served=1, unmatched=0)

    def test_only_one_data_is_held_for_a_cookie(self):
        peer = self.hostile()
        for text in b"first", b"second", b"third":
            peer.send(DATA + text, 5)
        self.assert_counted(unmatched=2)
        self.connected(peer, 5)
        self.assertEqual(peer.receive(), (DATA + b"tsrif", 5))
        peer.send(DATA + b"fourth", 5)
        self.assertEqual(peer.receive(), (DATA + b"htruof", 5))

    def test_data_that_nobody_can_be_answered_for_is_dropped(self):
        peer = self.hostile()
        for _ in range(3):
            self.assertEqual(peer.send(DATA + b"who am I"), "sent")
        self.assert_counted(unmatched=3, clients=0, peers=0, served=0)
        self.assertEqual(peer.receive(0)[0], "nothing")

    def test_data_is_held_for_a_bounded_number_of_cookies(self):
        peer = self.hostile()
        for cookie in range(100):
            peer.send(DATA + b"early", cookie)
        self.assert_counted(clients=64, unmatched=36, buffers=RECEIVES + 64)
        self.connected(peer, 63)
        self.assertEqual(peer.receive(), (DATA + b"ylrae", 63))

    def test_connect_twice(self):
        peer = self.hostile()
        for _ in range(3):
            self.connected(peer, 9)
        self.assert_counted(clients=1, peers=1, malformed=0)
        peer.send(DATA + b"abc", 9)
        self.assertEqual(peer.receive(), (DATA + b"cba", 9))
        self.assertEqual(peer.receive(0)[0], "nothing")

    def test_a_cookie_cannot_be_taken_over(self):
        peer, thief = self.hostile(), self.hostile()
        self.connected(peer, 9)
        thief.send(CONNECT + thief.raw, 9)
        self.assert_counted(malformed=1, clients=1, peers=1)
        peer.send(DATA + b"abc", 9)
        self.assertEqual(peer.receive(), (DATA + b"cba", 9))
        self.assertEqual(thief.receive(0)[0], "nothing")

    def malformed(self):
        peer_raw = self.own_raw
        return [
            b"",
            b"\2" + peer_raw,
            b"\xff",
            CONNECT,
            CONNECT + b"\0",
            CONNECT + peer_raw[:-1] if self.provider != "shm" else CONNECT + b"/",
            CONNECT + peer_raw + b"x",
            CONNECT + bytes(len(peer_raw)),
            CONNECT + b"\xff" * len(peer_raw),
            CONNECT + b"\xff" * 128,
            CONNECT + b"\xff" * 129,
            CONNECT + b"x" * 8191,
            *self.malformed_addresses(peer_raw),
        ]

    def malformed_addresses(self, _raw):
        return []

    def test_malformed_messages_are_dropped_and_counted(self):
        peer = self.hostile()
        self.own_raw = peer.raw
        count = 0
        for message in self.malformed():
            for cookie in None, 5:
                self.assertEqual(peer.send(message, cookie), "sent")
                count += 1
        self.assert_counted(malformed=count, clients=0, peers=0, unmatched=0)
        self.connected(peer, 5)
        peer.send(DATA + b"abc", 5)
        self.assertEqual(peer.receive(), (DATA + b"cba", 5))

    def test_messages_that_are_too_long(self):
        for size in 8193, 20000, 65536:
            peer = self.hostile()
            for _ in range(3):
                peer.send(DATA + b"x" * (size - 1), 5)
            # What became of it differs: an error, a broken connection, a message cut short.
            self.assert_serves(self.reverse_server)
            peer.kill()
        self.reverse_server.wait_statistics(lambda now: now["receives"] == RECEIVES, "receives")

    def test_more_data_than_is_read(self):
        peer = self.hostile()
        self.connected(peer, 5)
        for i in range(600):
            if peer.send(DATA + b"%d" % i, 5) != "sent":
                break
        self.assert_serves(self.reverse_server)

    def test_a_peer_that_is_killed_with_its_answers_under_way(self):
        peer = self.hostile()
        self.connected(peer, 5)
        for _ in range(100):
            peer.send(DATA + b"x" * 4000, 5)
        peer.kill()
        self.assert_serves(self.reverse_server)


class Tcp(Rules, common.TestCase):
    provider = "tcp"

    def malformed_addresses(self, raw):
        port_and_rest = raw[2:]
        return [CONNECT + address for address in (
            struct.pack("=H", 77) + port_and_rest,          # a family that does not exist
            struct.pack("=H", 1) + port_and_rest,           # a local socket
            raw[:2] + b"\0\0" + raw[4:],                    # port 0
            raw[:4] + bytes(4) + raw[8:],                   # 0.0.0.0
            raw[:8] + b"\1" + raw[9:],                      # padding that is not zero
            struct.pack("=H", 10) + raw[2:4] + bytes(4) + bytes(15) + b"\1" + bytes(4),  # IPv6
        )]

    def test_made_up_addresses_fill_no_table(self):
        server, peer = self.reverse_server, self.hostile()
        for i in range(4200):
            address = peer.raw[:2] + struct.pack("!H", 1 + i) + peer.raw[4:]
            self.assertEqual(peer.send(CONNECT + address, i), "sent")
        server.wait_statistics(lambda now: now["clients"] == 4096, "clients")
        self.connected(peer, 5000)
        peer.send(DATA + b"abc", 5000)
        self.assertEqual(peer.receive(), (DATA + b"cba", 5000))
        now = server.statistics()
        self.assertEqual((now["clients"], now["failed"], now["malformed"]), (4096, 0, 0))


class Shm(Rules, common.TestCase):
    provider = "shm"

    def malformed_addresses(self, raw):
        return [CONNECT + address for address in (
            b"../../etc/passwd\0",
            b"weft-\x1b[31m\0",
            b"weft\0weft\0",
        )]

    def test_made_up_addresses_fill_no_table(self):
        # The provider takes 256 peers, ever fewer than there may be clients.
        server, peer = self.reverse_server, self.hostile()
        for i in range(600):
            self.assertEqual(peer.send(CONNECT + b"weft-%016x\0" % i, i), "sent")
        self.connected(peer, 5000)
        peer.send(DATA + b"abc", 5000)
        self.assertEqual(peer.receive(), (DATA + b"cba", 5000))
        now = server.statistics()
        self.assertLess(now["clients"], 256)
        self.assertEqual((now["failed"], now["malformed"]), (0, 0))


class Udp(Rules, common.TestCase):
    provider = "udp"
    malformed_addresses = Tcp.malformed_addresses


class Idle(common.TestCase):
    """Clients that go without a word are forgotten, with all that they have cost."""

    def check(self, provider):
        server = self.server(provider, "--idle", "1s", "--timeout", "2s")
        before = server.statistics()
        peers = [self.start(Hostile, server.address) for _ in range(3)]
        for number, peer in enumerate(peers):
            peer.send(CONNECT + peer.raw, number)
            peer.send(DATA + b"abc", number)
            self.assertEqual(peer.receive(), (DATA + b"cba", number))
            peer.send(DATA + b"early", 100 + number)
        now = server.wait_statistics(lambda now: now["clients"] == 0, "clients")
        # The early DATA came from known sources, so it was answered like the rest.
        self.assertEqual(now["served"], 6)
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

    def test_a_held_data_expires(self):
        server = self.server("shm", "--idle", "500ms")
        peer = self.start(Hostile, server.address)
        peer.send(DATA + b"early", 5)
        now = server.wait_statistics(lambda now: now["unmatched"] == 1, "unmatched")
        self.assertEqual((now["clients"], now["buffers"]), (0, RECEIVES))
        # A CONNECT that comes too late finds nothing to be answered.
        peer.send(CONNECT + peer.raw, 5)
        server.out.wait("^CONNECT received")
        self.assertEqual(server.statistics()["served"], 0)

    def test_one_who_goes_on_sending_is_not_forgotten(self):
        server = self.server("shm", "--idle", "1s")
        peer = self.start(Hostile, server.address)
        peer.send(CONNECT + peer.raw, 5)
        started = common.time.monotonic()
        while common.time.monotonic() < started + 2.5:
            peer.send(DATA + b"abc", 5)
            self.assertEqual(peer.receive(), (DATA + b"cba", 5))
            peer.receive(200)
        self.assertEqual(server.out.count("^CONNECT received"), 1)
        self.assertEqual(server.statistics()["unmatched"], 0)


if __name__ == "__main__":
    common.main()
