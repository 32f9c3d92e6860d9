# SPDX-License-Identifier: MIT
"""Two hundred weft send against one weft serve, fifty at a time, a quarter of them killed: the rest get their own
answer, and none of what they all cost the server is left.

Who is killed and when is random, from a seed that is printed; WEFT_TEST_SEED repeats one."""
import concurrent.futures
import os
import random
import signal

import common
import tool
from common import DONE
from crowd import AT_A_TIME, CLIENTS, text_of

# What a client has said last when it is killed; "" is before it says anything.
MOMENTS = ("", "provider ", "connecting to ", "connected to ", "message sent")
# For a machine that runs fifty at a time on few cores.
PATIENT = ("--timeout", "30s", "-v")
# More frames than a client may send that has sent a message or two.
CREDIT = 16

# How long the server takes a silent peer to be gone, and some more.
GONE = 90


class Crowd(tool.TestCase):
    def run_one(self, address, number, moment=None):
        """Runs a client, and kills it at a moment. Returns what is wrong, or None."""
        text = text_of(number)
        client = common.Program([tool.TOOL, "send", *PATIENT, address, text])
        try:
            if moment is not None:
                if moment:
                    client.err.wait(moment, timeout=60)
                client.signal(signal.SIGKILL)
                status = client.wait(60)
                # It may have ended before the signal came.
                return None if status in (DONE, -signal.SIGKILL) else f"{number}: {status}"
            status = client.wait(60)
            reply = client.out.text()
        finally:
            client.kill()
        if status == DONE and reply == text[::-1]:
            return None
        return f"{number}: status {status}, reply {reply}: {client.err.text()}"

    def test_a_quarter_killed(self):
        seed = int(os.environ.get("WEFT_TEST_SEED", random.SystemRandom().getrandbits(32)))
        print(f"WEFT_TEST_SEED={seed}", flush=True)
        chance = random.Random(seed)
        moments = {number: chance.choice(MOMENTS) for number in chance.sample(range(CLIENTS), CLIENTS // 4)}
        server = self.serve()
        before = server.statistics()
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            wrong = [job.result() for job in [pool.submit(self.run_one, server.address, number, moments.get(number))
                                              for number in range(CLIENTS)]]
        self.assertEqual([text for text in wrong if text], [])
        self.assert_serves(server)
        same = "open", "peers", "held", "half_open", "descriptors"
        now = server.wait_statistics(lambda now: all(now[name] == before[name] for name in same),
                                     f"back to {before}", timeout=GONE)
        # Receives for what the killed ones might have sent yet stay posted until others use them.
        unused = CREDIT * len(moments)
        self.assertLessEqual(now["operations"], before["operations"] + unused)
        # Frames once made are kept for the next use, up to a bound.
        self.assertLess(now["buffers"], before["buffers"] + unused + 64)
        print(f"before: {before}\nafter:  {now}", flush=True)
        self.assertGreaterEqual(now["replies"], CLIENTS - len(moments))
        self.assertEqual(now["malformed"], 0)
        self.assert_serves(server)
        self.end(server)


if __name__ == "__main__":
    common.main()
