# SPDX-License-Identifier: MIT
"""The command line of weft: what it says of itself, and what it refuses, in one line and with the right status."""
import concurrent.futures
import os
import re
import subprocess
import tempfile
import unittest

import common
import tool
from common import DONE, FAILED, USAGE

COMMANDS = "serve", "send", "ping", "info"
EFA = "fe800000000000000853f7fffea442e100000000f6d3b3650000000000000000"
NOWHERE = "tcp://127.0.0.1:9"
COMPLETION = os.path.join(common.TOP, "tool", "completion.bash")


class Help(tool.TestCase):
    def help_of(self, *command):
        status, out, err = self.weft(*command, "--help")
        self.assertEqual((status, err), (DONE, ""))
        return out.decode()

    def test_help_fits_a_screen(self):
        for command in ((), *((name,) for name in COMMANDS)):
            text = self.help_of(*command)
            self.assertTrue(text.startswith("usage: weft"), text)
            self.assertLessEqual(len(text.splitlines()), 40, command)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 80, line)
            # The examples at the end name the command itself.
            self.assertIn("\n  weft ", text)

    def test_help_of_a_command_in_three_ways(self):
        for name in COMMANDS:
            for args in (name, "-h"), ("help", name):
                self.assertEqual(self.weft(*args)[1].decode(), self.help_of(name))

    def options_of(self, name):
        return set(re.findall(r"--[a-z][a-z-]*", self.help_of(name))) | {"--version", "--help"}

    def test_completion_knows_the_options(self):
        for name in COMMANDS:
            script = (f"source {COMPLETION}; COMP_WORDS=(weft {name} --); COMP_CWORD=2; _weft; "
                      "printf '%s\\n' \"${COMPREPLY[@]}\"")
            said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=common.WAIT,
                                  check=True)
            self.assertEqual(set(said.stdout.split()), self.options_of(name), name)

    def test_manual_pages_know_the_options(self):
        def page(name):
            with open(os.path.join(common.TOP, "doc", "man", name), encoding="utf-8") as file:
                return file.read().replace("*", "").replace("_", "")
        general = page("weft.1.scd")
        for name in COMMANDS:
            text = page(f"weft-{name}.1.scd") + general
            for option in self.options_of(name):
                self.assertIn(option, text, name)

    def test_version(self):
        for args in ("--version",), ("-V",), ("send", "--version"):
            status, out, err = self.weft(*args)
            self.assertEqual((status, err), (DONE, ""))
            self.assertRegex(out.decode(), r"^weft \d+\.\d+\.\d+\nlibweft \d+\.\d+\.\d+\n"
                                           r"libfabric (\d+\.\d+) at compile time, (\d+\.\d+) at run time\n$")
        running = ".".join(str(part) for part in common.libfabric_version())
        self.assertEqual(self.document("--version")["versions"]["libfabric_running"], running)

    def test_help_as_a_document(self):
        self.assertIn("usage", self.document("send", "--help")["help"])


class Usage(tool.TestCase):
    """Each run waits 0.2 s for a library under libfabric, so they run beside one another."""

    def setUp(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(12)
        self.jobs = []

    def tearDown(self):
        with self.pool:
            for job in self.jobs:
                job.result()

    def assert_refused(self, *args, **kwargs):
        self.jobs.append(self.pool.submit(self.check_refused, *args, **kwargs))

    def check_refused(self, args, *words, status=USAGE):
        got, out, err = self.weft(*args)
        self.assertEqual((got, out), (status, b""), f"{args}: {err}")
        self.assert_one_line(err, *words)
        # At the front, since an option without its value would take it for that.
        for word in words:
            self.assertIn(word, self.document("--json", *args, status=status)["error"])
            break

    def test_commands(self):
        self.assert_refused([], "serve, send, ping or info")
        self.assert_refused(["frobnicate"], "'frobnicate'", "weft --help")
        self.assert_refused(["--frobnicate"], "'--frobnicate'", "weft --help")

    def test_options_of_every_command(self):
        for name in COMMANDS:
            self.assert_refused([name, "--frobnicate"], "'--frobnicate'", f"weft {name} --help")
            self.assert_refused([name, "-Z"], "'-Z'", f"weft {name} --help")
            self.assert_refused([name, "--json=yes"], "--json takes no value")
            for option in "--provider", "--domain", "--bind", "--require":
                self.assert_refused([name, option], f"{option} needs a value")
                self.assert_refused([name, f"{option}="], f"{option}: the value is empty")

    def test_options_of_another_command(self):
        self.assert_refused(["serve", "--count", "1"], "'--count'")
        self.assert_refused(["ping", "--file", "x", NOWHERE], "'--file'")
        self.assert_refused(["info", "-q"], "'-q'")

    def test_durations(self):
        bad = ("0", "0ms", "-1", "+1", " 1", "1 ", "1h", "ms", "x", "1s2", "0x10", "1.", ".5", "1.5ms", "0.0001",
               "2147484", "2147483648ms", "36000m", "99999999999999999999")
        for value in bad:
            self.assert_refused(["ping", f"--interval={value}", NOWHERE], "--interval", f"'{value}'", "500ms")
        for option in "--deadline", "--timeout":
            self.assert_refused(["ping", f"{option}=1h", NOWHERE], option, "'1h'", "500ms")
        self.assert_refused(["send", "--timeout=", NOWHERE], "--timeout")

    def test_sizes(self):
        for value in "x", "-1", "64q", "64kB", "1.5M", "k", " 1", "0x10", "99999999999999999999", "17179869184G":
            self.assert_refused(["ping", f"--size={value}", NOWHERE], "--size", f"'{value}'", "64k")
        self.assert_refused(["ping", "--size=2G", NOWHERE], "--size", "out of range", "1073741824")
        self.assert_refused(["serve", "--memory=1k"], "--memory", "out of range")
        self.assert_refused(["serve", "--max-message=0"], "--max-message", "out of range")
        self.assert_refused(["serve", "--memory=1M", "--max-message=2M"], "--memory", "--max-message")

    def test_counts(self):
        for args in (["send", "--count=0", NOWHERE], ["ping", "--count=x", NOWHERE], ["serve", "--max-peers=0"],
                     ["send", "--retry=1k", NOWHERE], ["send", "--retry=-1", NOWHERE]):
            self.assert_refused(args, args[1].split("=")[0], "'" + args[1].split("=")[1] + "'")

    def test_service(self):
        self.assert_refused(["serve", "--service", "revers"], "'revers'", "reverse, echo and discard")

    def test_operands(self):
        self.assert_refused(["send"], "ADDRESS is missing")
        self.assert_refused(["ping"], "ADDRESS is missing")
        self.assert_refused(["serve", "x"], "'x'")
        self.assert_refused(["ping", NOWHERE, "x"], "'x'")
        self.assert_refused(["send", NOWHERE, "one", "two"], "'two'", "quote")

    def test_addresses(self):
        for address, words in (("nonsense", "byte 0"), ("http://127.0.0.1:5", "byte 0"),
                               ("tcp://127.0.0.1", "byte 15"), ("tcp://127.0.0.1:0", "byte 16"),
                               ("tcp://127.0.0.1:65536", "byte 16"), ("tcp://0.0.0.0:5", "byte 6"),
                               (EFA[:-1], "byte 63"), (EFA + "0", "byte"), ("efa://" + "0" * 64, "byte"),
                               ("127.0.0.1:65536", "byte"), ("localhost:", "byte"), ("localhost:0", "port 0"),
                               ("tcp//127.0.0.1:9000", "'://'"),
                               ("tcp://no.such.host.invalid:5", "looked up"), ("", "byte 0")):
            self.assert_refused(["send", address], f"'{address}' is not a", words)
        for name in "ping", "info":
            self.assert_refused([name, "nonsense"], "'nonsense' is not an address", "byte 0")

    def test_what_is_wrong_is_found_before_a_fabric_is_opened(self):
        # With no provider at all, only what comes before opening can be found.
        env = common.environment(FI_PROVIDER="tpc")
        for args, word in ((["send", "tcp://127.0.0.1:x"], "not an address"), (["serve", "--rendezvous", "x"], "PORT"),
                           (["send", NOWHERE, "--file", "/nonexistent"], "/nonexistent"),
                           (["send", NOWHERE, "--output", "/nonexistent/x"], "/nonexistent/x")):
            status, _, err = self.weft(*args, env=env)
            self.assertEqual(status, USAGE)
            self.assert_one_line(err, word)

    def test_an_address_shows_no_control_bytes(self):
        _, _, err = self.weft("send", "\x1b[31mred\n")
        self.assert_one_line(err, r"'\x1b[31mred\n'")

    def test_binds(self):
        for bind, word in (("nonsense", "interface"), ("127.0.0.1:99999", "bind"), ("127.0.0.1:", "bind"),
                           ("[::1", "bind"), ("lo:x", "bind"), ("0.0.0.0", "unspecified")):
            self.assert_refused(["serve", "--provider", "tcp", "--bind", bind], word)
        self.assert_refused(["serve", "--bind", "lo", "--domain", "eth9"], "different interfaces")

    def test_providers(self):
        self.assert_refused(["serve", "--provider", "tpc"], "'tpc'", "efa, tcp, shm, udp, verbs")
        self.assert_refused(["serve", "--provider", "tcp", "--require", "rdma"], "rdma", status=FAILED)
        # One that libfabric offers is there, whatever its name.
        for provider in {one["provider"].split(";")[0] for one in self.document("info")["candidates"]}:
            self.assert_refused(["serve", "--provider", provider, "--domain", "nosuch"], "nosuch", status=FAILED)
        status, out, err = self.weft("send", "--provider", "shm", NOWHERE)
        self.assertIn(status, (FAILED, USAGE))
        self.assert_one_line(err, "shm")
        status, out, err = self.weft("info", "-v", "--provider", "tpc")
        self.assertEqual(status, USAGE)
        self.assertIn(b"'tpc' was asked for", out)
        self.assert_one_line(err, "'tpc'", "efa, tcp, shm, udp, verbs")

    @unittest.skipIf(os.path.exists("/sys/class/infiniband"), "there may be an EFA device here")
    def test_efa_without_a_device(self):
        words = "kernel module efa", "for software EFA start it by: softefa weft"
        self.assert_refused(["serve", "--provider", "efa"], *words, status=FAILED)
        self.assert_refused(["send", EFA], "reaches the peer's kind of address, efa", *words, status=FAILED)
        status, out, err = self.weft("info", "--provider", "efa")
        self.assertEqual(status, FAILED)
        self.assertRegex(out.decode(), r"^\(\d+ more, .*\)\n$")
        self.assert_one_line(err, *words)

    def test_rendezvous(self):
        for value in "x", "host:", "1:2:3", "65536", "[::1]", "127.0.0.1:-1":
            self.assert_refused(["serve", "--rendezvous", value], "--rendezvous", f"'{value}'", "7471")
        self.assert_refused(["serve", "--rendezvous", "no.such.host.invalid:1"], "looked up")
        self.assert_refused(["serve", "--rendezvous", "192.0.2.77:7471"], "cannot listen", status=FAILED)

    def test_nobody_is_at_the_rendezvous(self):
        self.assert_refused(["send", f"127.0.0.1:{common.free_port()}"], "Connection refused", "weft serve",
                            status=FAILED)
        self.assert_refused(["send", "no.such.host.invalid:7471"], "'no.such.host.invalid' cannot be looked up")

    def test_ambiguous_options(self):
        self.assert_refused(["send", "--ver", NOWHERE], "ambiguous option '--ver'")


class Files(tool.TestCase):
    """Files that are not there, not readable, not writable, or not files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def refuses(self, *args, status=USAGE):
        got, out, err = self.weft(*args)
        self.assertEqual((got, out), (status, b""), err)
        document = self.document(*args, status=status)
        self.assertIsNotNone(document["error"])
        return err

    def test_input(self):
        for name, why in ("/nonexistent", "No such file"), (self.folder, "Is a directory"):
            self.assert_one_line(self.refuses("send", "--file", name, NOWHERE), name, why)
        self.assert_one_line(self.refuses("send", "--file", "/etc/passwd", NOWHERE, "text"), "both", "--file")
        self.assert_one_line(self.refuses("send", "--count", "2", NOWHERE, "-"), "--count", "standard input")

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_input_without_the_right(self):
        with open(self.path("secret"), "w", encoding="ascii"):
            os.chmod(self.path("secret"), 0)
        self.assert_one_line(self.refuses("send", "--file", self.path("secret"), NOWHERE), "Permission denied")

    def test_closed_standard_input(self):
        server = self.serve()
        script = f'exec "{tool.TOOL}" send {server.address} - <&-'
        status, _, err = self.run_program("sh", "-c", script)
        self.assertIn(status, (FAILED, USAGE))
        self.assertIn("standard input", err)

    def test_output(self):
        for name, why in (("/nonexistent/x", "No such file"), (self.folder, "Is a directory"),
                          ("/etc/passwd/x", "Not a directory")):
            self.assert_one_line(self.refuses("send", "--output", name, NOWHERE), "--output", name, why)

    def test_a_failure_leaves_the_old_file(self):
        with open(self.path("old"), "w", encoding="ascii") as file:
            file.write("precious")
        status, _, _ = self.weft("send", "--timeout", "200ms", "--output", self.path("old"), NOWHERE)
        self.assertEqual(status, common.TIMEOUT)
        with open(self.path("old"), encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")
        self.assertEqual(os.listdir(self.folder), ["old"])

    def test_address_file(self):
        for name in "/nonexistent/x", self.folder:
            got, out, err = self.weft("serve", "--address-file", name)
            self.assertEqual((got, out), (FAILED, b""), err)
            self.assertIn(name, err.splitlines()[-1])

    def test_lost_standard_output(self):
        for args in ("--help",), ("--version",), ("info",), ("info", "--json"), ("serve",), ("send", "--json"):
            for where in "/dev/full", None:
                with open(where, "wb") if where else self.closed_pipe() as out:
                    status, _, err = self.weft(*args, stdout=out)
                # What was wrong before stays the cause.
                self.assertEqual(status, USAGE if args[0] == "send" else FAILED, f"{args} {where}: {err}")
                self.assertIn("standard output", err.splitlines()[-1])

    @staticmethod
    def closed_pipe():
        reader, writer = os.pipe()
        os.close(reader)
        return os.fdopen(writer, "wb")

    def test_closed_descriptors(self):
        for closed in "0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-":
            status, _, _ = self.run_program("sh", "-c", f'exec "{tool.TOOL}" info {closed}')
            self.assertEqual(status, FAILED if "1>" in closed else DONE, closed)


if __name__ == "__main__":
    common.main()
