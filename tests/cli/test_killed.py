# SPDX-License-Identifier: MIT
"""Two hundred clients, fifty at a time, of which a quarter are killed: the rest are served.

Who is killed and when is random, from a seed that is printed; WEFT_TEST_SEED repeats one."""
import os
import random

import common
from crowd import CLIENTS, Crowd

# What a client has said last when it is killed; "" is before it says anything.
MOMENTS = ("", "^provider: ", "^own address: ", "^CONNECT sent", "^message sent")


class Killed(Crowd, common.TestCase):
    def test_a_quarter_killed_over_tcp(self):
        seed = int(os.environ.get("WEFT_TEST_SEED", random.SystemRandom().getrandbits(32)))
        print(f"WEFT_TEST_SEED={seed}", flush=True)
        chance = random.Random(seed)
        victims = chance.sample(range(CLIENTS), CLIENTS // 4)
        self.check("tcp", {number: chance.choice(MOMENTS) for number in victims})


if __name__ == "__main__":
    common.main()
