# SPDX-License-Identifier: MIT
"""Peers that fail: each failure is told by EFA's code in plain words, within the deadline, and nobody else is harmed."""
import os
import random
import signal
import socket
import tempfile
import time

import device  # first: it knows where the others are
import common

GONE = "process is gone, or was restarted"
SILENT = "has stopped: its host is down|its process never answered|answered before and does not any more"
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
        server.signal(signal.SIGSTOP)
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

    def test_exchange_under_each_fault(self):
        faults = [{"SOFTEFA_REORDER": "30"}, {"SOFTEFA_LOSS": "2", "SOFTEFA_DUP": "2", "SOFTEFA_REORDER": "10"},
                  {"SOFTEFA_RNR": "50"}, {"SOFTEFA_DELAY": "2000"}]
        for fault in faults:
            server = self.efa_server(env=fault)
            for seed in "1", "2":
                text = "w" * 8000
                client = self.efa_exchange(server.address, text, env={**fault, "SOFTEFA_SEED": seed})
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
