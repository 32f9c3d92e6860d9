# SPDX-License-Identifier: MIT
"""The command line of the reverse program: what it says of itself, and what it refuses."""
import unittest

import common
from common import DONE, FAILED, USAGE

EFA = "fe800000000000000853f7fffea442e100000000f6d3b3650000000000000000"


class Usage(common.TestCase):
    def reverse(self, *args, **kwargs):
        return self.run_program(common.REVERSE, *args, **kwargs)

    def assert_refused(self, args, *words):
        status, out, err = self.reverse(*args)
        self.assertEqual(status, USAGE, f"{args}: {out} {err}")
        self.assertEqual(out, "", args)
        for word in words:
            self.assertIn(word, err, args)

    def test_help(self):
        for option in "--help", "-h":
            status, out, err = self.reverse(option)
            self.assertEqual((status, err), (DONE, ""))
            for word in "ADDRESS", "--provider", "--bind", "--timeout", "--idle", "8191", "Exit":
                self.assertIn(word, out)
            for line in out.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_version(self):
        status, out, err = self.reverse("--version")
        self.assertEqual((status, err), (DONE, ""))
        self.assertRegex(out, r"^reverse \d+\.\d+\.\d+$")

    def test_output_that_is_lost_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            status, _, err = self.reverse_to(full, "--help")
        self.assertEqual(status, FAILED)
        self.assertIn("standard output", err)

    def reverse_to(self, stdout, *args):
        done = common.subprocess.run([common.REVERSE, *args], stdout=stdout, timeout=common.WAIT,
                                     stderr=common.subprocess.PIPE, env=common.environment(),
                                     check=False)
        return done.returncode, None, done.stderr.decode()

    def test_unknown_option(self):
        self.assert_refused(["--frobnicate"], "frobnicate", "--help")
        self.assert_refused(["-x"], "'x'", "--help")

    def test_missing_value(self):
        for option in "--provider", "--bind", "--timeout", "--idle":
            self.assert_refused([option], option[2:])

    def test_too_many_arguments(self):
        self.assert_refused([f"efa://{EFA}", "one", "two"], "'two'")

    def test_bad_durations(self):
        for value in ("", "0", "0ms", "-1", "+1", "1.5", " 1", "1 ", "1h", "ms", "x", "1s2",
                      "0x10", "2147484", "2147483648ms", "36000m", "99999999999999999999"):
            for option in "--timeout", "--idle":
                self.assert_refused([f"{option}={value}"], f"'{value}'", "500ms")

    def test_bad_addresses_are_refused_with_the_position(self):
        for address, position in (
                ("", 0),
                (" ", 0),
                ("nonsense", 0),
                ("http://127.0.0.1:5", 0),
                ("tcp://127.0.0.1", len("tcp://127.0.0.1")),
                ("tcp://127.0.0.1:", len("tcp://127.0.0.1:")),
                ("tcp://127.0.0.1:0", len("tcp://127.0.0.1:")),
                ("tcp://127.0.0.1:65536", len("tcp://127.0.0.1:")),
                ("tcp://127.0.0.1:5 ", len("tcp://127.0.0.1:5")),
                ("tcp://0.0.0.0:5", len("tcp://")),
                ("tcp://[::1]", len("tcp://[::1]")),
                (EFA[:-1], None),
                (EFA + "0", None),
                ("efa://" + "g" + EFA[1:], len("efa://")),
                ("efa://" + "0" * 64, None),
                ("efa://" + EFA[:36] + "01" + EFA[38:], None)):
            where = "" if position is None else f"byte {position}:"
            self.assert_refused([address], f"'{address}' is not an address: byte", where)

    def test_a_bad_address_is_found_before_a_fabric_is_opened(self):
        # With no provider at all, only what comes before opening can be found.
        env = common.environment(FI_PROVIDER="tpc")
        status, _, err = self.reverse("tcp://127.0.0.1:x", env=env)
        self.assertEqual(status, USAGE)
        self.assertIn("not an address", err)

    def test_the_text_is_checked_before_a_fabric_is_opened(self):
        env = common.environment(FI_PROVIDER="tpc")
        status, _, err = self.reverse("tcp://127.0.0.1:5", "x" * 8192, env=env)
        self.assertEqual(status, USAGE)
        self.assertIn("8191", err)

    def test_a_text_is_never_an_option(self):
        server = self.server("shm")
        self.assertEqual(self.exchange(server.address, "--help").reply(), (6, "pleh--"))
        self.assertEqual(self.exchange(server.address, "-").reply(), (1, "-"))

    def test_a_provider_that_does_not_fit_the_address(self):
        status, out, err = self.reverse("--provider", "shm", "tcp://127.0.0.1:5")
        self.assertIn(status, (FAILED, USAGE))
        self.assertEqual(out, "")
        self.assertIn("shm", err)
        self.assertIn("tcp", err)

    def test_bad_bind(self):
        for bind in "127.0.0.1:99999", "nonsense", "127.0.0.1:", "[::1":
            status, out, err = self.reverse("--provider", "tcp", "--bind", bind)
            self.assertEqual(status, USAGE, f"{bind}: {err}")
            self.assertEqual(out, "")
            self.assertIn("bind", err)


class Provider(common.TestCase):
    """Settings of libfabric that leave nothing to open, or nothing of what was asked for."""

    def fails(self, value, *args):
        env = common.environment(FI_PROVIDER=value)
        status, out, err = self.run_program(common.REVERSE, *args, env=env)
        self.assertEqual(status, FAILED, f"{out}\n{err}")
        self.assertEqual(out, "")
        return err

    def test_a_misspelt_provider_is_named(self):
        for args in (), ("--provider", "tcp"):
            err = self.fails("tpc", *args)
            self.assertIn("FI_PROVIDER", err)
            self.assertIn("tpc", err)

    def test_an_excluded_provider_is_named(self):
        err = self.fails("^tcp", "--provider", "tcp")
        self.assertIn("FI_PROVIDER", err)
        self.assertIn("^tcp", err)

    @unittest.skipIf(common.os.path.exists("/sys/class/infiniband"), "there may be an EFA device")
    def test_efa_without_a_device(self):
        err = self.fails("efa")
        self.assertIn("efa", err)
        err = self.fails(None, "--provider", "efa")
        self.assertIn("efa", err)

    def test_an_empty_setting(self):
        # libfabric takes an empty filter for one that excludes all, or for none at all.
        env = common.environment(FI_PROVIDER="")
        server = self.start(common.Program, [common.REVERSE], env=env)
        try:
            server.out.wait("^address: ")
        except AssertionError:
            self.assertEqual(server.wait(), FAILED)
            self.assertIn("FI_PROVIDER", server.err.text())

    def test_an_unknown_provider_is_named(self):
        status, out, err = self.run_program(common.REVERSE, "--provider", "tpc")
        self.assertIn(status, (FAILED, USAGE))
        self.assertEqual(out, "")
        self.assertIn("tpc", err)


if __name__ == "__main__":
    common.main()
