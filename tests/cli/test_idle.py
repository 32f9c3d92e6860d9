# SPDX-License-Identifier: MIT
"""A server that nobody talks to for a minute uses next to no processor time, on each provider, and
answers the first message after it."""
import os
import time

import common

SECONDS = 60
LIMIT = 0.01  # of a core


def processor_seconds(pid):
    """What a process has used so far, in user and system mode."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Idle(common.TestCase):
    def test_all_at_the_same_time(self):
        servers = {provider: self.server(provider) for provider in ("tcp", "shm", "udp")}
        # One exchange first, so that there has been a peer, who is forgotten during the minute.
        for server in servers.values():
            self.assert_serves(server)
        before = {provider: processor_seconds(server.pid) for provider, server in servers.items()}
        started = time.monotonic()
        time.sleep(SECONDS)  # being idle for so long is what is tested
        took = time.monotonic() - started
        used = {}
        for provider, server in servers.items():
            used[provider] = (processor_seconds(server.pid) - before[provider]) / took
            print(f"{provider}: {100 * used[provider]:.2f} % of a core over {took:.0f} s")
        for provider, server in servers.items():
            with self.subTest(provider=provider):
                self.assertLess(used[provider], LIMIT)
                self.assert_serves(server)
                self.assertEqual(server.statistics()["clients"], 1)
                self.end(server)


if __name__ == "__main__":
    common.main()
