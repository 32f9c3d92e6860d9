# SPDX-License-Identifier: MIT
"""weft serve and weft send: what is sent comes back, byte for byte, on each provider and in every way of giving it."""
import os
import random
import re
import signal
import subprocess
import tempfile
import unittest

import common
import tool
from common import DONE, FAILED, USAGE
from tool import HELLO


class Exchange:
    """What holds on every provider. The classes below say which one."""

    provider = None

    def test_hello(self):
        server = self.serve("--provider", self.provider, "-v")
        self.assertEqual(server.out.wait("").string, server.address)
        status, out, err = self.weft("send", "-v", server.address)
        self.assertEqual((status, out), (DONE, HELLO[::-1]), err)
        own = re.search(r"^weft: provider (\S+), domain (\S+), fabric (\S+), address (\S+)$", err, re.M)
        self.assertTrue(own[1].startswith(self.provider), own[1])
        self.assertIn(f"connected to {server.address}", err)
        self.assertIn("weft: message sent (len=13): Hello, world!\n", err)
        self.assertIn("weft: reply (len=13): !dlrow ,olleH\n", err)
        self.assertIn("warning: both ends are on this host", err)
        server.err.wait(rf"^weft: CONNECT received from {re.escape(own[4])}, ")
        server.err.wait(rf"^weft: message received from {re.escape(own[4])} \(len=13\): Hello, world!$")
        server.err.wait(rf"^weft: reversed message sent to {re.escape(own[4])} \(len=13\)$")
        server.err.wait(r"^weft: warning: both ends are on this host")
        # A client that is done is no fault.
        server.err.wait(rf"^weft: session with {re.escape(own[4])} ended: the client is done$")
        self.end(server)
        server.err.wait(r"^weft: statistics: sessions=1 open=0 messages=1 bytes=13 replies=1 failed=0 ")
        self.assertEqual(server.out.list, [server.address])

    def test_services(self):
        data = bytes(range(256)) * 8
        for service, answer in ("reverse", data[::-1]), ("echo", data), ("discard", b""):
            server = self.serve("--provider", self.provider, "--service", service)
            self.assertEqual(self.answer(server.address, "-", stdin=data), answer)
            self.end(server)

    def test_messages(self):
        server = self.serve("--provider", self.provider)
        for text in "", "x", "é€😀", "\x1b[31mred\r\n\t\\", "a b", "-", "--help", "x" * 3000:
            args = ["--", server.address, text] if text != "-" else ["--", server.address, "--"]
            text = text if text != "-" else "--"
            self.assertEqual(self.answer(*args), text.encode()[::-1])
        self.assertEqual(self.answer(server.address, b"a\xff\xfe"), b"\xfe\xffa")
        self.assertEqual(self.answer("--count", "3", server.address, "ab"), b"bababa")
        self.assertEqual(self.answer("--no-reply", server.address, "ab"), b"")

    def test_documents(self):
        server = self.serve("--provider", self.provider, "--service", "echo", "--json")
        document = self.document("send", server.address, "tést")
        self.assertEqual(document["reply"], "tést")
        self.assertEqual((document["messages"], document["replies"]), (1, 1))
        self.assertEqual((document["sent_bytes"], document["received_bytes"]), (5, 5))
        self.assertEqual(document["peer"]["address"], server.address)
        self.assertIs(document["peer"]["same_host"], True)
        self.assertTrue(document["local"]["provider"].startswith(self.provider))
        self.assertIn("both ends are on this host", " ".join(document["warnings"]))
        document = self.document("send", server.address, b"\xff\x00\xfe"[:1])
        self.assertEqual(document["reply_base64"], "/w==")
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), DONE)
        document = tool.parse(server.out.text() + "\n")
        self.assertTrue(document["interrupted"])
        self.assertEqual(document["statistics"]["messages"], 2)
        self.assertEqual(document["statistics"]["failed"], 0)
        self.assertEqual(document["local"]["address"], server.address)

    def test_once(self):
        server = self.serve("--provider", self.provider, "--once")
        self.assertEqual(self.answer(server.address), HELLO[::-1])
        self.assertEqual(server.wait(), DONE, server.err.text())


class Tcp(Exchange, tool.TestCase):
    provider = "tcp"

    def test_who_can_reach_it_is_told(self):
        server = self.serve("--provider", "tcp")
        server.err.wait("^weft: this address is reached from this host only; for others: --bind IP or INTERFACE$")

    def test_what_is_of_no_session_is_told(self):
        server = self.serve("--provider", "tcp", "-v")
        status, _, _ = self.run_program(common.REVERSE, "--timeout", "300ms", server.address)
        self.assertEqual(status, common.TIMEOUT)
        server.err.wait(r"^weft: \d+ messages were not of weft's protocol, and were dropped: ")
        self.assert_serves(server)


class Shm(Exchange, tool.TestCase):
    provider = "shm"


class Files(tool.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, name, size, seed=1):
        with open(self.path(name), "wb") as file:
            file.write(random.Random(seed).randbytes(size))
        return self.path(name)

    def assert_same(self, one, other):
        with open(one, "rb") as first, open(other, "rb") as second:
            self.assertEqual(first.read() == second.read(), True, "the files differ")

    def test_ten_megabytes(self):
        source = self.make("in", (10 << 20) + 17)
        for provider in "tcp", "shm":
            server = self.serve("--provider", provider, "--service", "echo")
            document = self.document("send", "--file", source, "--output", self.path("out"), server.address,
                                     timeout=60)
            self.assert_same(source, self.path("out"))
            self.assertEqual(document["messages"], 11)
            self.assertEqual(document["received_bytes"], (10 << 20) + 17)
            with open(source, "rb") as file:
                self.assertEqual(self.answer(server.address, "-", stdin=file.read(), timeout=60) ==
                                 open(source, "rb").read(), True)
            self.end(server)

    def test_what_went_to_a_file_is_summed_up(self):
        source = self.make("in", 100000)
        server = self.serve("--service", "echo")
        args = "--file", source, "--output", self.path("out"), server.address
        status, out, err = self.weft("send", *args)
        self.assertEqual((status, out), (DONE, b""), err)
        self.assertRegex(err, r"(?m)^weft: 97\.7 KiB sent, 97\.7 KiB received in .*, now in " + self.path("out") + "$")
        self.assertNotIn("received in", self.weft("send", "--quiet", *args)[2])
        self.assertNotIn("received in", self.weft("send", server.address)[2])

    def test_messages_are_cut_to_what_the_peer_takes(self):
        source = self.make("in", 100000)
        server = self.serve("--service", "echo", "--max-message", "1000")
        document = self.document("send", "--file", source, "--output", self.path("out"), server.address)
        self.assertEqual(document["messages"], 100)
        self.assert_same(source, self.path("out"))
        status, _, err = self.weft("send", server.address, "x" * 1001)
        self.assertEqual(status, USAGE)
        self.assert_one_line(err, "1001", "1000", "--file")
        status, _, err = self.weft("ping", "-c", "1", "-s", "1001", server.address)
        self.assertEqual(status, USAGE)
        self.assert_one_line(err, "--size", "1000")

    def test_sizes_around_a_message(self):
        server = self.serve("--service", "echo", "--max-message", "1000")
        # Two times over, so that the end of the first is seen as well as that of all; windows are passed, too.
        for size in 0, 1, 999, 1000, 1001, 8000, 8001:
            source = self.make("in", size, size)
            self.weft("send", "--count", "2", "-f", source, "-o", self.path("out"), server.address)
            with open(source, "rb") as one, open(self.path("out"), "rb") as other:
                self.assertEqual(one.read() * 2 == other.read(), True, size)

    def test_output_replaces_the_file_with_its_mode(self):
        server = self.serve("--service", "echo")
        with open(self.path("out"), "w", encoding="ascii") as file:
            file.write("what was there before and is longer")
        os.chmod(self.path("out"), 0o640)
        os.symlink("out", self.path("link"))
        status, out, err = self.weft("send", "-o", self.path("link"), server.address, "new")
        self.assertEqual((status, out), (DONE, b""), err)
        with open(self.path("out"), encoding="ascii") as file:
            self.assertEqual(file.read(), "new")
        self.assertEqual(os.stat(self.path("out")).st_mode & 0o777, 0o640)
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertEqual(sorted(os.listdir(self.folder)), ["link", "out"])

    def test_the_input_may_be_the_output(self):
        source = self.make("both", 5000)
        with open(source, "rb") as file:
            before = file.read()
        server = self.serve()
        self.assertEqual(self.weft("send", "-f", source, "-o", source, server.address)[0], DONE)
        with open(source, "rb") as file:
            self.assertEqual(file.read() == before[::-1], True)

    def test_full_disk(self):
        server = self.serve("--service", "echo")
        status, _, err = self.weft("send", "-o", "/dev/full", server.address)
        self.assertEqual(status, FAILED)
        self.assert_one_line(err, "/dev/full", "No space left")
        with open("/dev/full", "wb") as full:
            status, _, err = self.weft("send", server.address, stdout=full)
        self.assertEqual(status, FAILED)
        self.assert_one_line(err, "standard output", "No space left")
        document = self.document("send", "-o", "/dev/full", server.address, status=FAILED)
        self.assertIn("No space left", document["error"])
        self.assertEqual(document["replies"], 1)
        self.assert_serves_echo(server)

    def assert_serves_echo(self, server):
        self.assertEqual(self.answer(server.address, "abc"), b"abc")

    @unittest.skipIf(os.geteuid() != 0, "mounting takes root")
    def test_full_disk_leaves_the_old_file(self):
        server = self.serve("--service", "echo")
        source = self.make("in", 300000)
        script = (f'mount -t tmpfs -o size=100k tmpfs "{self.folder}/disk" && echo old >"{self.folder}/disk/out" && '
                  f'"{tool.TOOL}" send -f "{source}" -o "{self.folder}/disk/out" {server.address}; echo $?; '
                  f'cat "{self.folder}/disk/out"; ls "{self.folder}/disk"')
        os.mkdir(self.path("disk"))
        status, out, err = self.run_program("unshare", "--mount", "sh", "-c", script)
        self.assertEqual((status, out), (DONE, "1\nold\nout"), err)
        self.assertIn("No space left", err)

    def test_closed_pipe(self):
        server = self.serve("--service", "echo")
        source = self.make("in", 1000000)
        status, out, err = self.run_program(
            "bash", "-c", f'"{tool.TOOL}" send -f "{source}" {server.address} | head -c 1000 | wc -c; '
                          'echo ${PIPESTATUS[0]}')
        self.assertEqual((status, out), (DONE, "1000\n1"), err)
        self.assertIn("Broken pipe", err)
        self.assert_serves_echo(server)

    def test_a_reader_that_takes_its_time(self):
        # More than pipes and windows hold; nothing is read until the program has to wait for it.
        server = self.serve("--service", "echo", "--max-message", "64k")
        source = self.make("in", 3000000)
        process = subprocess.Popen([tool.TOOL, "send", "-t", "1s", "-f", source, server.address],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=common.environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        # Its time to wait for the peer passes twice meanwhile, but the peer is not what it waits for.
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(2.2)
        with open(source, "rb") as file:
            self.assertEqual(process.stdout.read() == file.read(), True)
        process.stdout.close()
        self.assertEqual(process.wait(common.WAIT), DONE)

    def test_input_that_comes_slowly(self):
        server = self.serve()
        client = self.start(common.Program, [tool.TOOL, "send", "-v", "-t", "1s", server.address, "-"], stdin=True)
        client.err.wait("connected to")
        # Longer than the time that the peer has for an answer: it is asked nothing yet.
        with self.assertRaises(AssertionError):
            client.wait(1.5)
        client.process.stdin.write(b"abc")
        client.process.stdin.close()
        self.assertEqual(client.wait(), DONE, client.err.text())
        self.assertEqual(client.out.text(), "cba")

    def test_the_document_takes_a_megabyte(self):
        server = self.serve("--service", "echo")
        document = self.document("send", "--file", self.make("in", 1200000), server.address, status=USAGE)
        self.assertIn("--output", document["error"])

    def test_address_file(self):
        server = self.serve("--address-file", self.path("address"))
        with open(self.path("address"), encoding="ascii") as file:
            self.assertEqual(file.read(), server.address + "\n")
        self.end(server)
        self.assertEqual(os.listdir(self.folder), [])


class Terminals(tool.TestCase):
    def terminal(self):
        terminal = tool.Terminal()
        self.addCleanup(terminal.close)
        return terminal

    def send_to(self, terminal, *args):
        process = subprocess.Popen([tool.TOOL, "send", *args], stdout=terminal.inner, stderr=subprocess.DEVNULL,
                                   stdin=subprocess.DEVNULL, env=common.environment())
        terminal.close_inner()
        shown = terminal.read_until(lambda _: False)
        self.assertEqual(process.wait(common.WAIT), DONE)
        return shown.replace(b"\r\n", b"\n")

    def test_a_newline_and_no_control_bytes(self):
        server = self.serve("--service", "echo")
        for text, shown in (("abc", b"abc\n"), ("abc\n", b"abc\n"), ("", b""), ("a\tb\\", b"a\tb\\\n"),
                            ("\x1b[31mred\x07\u202e", rb"\x1b[31mred\x07\xe2\x80\xae" + b"\n"),
                            ("é" * 1500, "é".encode() * 1500 + b"\n")):
            self.assertEqual(self.send_to(self.terminal(), server.address, text), shown)

    def test_progress(self):
        server = self.serve("--service", "echo")
        terminal = self.terminal()
        reader, writer = os.pipe()
        process = subprocess.Popen([tool.TOOL, "send", server.address, "-"], stdin=reader, stdout=subprocess.DEVNULL,
                                   stderr=terminal.inner, env=common.environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        terminal.close_inner()
        os.close(reader)
        os.write(writer, b"x" * 5000)
        # It shows within the second after the first one, without anything happening.
        terminal.read_until(lambda seen: seen.count(b"\x1b[K") >= 3)
        os.close(writer)
        self.assertEqual(process.wait(common.WAIT), DONE)
        self.assertRegex(terminal.bytes.decode(), "\r0 bytes  0 bytes/s\x1b\\[K")
        self.assertIn("4.9 KiB", terminal.read_until(lambda _: False).decode())

    def test_no_progress_where_it_is_not_wanted(self):
        server = self.serve("--service", "echo")
        client = self.start(common.Program, [tool.TOOL, "send", server.address, "-"], stdin=True)
        client.err.wait("both ends")
        with self.assertRaises(AssertionError):
            client.wait(1.5)
        client.process.stdin.close()
        self.assertEqual(client.wait(), DONE)
        self.assertNotIn("\r", client.err.text())


class Software(tool.TestCase):
    """On EFA made of software."""

    variables = tool.SOFTWARE_VARIABLES

    def setUp(self):
        self.softefa = tool.softefa()
        if not self.softefa:
            self.skipTest("softefa is not built")

    def test_efa(self):
        softefa = self.softefa
        server = self.serve("--provider", "efa", "-v", prefix=[softefa])
        self.assertRegex(server.address, r"^efa://[0-9a-f]{64}$")
        status, out, err = self.weft("send", "-v", server.address, prefix=[softefa], timeout=60)
        self.assertEqual((status, out), (DONE, HELLO[::-1]), err)
        self.assertRegex(err, r"provider efa, domain softefa0-rdm, NIC softefa0 \(speed not known\), fabric efa")
        self.assertIn("warning: a software device (softefa), not EFA hardware", err)
        self.assertIn("both ends are on this host", err)
        bare = server.address.removeprefix("efa://")
        self.assertEqual(self.answer(bare, "abc", prefix=[softefa], timeout=60), b"cba")
        self.end(server)

    def test_the_command_to_copy_works(self):
        server = self.serve(prefix=[self.softefa])
        command = server.err.wait(r"a client is started by: (.*)$")[1]
        self.assertEqual(command, f"{self.softefa} {tool.TOOL} send '{server.address}' 'Hello, world!'")
        status, out, err = self.run_program("sh", "-c", command)
        self.assertEqual((status, out), (DONE, HELLO.decode()[::-1]), err)
        server.err.wait("this host only; for others: SOFTEFA_BIND=IP$")

    def test_it_is_no_hardware(self):
        document = self.document("info", prefix=[self.softefa])
        chosen = document["candidates"][0]
        self.assertEqual((chosen["nic"], chosen["reason"], chosen["link_bps"]),
                         ("softefa0", "a software device (softefa), not EFA hardware", None))
        status, _, err = self.weft("info", "--require", "rdma", prefix=[self.softefa])
        self.assertEqual(status, FAILED)
        self.assertIn("not EFA hardware: refused, since 'rdma' is required", err)
        document = self.document("info", "--require", "rdma", "--domain", "softefa0-rdm", "-v", prefix=[self.softefa])
        self.assertEqual(document["local"]["caveat"], "a software device (softefa), not EFA hardware")


if __name__ == "__main__":
    common.main()
