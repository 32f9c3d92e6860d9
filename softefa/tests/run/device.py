# SPDX-License-Identifier: MIT
"""What the tests of the software EFA device share, beside the helpers of the command-line tests.

SOFTEFA_COMMAND names the launcher; without it the one under build/ is taken.
"""
import os
import re
import signal
import struct
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(TOP, "tests", "cli"))

import common  # noqa: E402  (its place is known only now)

SOFTEFA = os.path.abspath(os.environ.pop("SOFTEFA_COMMAND", os.path.join(TOP, "build/softefa/softefa")))
STRICT = {"SOFTEFA_STRICT": "1"}
SOFTWARE = r"^softefa: the EFA device of this run is software"
ADDRESS = r"^efa://fe80000000000000" r"5efa0000([0-9a-f]{8})([0-9a-f]{4})0000([0-9a-f]{8})0{16}$"


def environment(**changes):
    """As that of the other programs, without variables of the device but those given, and strict."""
    env = common.environment(**{**STRICT, **changes})
    return {name: value for name, value in env.items()
            if not name.startswith("SOFTEFA") or name in {**STRICT, **changes}}


def others(**changes):
    """For programs that are not ours, and whose memory leaks are not either."""
    options = os.environ.get("ASAN_OPTIONS", "")
    return environment(ASAN_OPTIONS=f"{options}:detect_leaks=0", **changes)


def parts(address):
    """The IP address, queue number and key in an address of the device."""
    match = re.match(ADDRESS, address)
    if not match:
        raise AssertionError(f"{address} is no address of the device")
    ip, qpn, qkey = (bytes.fromhex(part) for part in match.groups())
    return ".".join(str(byte) for byte in ip), struct.unpack("=H", qpn)[0], qkey.hex()


def with_qpn(address, qpn):
    """The same address with another queue number."""
    return address[:38] + struct.pack("=H", qpn).hex() + address[42:]


class TestCase(common.TestCase):
    """A test case whose servers and clients run on the device."""

    def on_device(self, start, *args, prefix=(), env=None, **kwargs):
        return start(*args, prefix=[*prefix, SOFTEFA], env=environment(**(env or {})), **kwargs)

    def efa_server(self, *options, **kwargs):
        return self.on_device(self.server, "efa", *options, **kwargs)

    def efa_client(self, address, *text, **kwargs):
        return self.on_device(self.client, address, *text, **kwargs)

    def efa_exchange(self, address, *text, **kwargs):
        return self.on_device(self.exchange, address, *text, **kwargs)

    def stop(self, program):
        """Stops a process, all threads of it, until it is sent SIGCONT."""
        program.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def efa_hostile(self, address, **kwargs):
        return self.on_device(self.start, common.Hostile, address, **kwargs)

    def assert_serves(self, server, text="still there?"):
        reply = self.efa_exchange(server.address, text).reply()
        self.assertEqual(reply, (len(text), text[::-1]))

    def stats(self, path):
        """What each queue pair has counted, as a list of dictionaries."""
        with open(path, encoding="ascii") as file:
            return [{name: int(value) for name, value in (pair.split("=") for pair in line.split())}
                    for line in file]
