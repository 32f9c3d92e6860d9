# SPDX-License-Identifier: MIT
"""Peers that fail: each is told by EFA's code and in plain words, within the deadline, and nobody else is harmed."""
import os
import random
import signal
import socket
import tempfile
import time

import device  # first: it knows where the others are
import common
from hostile_rules import CONNECT, DATA

GONE = r"\(EFA code 9\); .* process is gone, or was restarted"
SILENT = (r"\(EFA code 13\); .* (has stopped: its host is down|never answered)|"
          r"\(EFA code 4126\); .* its process never answered|"
          r"\(EFA code 4124\); .* answered before and does not any more")
DEADLINE = 5  # seconds that the reverse client gives itself


class Failures(device.TestCase):
    def fails(self, address, words, **kwargs):
        """A client that has to fail with these words and in time."""
        start = time.monotonic()
        client = self.efa_client(address, **kwargs)
        self.assertEqual(client.wait(), common.FAILED, client.out.text() + client.err.text())
        took = time.monotonic() - start
        client.err.wait(words)
        # Beside the deadline, the time to start a process on a busy machine.
        self.assertLess(took, DEADLINE + 5)
        return took

    def test_killed(self):
        server = self.efa_server()
        other = self.efa_server()
        self.efa_exchange(server.address)
        server.kill()
        self.fails(server.address, GONE)
        self.assert_serves(other)

    def test_stopped_and_resumed(self):
        server = self.efa_server()
        self.stop(server)
        self.fails(server.address, SILENT)
        server.signal(signal.SIGCONT)
        self.assert_serves(server)

    def test_stopped_in_the_midst(self):
        server = self.efa_server()
        client = self.efa_client(server.address, "x" * 8000, env={"SOFTEFA_LOSS": "100"})
        self.assertEqual(client.wait(), common.FAILED)
        client.err.wait(SILENT)
        self.assert_serves(server)

    def test_restarted_in_the_same_place_with_another_key(self):
        port = common.free_port(socket.SOCK_DGRAM)
        first = self.efa_server(env={"SOFTEFA_QPN": str(port)})
        first.kill()
        second = self.efa_server(env={"SOFTEFA_QPN": str(port)})
        was, now = device.parts(first.address), device.parts(second.address)
        self.assertEqual((was[:2], now[1]), (now[:2], port))
        self.assertNotEqual(was[2], now[2])
        self.fails(first.address, GONE)
        self.assert_serves(second)

    def test_wrong_queue_number(self):
        server = self.efa_server()
        qpn = common.free_port(socket.SOCK_DGRAM)
        self.assertLess(self.fails(device.with_qpn(server.address, qpn), GONE), DEADLINE)
        self.assert_serves(server)

    def test_another_fabric(self):
        server = self.efa_server()
        address = server.address.replace("5efa0000", "8129efff")
        client = self.efa_client(address)
        self.assertEqual(client.wait(), common.FAILED, client.out.text())
        self.assert_serves(server)

    def test_link_down_and_up(self):
        with tempfile.TemporaryDirectory() as folder:
            switch = os.path.join(folder, "down")
            server = self.efa_server(env={"SOFTEFA_LINK_DOWN": switch})
            self.assert_serves(server)
            open(switch, "x").close()
            self.fails(server.address, SILENT)
            os.unlink(switch)
            self.assert_serves(server)

    def test_server_dies_in_the_midst(self):
        for after in 1, 2, 3:
            server = self.efa_server(env={"SOFTEFA_DIE_AFTER": str(after)})
            client = self.efa_client(server.address, "x" * 8000)
            self.assertIn(client.wait(), (common.FAILED, common.TIMEOUT, common.DONE))
            if client.wait() != common.DONE:
                self.assertRegex(client.err.text(), GONE + "|" + SILENT + "|no answer|no reply|timed out")
            self.assertEqual(server.wait(), -signal.SIGKILL)

    def test_server_ends_while_a_client_takes_no_reply(self):
        # Longer than all that follows, so that nobody gives the other up.
        patient = {"SOFTEFA_TIMEOUT_MS": "60000"}
        server = self.efa_server("--timeout", "60s", "--idle", "60s", env=patient)
        client = self.efa_hostile(server.address, env=patient)
        client.send(CONNECT + client.raw, 5)
        client.send(DATA + b"abc", 5)
        self.assertEqual(client.receive(), (DATA + b"cba", 5))
        # What is sent to a stopped process waits in its socket.
        seen = len(server.out.list)
        self.stop(server)
        client.send(DATA + b"12", 5)
        self.stop(client)
        server.signal(signal.SIGCONT)
        server.out.wait("^message received", after=seen)
        # libfabric may not come back from closing then, and memory is left to the end of the process: a sanitizer
        # sees whether it is lost.
        self.end(server)
        server.err.wait("^reverse: reply not sent to .*: Operation canceled")

    def test_exchange_under_each_fault(self):
        faults = [{"SOFTEFA_REORDER": "30"}, {"SOFTEFA_LOSS": "2", "SOFTEFA_DUP": "2", "SOFTEFA_REORDER": "10"},
                  {"SOFTEFA_RNR": "50"}, {"SOFTEFA_DELAY": "2000"}]
        for fault in faults:
            # It is to be right; how long it takes on a busy machine is not the question.
            server = self.efa_server("--timeout", "60s", "--idle", "60s", env=fault)
            for seed in "1", "2":
                text = "w" * 8000
                client = self.efa_client(server.address, text, options=("--timeout", "60s"),
                                         env={**fault, "SOFTEFA_SEED": seed})
                self.assertEqual(client.wait(70), common.DONE, client.err.text())
                client.out.text()
                self.assertEqual(client.reply(), (8000, text))
            self.end(server)

    def test_rubbish_is_dropped_and_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            stats = os.path.join(folder, "stats")
            server = self.efa_server(env={"SOFTEFA_STATS": stats})
            ip, port, _ = device.parts(server.address)
            chance = random.Random(7)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for i in range(500):
                    rubbish = chance.randbytes(chance.choice((0, 1, 24, 32, 48, 9000, 60000)))
                    if i % 2:
                        # With the right beginning, the rest is looked at.
                        rubbish = b"sEFA\1" + bytes([chance.randrange(8)]) + rubbish
                    stranger.sendto(rubbish, (ip, port))
                    if i % 100 == 0:
                        self.assert_serves(server)
            self.assert_serves(server)
            self.end(server)
            self.assertGreater(self.stats(stats)[0]["malformed"], 250)


if __name__ == "__main__":
    common.main()
