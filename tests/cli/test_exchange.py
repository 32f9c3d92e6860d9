# SPDX-License-Identifier: MIT
"""The exchange that the reverse program is for, on each provider, with every kind of text."""
import re
import signal

import common
from common import DONE, USAGE


class Exchange:
    """What holds on every provider. The classes below say which one."""

    provider = None

    def setUp(self):
        self.reverse_server = self.server(self.provider)

    def check(self, text, shown, reply):
        """The server shows the text as `shown`, and the client shows `reply`; both its length."""
        client = self.exchange(self.reverse_server.address, text)
        size = len(text if isinstance(text, bytes) else text.encode())
        self.assertEqual(client.reply(), (size, reply))
        self.reverse_server.out.wait(
            rf"^message received from \S+ \(len={size}\): {re.escape(shown)}$")

    def test_hello(self):
        server = self.reverse_server
        client = self.exchange(server.address)
        self.assertEqual(client.reply(), (13, "!dlrow ,olleH"))
        own = client.out.wait(r"^own address: (\S+)$")[1]
        name = re.escape(own)
        server.out.wait(rf"^CONNECT received from {name}$")
        server.out.wait(rf"^message received from {name} \(len=13\): Hello, world!$")
        server.out.wait(rf"^reversed message sent to {name}$")
        client.out.wait(rf"^CONNECT sent to {re.escape(server.address)}$")
        client.out.wait(r"^message sent \(len=13\): Hello, world!$")
        for side in server, client:
            side.out.wait(rf"^provider: {self.provider}")
            side.out.wait(r"^domain: \S")
            side.out.wait(r"^fabric: \S")
        self.assertTrue(server.address.startswith(self.provider + "://"), server.address)

    def test_the_command_to_copy_works(self):
        command = self.reverse_server.out.wait(r"^a client is started by: (.*)$")[1]
        status, out, err = self.run_program("sh", "-c", command)
        self.assertEqual(status, DONE, err)
        self.assertIn("reply (len=13): !dlrow ,olleH", out)

    def test_empty(self):
        self.check("", "", "")

    def test_one_byte(self):
        self.check("x", "x", "x")

    def test_utf8_is_reversed_by_byte(self):
        self.check("é€😀", "é€😀", r"\x80\x98\x9f\xf0\xac\x82\xe2\xa9\xc3")

    def test_bytes_that_are_not_utf8(self):
        self.check(b"a\xff\xfe", r"a\xff\xfe", r"\xfe\xffa")

    def test_control_bytes_are_escaped(self):
        self.check("\x1b[31mred\n\t\\", r"\x1b[31mred\n\t\\", r"\\\t\nderm13[\x1b")

    def test_no_raw_control_byte_is_printed(self):
        self.exchange(self.reverse_server.address, "\x1b]0;title\x07\r\x7f\u009b\u202e")
        self.end(self.reverse_server)
        for line in self.reverse_server.out.list:
            self.assertTrue(line.isprintable(), ascii(line))

    def test_longest(self):
        text = "".join(chr(ord("a") + i % 26) for i in range(8191))
        self.check(text, text, text[::-1])

    def test_many_one_after_the_other(self):
        for i in range(8):
            self.check(f"number {i}", f"number {i}", f"number {i}"[::-1])
        self.assertEqual(self.reverse_server.statistics()["served"], 8)

    def test_too_long_is_refused_before_anything_is_sent(self):
        for size in 8192, 8193, 100000:
            status, out, err = self.run_program(
                common.REVERSE, self.reverse_server.address, "x" * size)
            self.assertEqual(status, USAGE)
            self.assertIn(f"{size} bytes", err)
            self.assertIn("8191", err)
            self.assertEqual(out, "")
        self.assertEqual(self.reverse_server.out.count("CONNECT"), 0)

    def tearDown(self):
        server = self.reverse_server
        if server.process.poll() is None:
            self.assertEqual(server.statistics()["receives"], 256)
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait(), DONE)


class Tcp(Exchange, common.TestCase):
    provider = "tcp"


class Shm(Exchange, common.TestCase):
    provider = "shm"


class Udp(Exchange, common.TestCase):
    provider = "udp"


if __name__ == "__main__":
    common.main()
