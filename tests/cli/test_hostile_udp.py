# SPDX-License-Identifier: MIT
"""Peers that do not keep to the rules, over udp."""
import common
from hostile_rules import Rules, malformed_ip


class Udp(Rules, common.TestCase):
    provider = "udp"
    tells_sources = False

    def assert_serves(self, server, text="still there?"):
        # The provider waits ever longer, up to 4 s, before it sends again what was lost.
        reply = self.exchange(server.address, text, options=("--timeout", "15s")).reply()
        self.assertEqual(reply, (len(text), text[::-1]))

    def malformed_addresses(self, raw):
        return malformed_ip(raw)


if __name__ == "__main__":
    common.main()
