# SPDX-License-Identifier: MIT
"""The examples of layer 2: chat, epoll, many and sendfile, over tcp and shm."""
import os
import re
import tempfile

import common
from common import DONE, FAILED, USAGE

EXAMPLES = os.path.join(common.TOP, "build", "examples")
CHAT = os.environ.get("WEFT_CHAT", os.path.join(EXAMPLES, "chat"))
EPOLL = os.environ.get("WEFT_EPOLL", os.path.join(EXAMPLES, "epoll"))
MANY = os.environ.get("WEFT_MANY", os.path.join(EXAMPLES, "many"))
SENDFILE = os.environ.get("WEFT_SENDFILE", os.path.join(EXAMPLES, "sendfile"))


class Example(common.Program):
    """An example with its standard input as a pipe."""

    def __init__(self, *command, **kwargs):
        super().__init__(list(command), stdin=True, **kwargs)

    def address(self):
        return self.out.wait(r"^address: (\S+)$")[1]

    def type(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        return self.wait()


class Examples:
    """What holds on every provider. The classes below say which one."""

    provider = None
    prefix = ()

    def example(self, program, *args, listens=True):
        options = ["-p", self.provider] if listens else []
        return self.start(Example, *self.prefix, program, *options, *args)

    def plain(self, *command):
        env = common.environment(PROVIDER=self.provider)
        return self.start(common.Program, list(command), env=env)

    def pair(self, program):
        """One that waits, and one that has connected to it."""
        a = self.example(program)
        return a, self.example(program, a.address(), listens=False)

    def talk(self):
        a, b = self.pair(CHAT)
        for side in a, b:
            side.out.wait(rf"^connected: {self.provider}://")
        return a, b

    def test_sendfile(self):
        with tempfile.TemporaryDirectory() as folder:
            there, here = os.path.join(folder, "there"), os.path.join(folder, "here")
            content = os.urandom(5 * 1024 * 1024 + 1)
            with open(here, "wb") as file:
                file.write(content)
            receiver = self.plain(SENDFILE, there)
            address = receiver.out.wait(r"^(\w+://\S+)$")[1]
            sender = self.plain(SENDFILE, here, address)
            self.assertEqual(sender.wait(), DONE, sender.err.text())
            self.assertEqual(receiver.wait(), DONE, receiver.err.text())
            with open(there, "rb") as file:
                self.assertEqual(file.read(), content)

    def test_chat(self):
        a, b = self.talk()
        for i in range(3):
            a.type(f"from a {i}\n".encode())
            b.out.wait(rf"^> from a {i}$")
            b.type(f"from b {i}\n".encode())
            a.out.wait(rf"^> from b {i}$")
        # What was typed before the end arrives before it, also a line without its end.
        a.type(b"and\nover")
        self.assertEqual(a.end(), DONE, a.err.text())
        self.assertEqual(b.wait(), DONE, b.err.text())
        self.assertEqual(b.out.text().splitlines()[-3:-1], ["> and", "> over"])
        b.out.wait(r"^over: the other side says: closed$")

    def test_chat_is_closed_by_who_waited_or_who_came(self):
        for first in 0, 1:
            pair = self.talk()
            self.assertEqual(pair[first].end(), DONE)
            self.assertEqual(pair[1 - first].wait(), DONE)

    def test_chat_shows_no_control_byte(self):
        a, b = self.talk()
        b.type("\x1b]0;title\x07\x1b[31m \u202e é\\\n".encode() + b"\xff\n")
        a.out.wait(r"^> \\xff$")
        lines = a.out.list[-2:]
        self.assertEqual(lines[0], r"> \x1b]0;title\x07\x1b[31m \xe2\x80\xae é" + "\\\\")
        for line in lines:
            self.assertTrue(line.isprintable(), ascii(line))

    def test_chat_is_for_two(self):
        a, b = self.talk()
        third = self.example(CHAT, a.address(), listens=False)
        self.assertEqual(third.wait(), FAILED)
        self.assertIn("not connected: the other side says: the program refuses", third.err.text())
        a.type(b"still there?\n")
        b.out.wait(r"^> still there\?$")

    def test_chat_takes_a_file(self):
        a = self.example(CHAT)
        lines = [f"{i} " + "x" * (i * 7 % 3000) for i in range(2000)]
        b = self.example(CHAT, a.address(), listens=False)
        b.type("\n".join(lines).encode())
        self.assertEqual(b.end(), DONE, b.err.text())
        self.assertEqual(a.wait(), DONE, a.err.text())
        shown = [line[2:] for line in a.out.text().splitlines() if line.startswith("> ")]
        # A line that is too long comes in pieces.
        self.assertEqual("".join(shown), "".join(lines))

    def test_epoll(self):
        a, b = self.pair(EPOLL)
        for side in a, b:
            side.out.wait(r"^peers: 1$")
            side.out.wait(r"^> hello$")
        a.type(b"one\ntwo\n")
        b.out.wait(r"^> one\\ntwo\\n$")
        b.out.wait(r"^> 2 lines so far$")
        a.out.wait(r"^> 0 lines so far$")
        c = self.example(EPOLL, a.address(), listens=False)
        a.out.wait(r"^peers: 2$")
        c.out.wait(r"^> 2 lines so far$")
        self.assertEqual(b.end(), DONE)
        a.out.wait_count(r"^peers: 1$", 2)
        a.err.wait(r"^epoll: a peer is gone: the other side says: the program is shutting down")
        self.assertEqual(a.end(), DONE)
        c.out.wait(r"^peers: 0$")

    def test_many_servers(self):
        servers = [self.example(MANY) for _ in range(4)]
        client = self.example(MANY, "-n", "500", *[server.address() for server in servers], listens=False)
        self.assertEqual(client.wait(), DONE, client.err.text())
        client.out.wait_count(r"^peer \d, .*: closed, asked 500, answered 500$", 4)
        client.out.wait(r"^peers: 4, failed: 0$")
        for server in servers:
            server.out.wait(r"^peer 1, .*: closed, asked 500, answered 500$")
            self.assertEqual(server.end(), DONE)

    def test_many_clients(self):
        server = self.example(MANY)
        address = server.address()
        clients = [self.example(MANY, "-n", "100", address, listens=False) for _ in range(8)]
        for client in clients:
            self.assertEqual(client.wait(), DONE, client.err.text())
        server.out.wait_count(r"^peer \d, .*: closed, asked 100, answered 100$", 8)
        self.assertEqual(server.end(), DONE)
        server.out.wait(r"^peers: 8, failed: 0$")


class Tcp(Examples, common.TestCase):
    provider = "tcp"

    def test_nobody_is_there(self):
        address = f"tcp://127.0.0.1:{common.free_port()}"
        for program, args in (CHAT, [address]), (MANY, ["-n", "1", address]):
            gone = self.example(program, *args, listens=False)
            self.assertEqual(gone.wait(), FAILED)
            self.assertIn("never connected", gone.err.text())

    def test_chat_binds_where_it_is_told(self):
        port = common.free_port()
        a = self.start(Example, CHAT, "-p", "tcp", "-b", f"127.0.0.1:{port}")
        self.assertEqual(a.address(), f"tcp://127.0.0.1:{port}")
        b = self.example(CHAT, a.address(), listens=False)
        b.out.wait("^connected: ")
        self.assertEqual(b.end(), DONE, b.err.text())

    def test_a_server_that_is_killed(self):
        a, b = self.talk()
        a.process.kill()
        self.assertEqual(b.wait(60), FAILED)
        self.assertRegex(b.err.text(), r"over: .+")

    def test_wrong_usage(self):
        for program in CHAT, EPOLL, MANY, SENDFILE:
            # To sendfile, one word is the name of a file.
            for args in *([["nonsense"]] if program != SENDFILE else []), ["-p", "tcp", "tcp://127.0.0.1:1", "x"], \
                    ["-z"], ["--help"]:
                with self.subTest(program=program, args=args):
                    status, out, err = self.run_program(program, *args)
                    self.assertEqual((status, out), (USAGE, ""))
                    self.assertTrue(re.search("usage|address|option", err), err)
                    if args == ["--help"]:
                        self.assertTrue(err.startswith("usage: "), err)


class Shm(Examples, common.TestCase):
    provider = "shm"


if __name__ == "__main__":
    common.main()
