# SPDX-License-Identifier: MIT
"""What killed shm endpoints leave in /dev/shm is found and removed by the next one that opens, and
nothing else is."""
import os
import signal
import tempfile

import common
from common import shm_files


class Leftovers(common.TestCase):
    def test_killed_twenty_times(self):
        # All at once, so that none of them removes what another one leaves.
        servers = [self.start(common.Program, [common.REVERSE, "--provider", "shm"])
                   for _ in range(20)]
        addresses = [server.out.wait(r"^address: (\S+)$")[1] for server in servers]
        living = self.server("shm")
        for server in servers:
            server.signal(signal.SIGKILL)
            self.assertEqual(server.wait(), -signal.SIGKILL)
        for address in addresses:
            self.assertNotEqual(shm_files(address), [])
        self.assertEqual(len(set(addresses)), 20)

        last = self.server("shm")
        for address in addresses:
            self.assertEqual(shm_files(address), [], "left-overs of the dead")
        self.assertNotEqual(shm_files(living.address), [])
        self.assert_serves(living)
        self.assert_serves(last)
        self.end(living)
        self.end(last)

    def test_killed_one_after_the_other(self):
        previous = None
        for _ in range(5):
            server = self.server("shm")
            if previous:
                self.assertEqual(shm_files(previous), [])
            server.signal(signal.SIGKILL)
            server.wait()
            previous = server.address
            self.assertNotEqual(shm_files(previous), [])
        self.end(self.server("shm"))
        self.assertEqual(shm_files(previous), [])

    def test_a_stopped_process_is_not_dead(self):
        stopped = self.server("shm")
        stopped.signal(signal.SIGSTOP)
        self.addCleanup(stopped.signal, signal.SIGCONT)
        had = shm_files(stopped.address)
        self.assertNotEqual(had, [])
        self.end(self.server("shm"))
        self.assertEqual(shm_files(stopped.address), had)
        stopped.signal(signal.SIGCONT)
        self.assert_serves(stopped)
        self.end(stopped)

    def test_files_of_others_are_left_alone(self):
        # Names that look like weft's to a careless eye, without a lock that a dead one left.
        with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="weft-0123456789abcdef") as one, \
             tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="weft-") as two, \
             tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="other-weft-") as three:
            self.end(self.server("shm"))
            for file in one, two, three:
                self.assertTrue(os.path.exists(file.name), file.name)


if __name__ == "__main__":
    common.main()
