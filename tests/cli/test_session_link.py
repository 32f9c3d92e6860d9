# SPDX-License-Identifier: MIT
"""Sessions over a link that fails: in network namespaces, whose link is taken down or loses packets."""
import os
import shutil
import time
import unittest

import common
from sessions import FABRIC, LOST, QUICK, Namespaces, Peer


@unittest.skipIf(os.geteuid() != 0, "making network namespaces takes root")
class Link(common.TestCase):
    def setUp(self):
        self.spaces = Namespaces()
        self.addCleanup(self.spaces.remove)

    def peers(self, *options):
        return [self.start(Peer, "tcp", f"bind={self.spaces.addresses[side]}", *options,
                           prefix=self.spaces.prefix(side)) for side in (0, 1)]

    def test_down_for_ten_seconds(self):
        """Less than the announced silence: the session goes on, and all arrives once."""
        client, server = self.peers("keepalive=1000", "silence=60000")
        session = client.meet(server)
        self.assertEqual(client.ask(session), 0)
        self.spaces.link("down")
        client.tell(f"send {session} 2000 500")
        time.sleep(10)  # this is what is tested
        self.assertIsNone(client.out.find("^closed"))
        self.spaces.link("up")
        self.assertEqual(client.ended(session, timeout=60), (2000, 2000, 0))
        self.assertEqual(server.received(), (2000, 0))
        self.assertEqual(client.ask(session, 30000), 0)

    def test_down_for_longer_than_the_deadline(self):
        """Both sides learn of it, and no message is called sent that did not arrive."""
        client, server = self.peers(*QUICK)
        session = client.meet(server)
        self.assertEqual(client.ask(session), 0)
        self.spaces.link("down")
        client.tell(f"send {session} 2000 500")
        self.assertIn(client.reason(session), (LOST, FABRIC))
        self.assertIn(server.reason(1), (LOST, FABRIC))
        sent, good, told = client.ended(session)
        self.assertEqual(sent, good + told)
        self.assertGreater(told, 0)
        self.assertGreaterEqual(server.received()[0], good)
        self.spaces.link("up")
        self.assertEqual(client.ask(client.meet(server), 30000), 0)

    @unittest.skipUnless(shutil.which("nft"), "losing packets takes nft")
    def test_packets_are_lost(self):
        client, server = self.peers("silence=60000")
        session = client.meet(server)
        self.spaces.lose(5)
        client.tell(f"send {session} 20000 500")
        self.assertEqual(client.ended(session, timeout=90), (20000, 20000, 0))
        self.assertEqual(server.received(), (20000, 0))


if __name__ == "__main__":
    common.main()
