# SPDX-License-Identifier: MIT
"""Sessions of layer 2 over EFA: a server that is killed under load, packets that are lost, a link that goes down."""
import os
import socket
import tempfile
import time

import device  # first: it knows where the others are
import common
from sessions import FABRIC, LOST, QUICK, Peer

MANY = 100000000
FAULTS = {"SOFTEFA_LOSS": "3", "SOFTEFA_DUP": "3", "SOFTEFA_REORDER": "20", "SOFTEFA_RNR": "5"}


class Session(device.TestCase):
    def peer(self, *options, **variables):
        return self.on_device(self.start, Peer, "efa", *options, env=variables)

    def wait_until(self, condition, what):
        deadline = time.monotonic() + common.WAIT
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)  # between two looks

    def test_killed_under_load_and_started_again(self):
        port = str(common.free_port(socket.SOCK_DGRAM))
        server, client = self.peer(*QUICK, SOFTEFA_QPN=port), self.peer(*QUICK)
        session = client.meet(server)
        client.tell(f"send {session} {MANY} 100")
        self.wait_until(lambda: server.received()[0] > 10000, "messages")
        server.process.kill()
        server.process.wait()
        again = self.peer(*QUICK, SOFTEFA_QPN=port)
        # In the same place, with another key.
        self.assertEqual(device.parts(again.address)[:2], device.parts(server.address)[:2])
        self.assertNotEqual(again.address, server.address)
        self.assertIn(client.reason(session), (LOST, FABRIC))
        sent, good, told = client.ended(session)
        self.assertEqual(sent, good + told)
        received, wrong = server.received()
        self.assertGreaterEqual(received, good)
        self.assertEqual(wrong, 0)
        self.assertEqual(client.ask(client.meet(again)), 0)
        self.assertEqual(again.received()[0], 0)

    def test_packets_are_lost(self):
        server, client = self.peer("silence=60000", **FAULTS), self.peer("silence=60000", **FAULTS)
        session = client.meet(server)
        client.tell(f"send {session} 20000 500")
        self.assertEqual(client.ended(session, timeout=90), (20000, 20000, 0))
        self.assertEqual(server.received(), (20000, 0))

    def test_a_link_that_goes_down(self):
        """For longer than the deadline: both learn of it, and nothing is called sent that did not arrive."""
        with tempfile.TemporaryDirectory() as folder:
            down = os.path.join(folder, "down")
            server = self.peer(*QUICK, SOFTEFA_LINK_DOWN=down)
            client = self.peer(*QUICK, SOFTEFA_LINK_DOWN=down)
            session = client.meet(server)
            self.assertEqual(client.ask(session), 0)
            with open(down, "w", encoding="ascii"):
                pass
            client.tell(f"send {session} 2000 500")
            self.assertIn(client.reason(session), (LOST, FABRIC))
            self.assertIn(server.reason(1), (LOST, FABRIC))
            sent, good, told = client.ended(session)
            self.assertEqual(sent, good + told)
            self.assertGreater(told, 0)
            self.assertGreaterEqual(server.received()[0], good)


if __name__ == "__main__":
    common.main()
