# SPDX-License-Identifier: MIT
"""A server that is killed under load, and started again at the same address; and one that stops."""
import signal
import time

import common
from sessions import FABRIC, LOST, QUICK, RESTARTED, UNKNOWN, Peer

MANY = 1000000


class Restart(common.TestCase):
    def peer(self, *options, **kwargs):
        return self.start(Peer, "tcp", *options, **kwargs)

    def test_killed_under_load_and_started_again(self):
        bind = f"bind=127.0.0.1:{common.free_port()}"
        server, client = self.peer(bind, *QUICK), self.peer(*QUICK)
        session = client.meet(server)
        client.tell(f"send {session} {100 * MANY} 100")
        self.wait_until(lambda: server.received()[0] > 10000, "messages")
        server.process.kill()
        server.process.wait()
        again = self.peer(bind, *QUICK)
        self.assertEqual(again.address, server.address)
        self.assertIn(client.reason(session), (UNKNOWN, LOST, FABRIC, RESTARTED))
        sent, good, told = client.ended(session)
        self.assertEqual(sent, good + told)
        received, wrong = server.received()
        self.assertGreaterEqual(received, good)
        self.assertEqual(wrong, 0)
        self.assertGreater(told, 0)
        self.assertEqual(again.received()[0], 0)
        self.assertEqual(client.ask(client.meet(again)), 0)
        self.assertEqual(again.statistics()["opened"], 1)

    def test_the_other_one_notices_who_is_new(self):
        """The server hears from the new process first, and ends the session of the old one."""
        bind = f"bind=127.0.0.1:{common.free_port()}"
        server = self.peer("keepalive=20000", "silence=60000")
        client = self.peer(bind)
        client.meet(server)
        # A process that is killed at once may not have sent what shows it to the server.
        server.out.wait("^opened 1$")
        client.kill()
        again = self.peer(bind)
        again.meet(server)
        self.assertEqual(server.reason(1), RESTARTED)
        self.assertEqual(server.statistics()["restarted"], 1)

    def test_a_receiver_that_is_stopped(self):
        """A million messages to a process that does not run: the sender waits, and both stay small."""
        budget = 4 << 20
        server = self.peer(f"budget={budget}", "silence=60000")
        client = self.peer(f"budget={budget}", "silence=60000")
        session = client.meet(server)
        self.assertEqual(client.ask(session), 0)
        before = client.memory(), server.memory()
        server.signal(signal.SIGSTOP)
        client.tell(f"send {session} {MANY} 64")
        self.wait_until(lambda: client.statistics()["no_buffers"] > 0, "the sender is held back")
        now = client.statistics()
        self.assertLess(now["sent"], MANY)
        self.assertLessEqual(now["memory"], 3 * budget)
        server.signal(signal.SIGCONT)
        self.assertEqual(client.ended(session, timeout=60), (MANY, MANY, 0))
        self.assertEqual(server.received(), (MANY, 0))
        for peer, was in (client, before[0]), (server, before[1]):
            self.assertLessEqual(peer.statistics()["memory"], 3 * budget)
            # What libfabric and the allocator take beside the budgets.
            self.assertLess(peer.memory(), was + 3 * budget + (32 << 20))
        self.assertEqual((client.leave(), server.leave()), (0, 0))

    def wait_until(self, condition, what):
        deadline = time.monotonic() + common.WAIT
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)  # between two looks


if __name__ == "__main__":
    common.main()
