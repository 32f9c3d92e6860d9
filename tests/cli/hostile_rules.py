# SPDX-License-Identifier: MIT
"""What a server does with peers that do not keep to the rules, or only just: it answers whom it
can, drops and counts the rest, keeps its receives posted, and serves the next good client. The tests
themselves are in test_hostile_*.py, one for each provider."""
import struct

from common import Hostile

CONNECT, DATA = b"\0", b"\1"
RECEIVES = 256


def malformed_ip(raw):
    """CONNECTs like that of an endpoint with the raw address `raw`, each with something wrong."""
    return [CONNECT + address for address in (
        struct.pack("=H", 77) + raw[2:],  # a family that does not exist
        struct.pack("=H", 1) + raw[2:],   # a local socket
        raw[:2] + b"\0\0" + raw[4:],      # port 0
        raw[:4] + bytes(4) + raw[8:],     # 0.0.0.0
        struct.pack("=H", 10) + raw[2:4] + bytes(4) + bytes(15) + b"\1" + bytes(4),  # IPv6
    )]


class Rules:
    """What holds on every provider. A subclass says which one."""

    provider = None
    tells_sources = True  # whether the server learns from the provider whom a message is from

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
        """Waits until the statistics have these values. What only grows must not go beyond."""
        def reached(now):
            # Peers that were refused leave when the provider has let go of them.
            return all(now[name] == value if name == "peers" else now[name] >= value
                       for name, value in expected.items())
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
            if self.tells_sources:
                self.assertEqual(peer.receive(), (DATA + text[::-1], None))
        answered = 3 if self.tells_sources else 0
        self.assert_counted(served=answered, unmatched=3 - answered, clients=1, malformed=0)

    def test_a_cookie_that_is_new_is_answered_by_the_source(self):
        peer = self.hostile()
        self.connected(peer)
        peer.send(DATA + b"abc", 77)
        if self.tells_sources:
            self.assertEqual(peer.receive(), (DATA + b"cba", 77))
            self.assert_counted(clients=1, served=1)
        else:
            self.assert_counted(clients=2, served=0)  # it waits for a CONNECT of its own

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

    def malformed(self, peer_raw):
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
        count = 0
        for message in self.malformed(peer.raw):
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
