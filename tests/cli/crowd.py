# SPDX-License-Identifier: MIT
"""Two hundred clients, fifty at a time: each gets its own answer, and none of what they cost the
server is left. The tests themselves are in test_many.py and test_killed.py."""
import concurrent.futures
import signal

import common
from common import DONE

CLIENTS, AT_A_TIME = 200, 50
PATIENT = ("--timeout", "30s")  # for a machine that runs fifty at a time on few cores


def text_of(number):
    """Of many lengths, and no two the same."""
    return f"{number}: " + "".join(chr(33 + (number + i) % 90) for i in range(number * 37 % 2000))


class Crowd:
    def run_one(self, address, number, moment=None):
        """Runs a client, and kills it at a moment. Returns what is wrong, or None."""
        text = text_of(number)
        client = common.Client(address, text, options=PATIENT)
        try:
            if moment is not None:
                if moment:
                    client.out.wait(moment, timeout=60)
                client.signal(signal.SIGKILL)
                status = client.wait(60)
                # It may have ended before the signal came.
                return None if status in (DONE, -signal.SIGKILL) else f"{number}: {status}"
            status = client.wait(60)
            client.out.text()
            reply = client.reply()
        finally:
            client.kill()
        size = len(text)
        shown = text[::-1].replace("\\", "\\\\")
        if status == DONE and reply == (size, shown):
            return None
        return f"{number}: status {status}, reply {reply}: {client.err.text()}"

    def run_all(self, address, moments):
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            jobs = [pool.submit(self.run_one, address, number, moments.get(number))
                    for number in range(CLIENTS)]
            return [job.result() for job in jobs if job.result()]

    def check(self, provider, moments):
        """Runs them all; moments tells for some of them what they have said last when killed."""
        # Who is silent for so long between CONNECT and DATA is forgotten, and gets no answer. On a machine
        # with fifty at a time a process may well not run for a second, so it is much more than that.
        server = self.server(provider, "--idle", "10s", "--timeout", "30s")
        before = server.statistics()
        wrong = self.run_all(server.address, moments)
        self.assertEqual(wrong, [], server.statistics() if wrong else None)
        # Who was killed with a reply on its way is forgotten after its deadline, and the silence behind it.
        same = ("clients", "receives", "buffers", "peers", "operations", "held", "descriptors")
        now = server.wait_statistics(lambda now: all(now[name] == before[name] for name in same),
                                     f"back to {before}", timeout=60)
        # A client that has its answer goes at once. On tcp the provider may then call the send of it failed.
        ended = now["served"] + now["failed"]
        self.assertGreaterEqual(ended, CLIENTS - len(moments))
        if not moments:
            self.assertEqual((ended, now["unmatched"]), (CLIENTS, 0))
        self.assertEqual(now["malformed"], 0)
        self.assert_serves(server)
        self.end(server)
