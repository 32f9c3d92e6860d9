# SPDX-License-Identifier: MIT
"""Two hundred clients, fifty at a time, each with its own text."""
import common
from crowd import Crowd


class Many(Crowd, common.TestCase):
    def test_tcp(self):
        self.check("tcp", {})

    def test_shm(self):
        self.check("shm", {})


if __name__ == "__main__":
    common.main()
