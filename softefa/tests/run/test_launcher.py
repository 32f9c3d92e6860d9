# SPDX-License-Identifier: MIT
"""The command softefa, and what is seen of the device where it was not asked for."""
import os
import shutil
import sys
import tempfile
import unittest

import device  # first: it knows where the others are
import common
from device import SOFTEFA



class Launcher(device.TestCase):
    def run_in(self, *command, **env):
        return self.run_program(*command, env=device.others(**env))

    def test_says_once_that_it_is_software(self):
        status, out, err = self.run_in(SOFTEFA, SOFTEFA, "sh", "-c",
                                       "echo $SOFTEFA $FI_EFA_ENABLE_SHM_TRANSFER $SOFTEFA_LAUNCHER")
        self.assertEqual(status, 0, err)
        self.assertEqual(out, f"1 0 {SOFTEFA}")
        self.assertEqual(err.count("software"), 1, err)

    def test_leaves_what_is_set(self):
        status, out, _ = self.run_in(SOFTEFA, "sh", "-c", "echo $FI_EFA_ENABLE_SHM_TRANSFER $LD_PRELOAD",
                                     FI_EFA_ENABLE_SHM_TRANSFER="1", LD_PRELOAD="")
        self.assertEqual(status, 0)
        self.assertTrue(out.startswith("1 "), out)

    def test_status_is_the_commands(self):
        self.assertEqual(self.run_in(SOFTEFA, "sh", "-c", "exit 42")[0], 42)
        status, _, err = self.run_in(SOFTEFA, "no-such-command-anywhere")
        self.assertEqual(status, 127)
        self.assertIn("no-such-command-anywhere: not found", err)

    def test_usage(self):
        status, out, err = self.run_in(SOFTEFA)
        self.assertEqual((status, out), (2, ""))
        self.assertIn("usage: softefa COMMAND", err)
        status, out, err = self.run_in(SOFTEFA, "--help")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("usage: softefa COMMAND", out)
        status, out, _ = self.run_in(SOFTEFA, "--version")
        self.assertRegex(out, r"^softefa \d+\.\d+\.\d+$")

    def test_without_being_asked_there_is_no_device(self):
        for how in "unset SOFTEFA", "SOFTEFA=0":
            # The launcher knows what has to be loaded before the library.
            status, out, err = self.run_in(SOFTEFA, "sh", "-c", f'{how}; exec "$@"', "sh",
                                           common.REVERSE, "--provider", "efa")
            self.assertEqual(status, common.FAILED, out + err)
            self.assertNotIn("softefa0", out)

    def test_calls_reach_the_real_library(self):
        # Also those of a libfabric that was loaded for its caller alone. 4 is IBV_WC_LOC_PROT_ERR.
        text = ("import ctypes; ctypes.CDLL('libfabric.so.1'); own = ctypes.CDLL(None).ibv_wc_status_str; "
                "own.restype = ctypes.c_char_p; print(own(4).decode())")
        for how in "unset SOFTEFA", "SOFTEFA=0", "SOFTEFA=":
            status, out, err = self.run_in(SOFTEFA, "sh", "-c", f'{how}; exec "$@"', "sh", sys.executable, "-c", text)
            self.assertEqual((status, out), (0, "local protection error"), err)

    def test_a_folder_that_cannot_be_preloaded_from_is_refused(self):
        with tempfile.TemporaryDirectory(prefix="with blank ") as folder:
            for name in "softefa", "libsoftefa.so":
                shutil.copy(os.path.join(os.path.dirname(SOFTEFA), name), folder)
            status, out, err = self.run_in(os.path.join(folder, "softefa"), "echo", "started")
            self.assertEqual((status, out), (127, ""), err)
            self.assertIn("libsoftefa.so cannot be preloaded: move it to a folder without blanks", err)

    def test_misspelt_variable_is_said(self):
        for name, value in ("SOFTEFA_LOS", "2"), ("SOFTEFA_LOSS", "two"), ("SOFTEFA_BIND", "0.0.0.0"):
            status, _, err = self.run_in(SOFTEFA, common.REVERSE, "--provider", "efa", **{name: value})
            self.assertEqual(status, common.FAILED, err)
            self.assertRegex(err, rf"softefa: {name}: .*; there is no device")

    def test_address_that_is_not_here_is_said(self):
        # TEST-NET-3, which no machine has.
        status, _, err = self.run_in(SOFTEFA, common.REVERSE, "--provider", "efa", SOFTEFA_BIND="203.0.113.77")
        self.assertNotEqual(status, common.DONE)
        self.assertRegex(err, r"no socket at 203\.0\.113\.77 port \d+: .*; SOFTEFA_BIND must be an address")

    def test_no_folder_for_the_files_is_said(self):
        status, _, err = self.run_in(SOFTEFA, common.REVERSE, "--provider", "efa", TMPDIR="/nowhere/at/all")
        self.assertEqual(status, common.FAILED, err)
        self.assertIn("softefa: no folder for the device's files", err)

    def test_files_are_removed(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.efa_server(env={"TMPDIR": folder})
            self.assertEqual(len(os.listdir(folder)), 1)
            self.end(server)
            self.assertEqual(os.listdir(folder), [])
            # A killed one cannot; the next one does.
            server = self.efa_server(env={"TMPDIR": folder})
            server.kill()
            self.assertEqual(len(os.listdir(folder)), 1)
            left = os.listdir(folder)
            server = self.efa_server(env={"TMPDIR": folder})
            self.assertEqual(len(os.listdir(folder)), 1)
            self.assertNotEqual(os.listdir(folder), left)
            self.end(server)


@unittest.skipUnless(shutil.which("fi_info") and shutil.which("fi_pingpong"), "libfabric's programs are missing")
class Programs(device.TestCase):
    """libfabric's own programs, as the distribution has them."""

    def test_info(self):
        status, out, err = self.run_program(SOFTEFA, "fi_info", "-p", "efa", "-v", env=device.others())
        self.assertEqual(status, 0, err)
        self.assertIn("FI_ADDR_EFA", out)
        self.assertIn("domain: softefa0-rdm", out.replace("name: ", "domain: "))
        self.assertIn("src_addrlen: 32", out)
        self.assertRegex(out, r"softefa: software, not EFA|driver: softefa")

    def test_pingpong(self):
        command = [SOFTEFA, "fi_pingpong", "-p", "efa", "-e", "rdm", "-c", "-S", "all", "-I", "3"]
        port = str(common.free_port())
        server = self.start(common.Program, [*command, "-B", port], env=device.others())
        deadline = 0
        while True:
            # The client does not wait for a server that is not there yet.
            client = self.start(common.Program, [*command, "-P", port, "127.0.0.1"], env=device.others())
            if client.wait(90) == 0 or deadline == 20:
                break
            deadline += 1
        out = client.out.text()
        self.assertEqual(client.wait(), 0, out + client.err.text())
        self.assertEqual(server.wait(), 0, server.err.text())
        largest = r"^8k\s" if common.libfabric_version() >= (2, 1) else r"^6m\s"
        client.out.wait(r"^0\s")
        client.out.wait(largest)


if __name__ == "__main__":
    common.main()
