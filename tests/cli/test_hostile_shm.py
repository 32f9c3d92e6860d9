# SPDX-License-Identifier: MIT
"""Peers that do not keep to the rules, over shm."""

import common
from hostile_rules import CONNECT, DATA, Rules


class Shm(Rules, common.TestCase):
    provider = "shm"
    tells_sources = common.libfabric_version() >= (2, 0)

    def malformed_addresses(self, raw):
        return [CONNECT + address for address in (
            b"../../etc/passwd\0",
            b"weft-\x1b[31m\0",
            b"weft\0weft\0",
        )]

    def test_messages_that_are_too_long(self):
        if "FI_SHM_DISABLE_CMA" not in self.variables:
            self.skipTest("the receiver of such a message never comes back from the provider")
        super().test_messages_that_are_too_long()

    def test_made_up_addresses_fill_no_table(self):
        # The provider takes 256 peers, ever fewer than there may be clients.
        server, peer = self.reverse_server, self.hostile()
        for i in range(600):
            self.assertEqual(peer.send(CONNECT + b"weft-%016x\0" % i, i), "sent")
        self.connected(peer, 5000)
        peer.send(DATA + b"abc", 5000)
        self.assertEqual(peer.receive(), (DATA + b"cba", 5000))
        now = server.statistics()
        self.assertLess(now["clients"], 256)
        self.assertEqual((now["failed"], now["malformed"]), (0, 0))


class ShmWithoutFetching(Shm):
    """Where nobody reads another process's memory, as is so where ptrace is restricted."""

    variables = {"FI_SHM_DISABLE_CMA": "1"}


if __name__ == "__main__":
    common.main()
