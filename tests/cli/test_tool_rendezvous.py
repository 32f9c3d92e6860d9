# SPDX-License-Identifier: MIT
"""The rendezvous of weft serve: it tells the address to who asks, and nothing that comes there disturbs anybody."""
import contextlib
import os
import socket
import socketserver
import threading
import time

import common
import tool
from common import DONE, FAILED, TIMEOUT, USAGE
from tool import HELLO


class Rendezvous(tool.TestCase):
    def setUp(self):
        self.weft_server = self.serve("--rendezvous", "0")
        self.where = self.weft_server.rendezvous()
        host, port = self.where.rsplit(":", 1)
        self.place = host, int(port)

    def connect(self):
        client = socket.create_connection(self.place, timeout=common.WAIT)
        self.addCleanup(client.close)
        return client

    def read_all(self, client):
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while data := client.recv(4096):
                said += data
        return said

    def assert_tells(self):
        with self.connect() as client:
            self.assertEqual(self.read_all(client), self.weft_server.address.encode() + b"\n")

    def tearDown(self):
        # Whatever came, it is as it was before, and still does what it is for.
        self.assertEqual(self.answer(self.where), HELLO[::-1])
        self.weft_server.wait_statistics(lambda now: now["open"] == 0 and now["peers"] == 0, "all gone")
        self.end(self.weft_server)

    def test_it_is_on_loopback(self):
        self.assertEqual(self.place[0], "127.0.0.1")
        with open("/proc/net/tcp", encoding="ascii") as file:
            listening = [line.split()[1] for line in file if line.split()[3] == "0A"]
        self.assertIn(f"0100007F:{self.place[1]:04X}", listening)

    def test_every_command_asks_it(self):
        self.assertEqual(self.answer(self.where, "abc"), b"cba")
        self.assertEqual(self.answer(f"localhost:{self.place[1]}", "abc"), b"cba")
        self.assertEqual(self.weft("ping", "-c", "1", self.where)[0], DONE)
        self.assertEqual(self.document("ping", "-c", "1", self.where)["peer"]["address"], self.weft_server.address)
        self.assertEqual(self.weft("info", self.where)[0], DONE)

    def test_it_tells_and_closes(self):
        for _ in range(5):
            self.assert_tells()

    def test_clients_that_hold_it_open(self):
        # Far more than it has room for. Each is told at once, and each newcomer too.
        before = self.weft_server.statistics()["descriptors"]
        held = []
        for _ in range(200):
            held.append(self.connect())
        self.assert_tells()
        self.assertLess(self.weft_server.statistics()["descriptors"], before + 40)
        self.assertEqual(self.answer(self.where), HELLO[::-1])
        # Nobody closes; it does.
        self.weft_server.wait_statistics(lambda now: now["descriptors"] <= before, "its descriptors")
        for client in held:
            self.assertEqual(client.recv(400), self.weft_server.address.encode() + b"\n")

    def test_random_bytes(self):
        for size in 1, 100, 4096, 1000000:
            with self.connect() as client, contextlib.suppress(OSError):
                client.sendall(os.urandom(size))
            with self.connect() as client:
                with contextlib.suppress(OSError):
                    client.sendall(b"GET / HTTP/1.0\r\n\r\n" + os.urandom(size))
                    client.shutdown(socket.SHUT_WR)
                self.assertIn(self.read_all(client), (self.weft_server.address.encode() + b"\n", b""))

    def test_a_port_scanner(self):
        for _ in range(100):
            with socket.create_connection(self.place, timeout=common.WAIT) as client:
                # A reset instead of an end.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def test_a_flood_does_not_hold_up_others(self):
        stop = threading.Event()

        def flood():
            while not stop.is_set():
                with contextlib.suppress(OSError), socket.create_connection(self.place, timeout=1) as client:
                    client.sendall(b"x" * 100)
        threads = [threading.Thread(target=flood) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            self.assertEqual(self.weft("ping", "-c", "20", "-i", "10ms", self.weft_server.address)[0], DONE)
        finally:
            stop.set()
            for thread in threads:
                thread.join()


class FalseRendezvous(tool.TestCase):
    """What a client does where something else answers."""

    def answering(self, answer):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with contextlib.suppress(OSError):
                    answer(self.request)
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"127.0.0.1:{server.server_address[1]}"

    def refuses(self, answer, *words, status=FAILED):
        where = self.answering(answer)
        got, out, err = self.weft("send", "--timeout", "1s", where)
        self.assertEqual((got, out), (status, b""), err)
        self.assert_one_line(err, f"rendezvous {where}", *words)
        self.assertIn(words[0], self.document("send", "--timeout", "1s", where, status=status)["error"])

    def test_what_is_no_address(self):
        self.refuses(lambda s: s.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n"), "not weft serve", "'HTTP/1.0")
        self.refuses(lambda s: s.sendall(b"\x1b[31m\0\xff\n"), "not weft serve", r"\x1b[31m\x00\xff")
        self.refuses(lambda s: s.sendall(b"tcp://127.0.0.1:5 \n"), "not weft serve", "byte 17")
        self.refuses(lambda s: None, "not weft serve")
        self.refuses(lambda s: s.sendall(b"x" * 1000000), "not weft serve")

    def test_silence(self):
        def trickle(connection):
            # A byte now and then is no answer either.
            while True:
                connection.sendall(b"t")
                time.sleep(0.02)
        self.refuses(lambda s: s.recv(1), "no answer within", "write it with tcp://", status=TIMEOUT)
        self.refuses(trickle, "no answer within", status=TIMEOUT)

    def test_retry(self):
        port = common.free_port()
        client = self.start(common.Program, [tool.TOOL, "send", "--retry", "100", f"127.0.0.1:{port}"])
        client.err.wait("attempt 2 of 101")
        self.serve("--rendezvous", str(port))
        self.assertEqual(client.wait(), DONE, client.err.text())
        self.assertEqual(client.out.text(), HELLO.decode()[::-1])

    def test_the_port_is_taken(self):
        first = self.serve("--rendezvous", "0")
        status, out, err = self.weft("serve", "--rendezvous", first.rendezvous())
        self.assertEqual((status, out), (FAILED, b""))
        self.assert_one_line(err, "Address already in use")
        self.assertEqual(self.document("serve", "--rendezvous", "x", status=USAGE)["command"], "serve")


if __name__ == "__main__":
    common.main()
