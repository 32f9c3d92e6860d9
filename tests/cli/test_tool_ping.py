# SPDX-License-Identifier: MIT
"""weft ping, and weft info."""
import re
import signal
import time

import common
import tool
from common import DONE, FAILED, INTERRUPTED, TIMEOUT

NOWHERE = "tcp://127.0.0.1:9"
RTT = r"rtt min/avg/max/mdev = [\d.]+/[\d.]+/[\d.]+/[\d.]+ ms\nrtt p50/p90/p99/p99.9 = [\d.]+/[\d.]+/[\d.]+/[\d.]+ ms\n"


class Ping(tool.TestCase):
    def test_each_is_told_and_all_are_summed_up(self):
        for provider in "tcp", "shm":
            server = self.serve("--provider", provider)
            status, out, err = self.weft("ping", "-c", "3", "-i", "10ms", "-s", "1k", server.address)
            self.assertEqual(status, DONE, err)
            name = re.escape(server.address)
            self.assertRegex(out.decode(),
                             rf"^PING {name}: 1024 bytes of data\n" +
                             "".join(rf"1024 bytes from {name}: seq={i} time=\d+\.\d+ ms\n" for i in (1, 2, 3)) +
                             rf"\n--- {name} ping statistics ---\n"
                             r"3 requests sent, 3 answered, 0% lost, time \d+ ms\n" + RTT + "$")
            self.assertIn("both ends are on this host", err)
            self.end(server)

    def test_quiet_and_flood(self):
        server = self.serve("--service", "discard")
        for options in ("-q",), ("-f",), ("-f", "-q"):
            status, out, err = self.weft("ping", "-c", "20", "-i", "1ms", "-s", "0", *options, server.address)
            self.assertEqual(status, DONE, err)
            self.assertRegex(out.decode(), r"^PING \S+: 0 bytes of data\n\n?--- .*\n20 requests sent, 20 answered, "
                                           r"0% lost, time \d+ ms\n" + RTT + "$")

    def test_document(self):
        server = self.serve("--service", "echo")
        document = self.document("ping", "-c", "10", "-i", "1ms", server.address)
        self.assertEqual((document["sent"], document["received"], document["lost_percent"]), (10, 10, 0))
        rtt = document["rtt_ms"]
        self.assertLessEqual(rtt["min"], rtt["p50"] * 1.01)
        order = [rtt[name] for name in ("p50", "p90", "p99", "p99.9", "max")]
        self.assertEqual(order, sorted(order))
        self.assertLessEqual(rtt["min"], rtt["avg"])
        self.assertLessEqual(rtt["avg"], rtt["max"])
        self.assertGreaterEqual(rtt["mdev"], 0)

    def test_deadline(self):
        server = self.serve()
        started = time.monotonic()
        status, out, err = self.weft("ping", "-w", "2s", "-i", "50ms", server.address)
        self.assertEqual(status, DONE, err)
        self.assertGreaterEqual(time.monotonic() - started, 2)
        self.assertIn(b"0% lost", out)
        # With a count, all have to be there by then.
        status, out, err = self.weft("ping", "-w", "2s", "-c", "1000", server.address)
        self.assertEqual(status, TIMEOUT)
        self.assertRegex(err, r"(?m)^weft: only [123] of 1000 answers came before the deadline$")

    def test_interrupt(self):
        server = self.serve()
        ping = self.start(common.Program, [tool.TOOL, "ping", "-i", "20ms", server.address])
        ping.out.wait("seq=3 ")
        ping.signal(signal.SIGINT)
        self.assertEqual(ping.wait(), INTERRUPTED)
        self.assertRegex(ping.out.text(), r"\d+ requests sent, \d+ answered, 0% lost")

    def test_nobody_there(self):
        status, out, err = self.weft("ping", "-W", "300ms", NOWHERE)
        self.assertEqual(status, TIMEOUT)
        self.assert_one_line(err, "no answer from tcp://127.0.0.1:9 within 300 ms", "never connected",
                             "nothing listens there", "127.0.0.1 is this host itself", "--bind")
        document = self.document("ping", "-w", "300ms", NOWHERE, status=TIMEOUT)
        self.assertIn("never connected", document["error"])
        self.assertIsNone(document["rtt_ms"])

    def test_a_silent_server(self):
        server = self.serve()
        ping = self.start(common.Program, [tool.TOOL, "ping", "-v", "-i", "50ms", "-W", "2s", "--json", server.address])
        ping.err.wait("both ends")
        server.signal(signal.SIGSTOP)
        try:
            ping.err.wait(r"^weft: seq=\d+: no answer within 2 s$")
            ping.signal(signal.SIGINT)
            self.assertEqual(ping.wait(), INTERRUPTED, ping.err.text())
        finally:
            server.signal(signal.SIGCONT)
        document = tool.parse(ping.out.text() + "\n")
        self.assertTrue(document["interrupted"])
        self.assertGreater(document["lost_percent"], 0)
        self.assert_serves(server)

    def test_a_server_that_is_started_again(self):
        port = common.free_port()
        server = self.serve("--bind", f"127.0.0.1:{port}")
        ping = self.start(common.Program, [tool.TOOL, "ping", "-i", "50ms", "-W", "1s", server.address])
        ping.out.wait("seq=2 ")
        self.end(server)
        ping.err.wait(r"^weft: lost tcp://127\.0\.0\.1:\d+, connecting again: ")
        ping.err.wait(r"^weft: cannot connect to tcp://127\.0\.0\.1:\d+ again yet: .*nothing listens there")
        self.serve("--bind", f"127.0.0.1:{port}")
        ping.err.wait(r"^weft: connected to tcp://127\.0\.0\.1:\d+ again$")
        seen = len(ping.out.list)
        ping.out.wait(r"seq=\d+ time", after=seen)
        ping.signal(signal.SIGINT)
        self.assertEqual(ping.wait(), INTERRUPTED)
        # Once a change, however many requests have found nobody.
        self.assertEqual(ping.err.count("cannot connect"), 1, ping.err.text())

    def test_requests_without_an_answer_are_told_once(self):
        server = self.serve()
        ping = self.start(common.Program,
                          [tool.TOOL, "ping", "-c", "20", "-i", "50ms", "-W", "500ms", server.address])
        ping.out.wait("seq=2 ")
        server.signal(signal.SIGSTOP)
        try:
            self.assertEqual(ping.wait(), DONE, ping.err.text())
        finally:
            server.signal(signal.SIGCONT)
        self.assertEqual(ping.err.count(r"^weft: seq=\d+: no answer within 500 ms$"), 1, ping.err.text())

    def test_output_that_nobody_reads(self):
        server = self.serve()
        status, out, err = self.run_program(
            "bash", "-c", f'"{tool.TOOL}" ping -i 10ms {server.address} | head -n 2; echo ${{PIPESTATUS[0]}}')
        self.assertEqual(out.splitlines()[-1], "1", err)
        self.assertIn("standard output: Broken pipe", err)
        self.assert_serves(server)


class Info(tool.TestCase):
    def test_list(self):
        status, out, err = self.weft("info", "--provider", "tcp")
        self.assertEqual((status, err), (DONE, ""))
        lines = out.decode().splitlines()
        self.assertTrue(lines[0].startswith("  PROVIDER"))
        self.assertRegex(lines[1], r"^\* tcp\S* +lo +the best that fits what was asked for +127\.0\.0\.1\b")
        self.assertEqual(sum(line.startswith("* ") for line in lines), 1)
        self.assertTrue(all(line.startswith(("* tcp", "  tcp")) for line in lines[1:-1]), lines)
        more = re.match(r"\((\d+) more, .*weft info -v\)$", lines[-1])
        for line in lines:
            self.assertEqual(line, line.rstrip())
        # The rest is there, all of it, where it is asked for.
        status, out, err = self.weft("info", "--provider", "tcp", "-v")
        everything = out.decode().split("\n\n")[0].splitlines()
        self.assertEqual(len(everything), len(lines) - 1 + int(more[1]))
        self.assertTrue(any("shm://NAME" in line and "'tcp' was asked for" in line for line in everything))
        self.assertEqual(len(self.document("info", "--provider", "tcp")["candidates"]), len(everything) - 1)

    def test_columns_are_as_wide_as_what_is_in_them(self):
        lines = self.weft("info", "-v")[1].decode().split("\n\n")[0].splitlines()
        ends = [match.end() for match in re.finditer(r"(?<=  )\S", lines[0])]
        for end in ends[1:]:
            # The widest cell of a column leaves two blanks before the next one.
            self.assertTrue(any(line[end - 4:end - 3].strip() for line in lines if len(line) > end), (end, lines))

    def test_document(self):
        document = self.document("info", "--provider", "shm", "-v")
        self.assertEqual([one["provider"] for one in document["candidates"] if one["chosen"]], ["shm"])
        self.assertTrue(all(one["reason"] for one in document["candidates"]))
        self.assertEqual(document["limits"]["max_peers"], 256)
        self.assertIn("libfabric_running", document["versions"])

    def test_towards_an_address(self):
        document = self.document("info", "shm://nobody")
        self.assertEqual([one["provider"] for one in document["candidates"] if one["chosen"]], ["shm"])

    def test_nothing_to_be_had(self):
        document = self.document("info", env=common.environment(FI_PROVIDER="tpc"), status=FAILED)
        self.assertIn("FI_PROVIDER", document["error"])
        self.assertEqual(document["candidates"], [])


if __name__ == "__main__":
    common.main()
