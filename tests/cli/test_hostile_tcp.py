# SPDX-License-Identifier: MIT
"""Peers that do not keep to the rules, over tcp."""
import struct

import common
from common import DONE, TIMEOUT, Hostile
from hostile_rules import CONNECT, DATA, Rules, malformed_ip


class Tcp(Rules, common.TestCase):
    provider = "tcp"
    tells_sources = False

    def malformed_addresses(self, raw):
        return malformed_ip(raw)

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


class Server(common.TestCase):
    """A server that answers a good client with anything but the reply, or in another way."""

    def setUp(self):
        port = common.free_port()
        self.peer = self.start(Hostile, f"tcp://127.0.0.1:{port}")
        self.good = self.client(self.peer.address, "abc", options=(
            "--bind", f"127.0.0.1:{port}", "--timeout", "10s"))
        connect, self.cookie = self.peer.receive()
        self.assertEqual(connect[:1], CONNECT)
        self.assertEqual(struct.unpack("!H", connect[3:5])[0], port)
        self.assertEqual(self.peer.receive(), (DATA + b"abc", self.cookie))
        self.assertIsNotNone(self.cookie)

    def assert_answered_by(self, message, cookie):
        self.assertIsNone(self.good.process.poll())
        self.assertEqual(self.peer.send(message, cookie), "sent")
        self.assertEqual(self.good.wait(), DONE, self.good.err.text())
        self.good.out.text()
        self.assertEqual(self.good.reply(), (3, "cba"))

    def test_a_reply_with_the_cookie(self):
        self.assert_answered_by(DATA + b"cba", self.cookie)

    def test_a_reply_without_a_cookie(self):
        self.assert_answered_by(DATA + b"cba", None)

    def test_what_is_not_the_reply_is_dropped(self):
        wrong = [(b"", None), (b"\2cba", self.cookie), (CONNECT + self.peer.raw, self.cookie),
                 (DATA + b"stolen", self.cookie ^ 1)]
        for message, cookie in wrong:
            self.assertEqual(self.peer.send(message, cookie), "sent")
        self.good.err.wait_count("message dropped", len(wrong))
        self.assert_answered_by(DATA + b"cba", self.cookie)

    def test_no_reply_at_all(self):
        self.peer.kill()
        self.assertEqual(self.good.wait(), TIMEOUT)
        self.assertIn("no answer within 10 s, sent but not answered", self.good.err.text())


if __name__ == "__main__":
    common.main()
