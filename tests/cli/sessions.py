# SPDX-License-Identifier: MIT
"""What the tests of sessions between processes share: peers (peer.c) that do what they are told.

WEFT_PEER and WEFT_FLOOD name the programs; without them they are looked for under build/."""
import mmap
import os
import struct
import subprocess
import time
import tempfile

import common

PEER = os.environ.get("WEFT_PEER", os.path.join(common.TOP, "build", "tests", "peer"))
FLOOD = os.environ.get("WEFT_FLOOD", os.path.join(common.TOP, "build", "tests", "flood"))

CLOSED, UNKNOWN, LOST, RESTARTED, FABRIC = 1, 8, 12, 13, 14  # reasons of weft.h
QUICK = ("keepalive=200", "silence=1500")  # announced by peers whose silence is to be noticed soon


class Peer(common.Program):
    """A node in a process of its own."""

    def __init__(self, provider, *options, prefix=(), **kwargs):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "books")
        super().__init__([*prefix, PEER, provider, f"books={self.path}", *options], stdin=True,
                         **kwargs)
        try:
            self.address = self.out.wait(r"^address (\S+)$")[1]
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"{error}\nstderr:\n" + self.err.tail()) from None

    def kill(self):
        try:
            super().kill()
        except BrokenPipeError:
            pass
        self.folder.cleanup()

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def connect(self, address, ms=10000):
        """Begins a session. Returns its number."""
        seen = len(self.out.list)
        self.tell(f"connect {address} {ms}")
        return int(self.out.wait(r"^connecting (\d+)$", after=seen)[1])

    def meet(self, other):
        number = self.connect(other.address)
        self.out.wait(f"^opened {number}$")
        return number

    def ended(self, number, timeout=common.WAIT):
        """How many messages were sent in a session, how many arrived, and of how many that is not known."""
        match = self.out.wait(rf"^ended {number} sent=(\d+) good=(\d+) told=(\d+)$", timeout)
        return tuple(int(word) for word in match.groups())

    def reason(self, number, timeout=common.WAIT):
        """Why a session ended, when it has."""
        return int(self.out.wait(rf"^closed {number} reason=(\d+) ", timeout)[1])

    def ask(self, number, ms=10000):
        """The status of a question and its answer."""
        seen = len(self.out.list)
        self.tell(f"ask {number} {ms}")
        return int(self.out.wait(r"^answer (\S+)$", timeout=ms / 1000 + common.WAIT, after=seen)[1])

    def statistics(self):
        seen = len(self.out.list)
        self.tell("statistics")
        line = self.out.wait(r"^statistics: (.*)$", timeout=60, after=seen)[1]
        return {name: int(value) for name, value in (pair.split("=") for pair in line.split())}

    def received(self):
        """Messages received, and how many of them out of order. Also of one that was killed."""
        with open(self.path, "rb") as file, \
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as books:
            return struct.unpack("=QQ", books[:16])

    def leave(self):
        self.process.stdin.close()
        return self.wait()

    def memory(self):
        """Bytes that the process has in memory."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE


class Namespaces:
    """Two network namespaces with a link between them."""

    def __init__(self):
        self.names = [f"weft-test-{os.getpid()}-{side}" for side in "ab"]
        subnet = f"10.214.{os.getpid() % 250}"
        self.addresses = [f"{subnet}.{host}" for host in (1, 2)]
        try:
            for name in self.names:
                self.ip("netns", "add", name)
                self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", self.names[0], "link", "add", "link0", "type", "veth", "peer", "name",
                    "link1", "netns", self.names[1])
            for side in 0, 1:
                self.ip("-n", self.names[side], "addr", "add", f"{self.addresses[side]}/24", "dev",
                        f"link{side}")
                self.ip("-n", self.names[side], "link", "set", f"link{side}", "up")
            for side in 0, 1:
                self.wait_up(side)
        except subprocess.CalledProcessError:
            self.remove()
            raise

    def wait_up(self, side):
        """A link that was set up is only so when the kernel has seen its carrier."""
        end = time.monotonic() + common.WAIT
        while time.monotonic() < end:
            shown = subprocess.run(["ip", "-n", self.names[side], "link", "show", f"link{side}"],
                                   check=True, capture_output=True, timeout=common.WAIT)
            if b"state UP" in shown.stdout:
                return
            time.sleep(0.02)  # between two looks
        raise AssertionError(f"link{side} does not come up")

    @staticmethod
    def ip(*args):
        subprocess.run(["ip", *args], check=True, capture_output=True, timeout=common.WAIT)

    def prefix(self, side):
        return ["ip", "netns", "exec", self.names[side]]

    def run(self, side, *command):
        subprocess.run([*self.prefix(side), *command], check=True, capture_output=True,
                       timeout=common.WAIT)

    def link(self, state):
        """Takes the link down or up. The route goes and comes with it."""
        self.ip("-n", self.names[0], "link", "set", "link0", state)

    def lose(self, percent):
        """Loses so many of the packets that arrive, at both ends."""
        for side in 0, 1:
            self.run(side, "nft", "add table ip weft; add chain ip weft loss "
                     "{ type filter hook input priority 0; }; "
                     f"add rule ip weft loss numgen random mod 100 < {percent} drop")

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True,
                           timeout=common.WAIT)
