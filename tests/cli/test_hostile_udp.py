# SPDX-License-Identifier: MIT
"""Peers that do not keep to the rules, over udp."""
import common
from hostile_rules import Rules, malformed_ip


class Udp(Rules, common.TestCase):
    provider = "udp"
    tells_sources = False

    def malformed_addresses(self, raw):
        return malformed_ip(raw)


if __name__ == "__main__":
    common.main()
