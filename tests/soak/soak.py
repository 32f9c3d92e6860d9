#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The soak test: processes of four nodes each that send to each other, are killed, stopped and
started again, and afterwards the books are compared.

    tests/soak/soak.py --provider tcp|shm|udp|efa [--seconds N] [--longest BYTES] [--seed N] [--program FILE]

What has to hold: every message came at most once, whole and in order, and those that did not come
are told to their sender as such (the processes and the books say so together); nothing hangs;
memory stays where it is. On shm and udp nobody is killed or stopped: their providers do not survive
that. The exit status is 0 if all held. Whatever was started is ended."""
import argparse
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HANG = 30  # seconds in which every process comes by, and somebody receives something

MAGIC, STREAMS, TEXT = 0x6b616f73, 16384, 240
NUMBERS = ("slot", "life", "node", "finished", "violations", "outs", "ins")
COUNTERS = ("beat_ms", "sent", "sent_bytes", "received", "received_bytes", "told", "asked",
            "answered", "memory", "memory_most", "opened", "closed", "failed", "lost", "restarted",
            "no_buffers", "stalls", "drop_malformed", "drop_unknown", "drop_source",
            "drop_duplicate", "drop_state", "recv_errors", "send_errors")
REASONS = ("none", "closed", "shutdown", "refused", "version", "feature", "full", "memory",
           "unknown", "protocol", "gap", "timeout", "lost", "restarted", "fabric", "address")
HEAD = struct.Struct(f"<I{len(NUMBERS)}I{len(COUNTERS)}Q{len(REASONS)}Q{TEXT}s")
OUT, IN = struct.Struct("<QIIIIII"), struct.Struct("<QIIII")


class Books:
    """What soak.h describes, of one node in one life of a process."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.read()

    def read(self):
        values = HEAD.unpack_from(self.map)
        self.valid = values[0] == MAGIC
        rest = values[1:]
        self.__dict__.update(zip(NUMBERS, rest))
        self.counters = dict(zip(COUNTERS, rest[len(NUMBERS):]))
        self.reasons = rest[len(NUMBERS) + len(COUNTERS):-1]
        self.text = rest[-1].split(b"\0")[0].decode("utf-8", "backslashreplace")

    def outgoing(self):
        end = HEAD.size + self.outs * OUT.size
        return OUT.iter_unpack(self.map[HEAD.size:end])

    def incoming(self):
        begin = HEAD.size + STREAMS * OUT.size
        return IN.iter_unpack(self.map[begin:begin + self.ins * IN.size])


class Slot:
    """A place for a process, which has one life after the other."""

    def __init__(self, soak, number):
        self.soak, self.number = soak, number
        self.life = -1
        self.process = None
        self.back = None     # when it is to be started again
        self.resume = None   # when it is to go on
        self.awake = 0.0     # since when it may be expected to come by
        self.ended = set()   # lives that were killed
        self.rss = []

    def start(self):
        self.life += 1
        self.back = None
        options = self.soak.options
        port = self.soak.port + self.number * options.nodes if self.soak.port else 0
        self.process = subprocess.Popen(
            [*self.soak.prefix, options.program, options.provider, self.soak.folder,
             str(self.number), str(self.life), str(options.processes), str(options.nodes),
             str(options.seed), str(port), str(options.longest)], env=self.soak.environment, stdin=subprocess.DEVNULL)
        self.awake = time.monotonic()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.ended.add(self.life)
        self.resume = None

    def books(self, life=None):
        for node in range(self.soak.options.nodes):
            path = os.path.join(self.soak.folder,
                                f"{self.number}.{self.life if life is None else life}.{node}.books")
            if os.path.exists(path) and os.path.getsize(path) > 0:
                books = Books(path)
                if books.valid:
                    yield books

    def note_memory(self):
        try:
            with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
                self.rss.append(int(file.read().split()[1]) * mmap.PAGESIZE)
        except OSError:
            pass


class Soak:
    def __init__(self, options):
        self.options = options
        self.chance = random.Random(options.seed)
        self.folder = tempfile.mkdtemp(prefix="weft-soak-")
        self.wrong = []
        self.kills = self.stops = 0
        self.prefix = []
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("FI_", "SOFTEFA"))}
        env["IPATH_NO_BACKTRACE"] = "1"
        env["FI_OFI_RXM_MSG_RX_SIZE"] = env["FI_OFI_RXM_MSG_TX_SIZE"] = "16"
        if options.provider == "efa":
            self.prefix = [options.softefa]
            env["SOFTEFA_STRICT"] = "1"
        self.environment = env
        # Below the ports that the kernel gives away; a process that comes back has its address again.
        self.port = self.chance.randrange(10000, 30000) if options.provider == "tcp" else 0
        self.harsh = options.provider in ("tcp", "efa")
        self.slots = [Slot(self, number) for number in range(options.processes)]
        self.progress = (0, time.monotonic())

    def run(self):
        end = time.monotonic() + self.options.seconds
        for slot in self.slots:
            slot.start()
        mishap = time.monotonic() + 2
        sample = 0.0
        while not self.wrong and (now := time.monotonic()) < end:
            time.sleep(0.02)  # the rhythm of the mishaps, not a wait for anything
            if self.harsh and now >= mishap:
                self.mishap(now)
                mishap = now + self.chance.uniform(0.2, 1.5)
            self.mend(now)
            if now >= sample:
                sample = now + 1
                self.look(now)
        self.finish()
        self.compare()

    def mishap(self, now):
        """The first two processes are never killed: they show whether memory grows."""
        slot = self.chance.choice(self.slots)
        if slot.back or slot.resume:
            return
        if slot.number >= 2 and self.chance.random() < 0.5:
            slot.kill()
            slot.back = now + self.chance.uniform(0, 1)
            self.kills += 1
        else:
            slot.process.send_signal(signal.SIGSTOP)
            slot.resume = now + self.chance.choice((0.05, 0.5, 5))
            self.stops += 1

    def mend(self, now):
        for slot in self.slots:
            if slot.resume and now >= slot.resume:
                slot.process.send_signal(signal.SIGCONT)
                slot.resume, slot.awake = None, now
            if slot.back and now >= slot.back:
                slot.start()
            if not slot.back and slot.process.poll() is not None:
                self.wrong.append(f"process {slot.number} has ended with status "
                                  f"{slot.process.returncode}")

    def look(self, now):
        received = 0
        for slot in self.slots:
            if slot.number < 2:
                slot.note_memory()
            for books in slot.books():
                received += books.counters["received"]
                late = now - max(books.counters["beat_ms"] / 1000, slot.awake)
                if late > HANG and not slot.resume and not slot.back:
                    self.wrong.append(f"process {slot.number} node {books.node} hangs")
                if books.violations:
                    self.wrong.append(f"process {slot.number} node {books.node}: {books.text}")
        if received != self.progress[0]:
            self.progress = (received, now)
        elif now - self.progress[1] > HANG:
            self.wrong.append("nobody receives anything")

    def finish(self):
        for slot in self.slots:
            if slot.process.poll() is not None:
                continue
            slot.process.send_signal(signal.SIGCONT)
            books = list(slot.books())
            if len(books) == self.options.nodes and all(b.counters["beat_ms"] for b in books):
                slot.process.send_signal(signal.SIGTERM)
            else:
                slot.kill()  # it has just been started, and may not know the signal yet
        deadline = time.monotonic() + 2 * HANG
        for slot in self.slots:
            try:
                status = slot.process.wait(max(0, deadline - time.monotonic()))
                if status != 0 and slot.life not in slot.ended:
                    self.wrong.append(f"process {slot.number} has ended with status {status}")
            except subprocess.TimeoutExpired:
                self.wrong.append(f"process {slot.number} does not end")

    def all_books(self):
        for slot in self.slots:
            for life in range(slot.life + 1):
                yield from slot.books(life)

    def compare(self):
        """Every stream's two ends."""
        received = {}
        self.total = dict.fromkeys(COUNTERS, 0)
        self.reasons = [0] * len(REASONS)
        self.unknown = 0
        lives = set()
        for books in self.all_books():
            killed = books.life in self.slots[books.slot].ended
            if not killed:
                lives.add(((books.slot << 16) | books.life) + 1)
                if not books.finished:
                    self.wrong.append(f"process {books.slot} node {books.node} was not closed")
            if books.violations:
                self.wrong.append(f"process {books.slot}.{books.life} node {books.node}: "
                                  f"{books.violations} violations, first: {books.text}")
            for name in COUNTERS:
                value = books.counters[name]
                most = name == "memory_most"
                self.total[name] = max(self.total[name], value) if most else self.total[name] + value
            self.reasons = [a + b for a, b in zip(self.reasons, books.reasons)]
            for stream, count, _, missed, _ in books.incoming():
                if stream in received:
                    self.wrong.append(f"stream {stream:x} has two receivers")
                received[stream] = (count, missed, not killed)
        streams = 0
        for books in self.all_books():
            for stream, accepted, ended, good, good_end, to_slot, to_life in books.outgoing():
                streams += 1
                count, missed, lived = received.get(stream, (0, 0, None))
                if lived is None:
                    lived = to_life in lives or bool(
                        to_slot and not self.slots[to_slot - 1].ended)
                    self.unknown += good_end > 0 and not lived
                if count > accepted:
                    self.wrong.append(f"stream {stream:x}: {count} received, {accepted} sent")
                if lived and count < good_end:
                    self.wrong.append(f"stream {stream:x}: message {good_end - 1} was called sent, "
                                      f"{count} were received")
                if books.finished and missed > accepted - good:
                    self.wrong.append(f"stream {stream:x}: {missed} missed, {accepted - good} told")
                if books.finished and ended != accepted:
                    self.wrong.append(f"stream {stream:x}: {accepted - ended} without an end")
                if good > ended or ended > accepted:
                    self.wrong.append(f"stream {stream:x}: {accepted}, {ended}, {good}")
        self.streams = streams
        for slot in self.slots[:2]:
            self.judge_memory(slot)

    def judge_memory(self, slot):
        """A process that lived all the time uses at its end about what it used after its start."""
        samples = slot.rss
        if len(samples) < 12:
            return
        quarter = len(samples) // 4
        early = max(samples[quarter:2 * quarter])
        late = sorted(samples[-quarter:])[quarter // 2]
        print(f"soak: process {slot.number}: {early >> 20} MiB in the second quarter at most, "
              f"{late >> 20} MiB in the last one (median)")
        if late > early * 1.25 + (16 << 20):
            self.wrong.append(f"process {slot.number} has grown from {early} to {late} bytes")

    def report(self):
        total = self.total
        print(f"soak: {self.options.provider}: {total['received']} messages received of "
              f"{total['sent']} sent, {total['received_bytes'] / 1e9:.2f} GB; {total['told']} told "
              f"as not known to be there; {total['answered']} of {total['asked']} answered")
        print(f"soak: {self.kills} kills, {self.stops} stops, {self.streams} streams, "
              f"{total['opened']} sessions opened, {total['failed']} failed; ends: " +
              ", ".join(f"{name} {count}" for name, count in zip(REASONS, self.reasons) if count))
        print("soak: " + ", ".join(f"{name} {total[name]}" for name in COUNTERS[14:]) +
              f"; weft's memory {self.total['memory_most'] / 2**20:.1f} MiB a node at most; "
              f"not to be judged: {self.unknown}")
        for line in self.wrong[:20]:
            print("soak: WRONG: " + line)
        print("soak: " + ("all held" if not self.wrong else f"{len(self.wrong)} wrong"), flush=True)

    def clean(self):
        for slot in self.slots:
            if slot.process and slot.process.poll() is None:
                slot.process.kill()
                slot.process.wait()
        if self.wrong and self.options.keep:
            print(f"soak: the books are in {self.folder}")
        else:
            shutil.rmtree(self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--provider", default="tcp", choices=("tcp", "shm", "udp", "efa"))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--longest", type=int, default=0, help="bytes of the longest messages (what fits a frame)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(31))
    parser.add_argument("--keep", action="store_true", help="leave the books of a run that failed")
    parser.add_argument("--program", default=os.environ.get(
        "WEFT_SOAK", os.path.join(TOP, "build", "tests", "soak")))
    parser.add_argument("--softefa", default=os.environ.get(
        "SOFTEFA_COMMAND", os.path.join(TOP, "build", "softefa", "softefa")))
    options = parser.parse_args()
    print(f"soak: --provider {options.provider} --seconds {options.seconds:g} "
          f"--longest {options.longest} --seed {options.seed}", flush=True)
    soak = Soak(options)
    try:
        soak.run()
        soak.report()
    finally:
        soak.clean()
    return 1 if soak.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
