# SPDX-License-Identifier: MIT
"""A node that is flooded by a peer made of libfabric alone (flood.c): it stays within its budgets, and goes on."""
import os
import common
from sessions import FLOOD, Peer

BUDGET = 32 << 20  # of either kind
HALF_OPEN = 256  # at most an eighth of the sessions that a frame each in the budget is enough for
PATIENCE_MS = 60000


class Flood(common.TestCase):
    def setUp(self):
        self.node = self.start(Peer, "tcp")
        self.before = self.node.statistics()

    def flood(self, kind, count):
        target = self.node.address.removeprefix("tcp://")
        # It leaves without a word, and what libfabric has then is not weft's.
        asan = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        return self.start(common.Program, [FLOOD, target, kind, str(count), "7"],
                          env=common.environment(ASAN_OPTIONS=asan))

    def assert_served(self):
        good = self.start(Peer, "tcp")
        session = good.connect(self.node.address, PATIENCE_MS)
        good.out.wait(f"^opened {session}$", timeout=PATIENCE_MS / 1000)
        self.assertEqual(good.ask(session, PATIENCE_MS), 0)
        self.assertEqual(good.leave(), 0)

    def check(self, kind, count):
        """Returns what the node has counted when the flood is over."""
        flood = self.flood(kind, count)
        self.assert_served()
        self.assertEqual(flood.wait(120), 0, flood.err.text())
        self.assert_served()
        now = self.node.statistics()
        # Receives for as many as may be half-open are a part of the budget, and are kept.
        self.assertLessEqual(now["memory"], self.before["memory"] + BUDGET // 4)
        self.assertLessEqual(now["half_open"], HALF_OPEN)
        self.assertEqual(now["opened"], 2)
        self.node.out.wait("^closed 2 reason=2 ")
        return now

    def test_connects_from_everywhere(self):
        now = self.check("connects", 100000)
        self.assertGreater(now["evicted"] + now["drop_rate"], 0)

    def test_the_same_connects_again_and_again(self):
        self.check("replays", 20000)

    def test_random_bytes(self):
        now = self.check("bytes", 20000)
        self.assertEqual(now["drop_malformed"], 20000)

    def test_valid_headers_with_random_contents(self):
        now = self.check("bodies", 20000)
        self.assertGreater(now["drop_malformed"], 0)
        self.assertGreater(now["drop_unknown"], 0)

    def test_sessions_that_there_are_not(self):
        now = self.check("sessions", 20000)
        self.assertEqual(now["drop_unknown"], 20000)


if __name__ == "__main__":
    common.main()
