# SPDX-License-Identifier: MIT
"""The second implementation of the protocol with the library itself: sessions over a pipe to pipe.c.

WEFT_PIPE names the program; without it the one under build/ is taken.
"""
import os
import re
import struct
import subprocess
import unittest

import weftpeer
from weftpeer import decode, encode

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PIPE = os.environ.get("WEFT_PIPE", os.path.join(TOP, "build", "tests", "pipe"))


class PipeTest(unittest.TestCase):
    def setUp(self):
        self.process = subprocess.Popen([PIPE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.kill)
        self.now = 0
        self.events = []  # what the library tells its user
        self.frames = []  # all that it sent, decoded
        letter, address = self.read()
        self.assertEqual(letter, "A")
        self.peer = weftpeer.Peer(7, addr=address, provider=b"python")
        self.ask("T")  # tells what time it is there

    def tearDown(self):
        """The library gives everything back."""
        self.process.stdin.close()
        self.assertEqual(self.process.wait(60), 0)

    def read(self):
        length, letter = struct.unpack("<Ic", self.process.stdout.read(5))
        return letter.decode(), self.process.stdout.read(length)

    def ask(self, letter, data=b""):
        """Sends a packet, and takes what comes of it."""
        self.process.stdin.write(struct.pack("<Ic", len(data), letter.encode()) + data)
        self.process.stdin.flush()
        while True:
            letter, data = self.read()
            if letter == "D":
                self.now = int.from_bytes(data, "little")
                return
            if letter == "E":
                self.events.append(data.decode())
            else:
                frame = decode(data)
                self.assertEqual(encode(frame).hex(), data.hex())
                self.frames.append(frame)
                self.peer.receive(data, self.now)

    def run_until(self, condition, turns=400):
        """Lets both go on until that is so."""
        for _ in range(turns):
            if condition():
                return
            self.peer.tick(self.now)
            for frame in self.peer.frames(self.now):
                self.ask("F", frame)
            self.ask("T")
        self.fail(f"not so: {self.events} {self.peer.events} {self.peer.state}")

    def told(self, pattern):
        return any(re.search(pattern, event) for event in self.events)

    def open(self, outgoing):
        """A session that this side connects, or that the library does."""
        if outgoing:
            self.peer.connect(self.now)
        else:
            self.ask("N")
        self.run_until(lambda: self.peer.state == "open" and self.told(rf"^opened {int(not outgoing)} python$"))

    def messages(self):
        return [event[1:] for event in self.peer.events if event[0] == "message"]

    def exchange(self):
        """Messages both ways, and answers to them."""
        ids = [self.peer.send(f"question {i}".encode()) for i in range(40)]
        self.run_until(lambda: len(self.messages()) == 40)
        self.assertEqual([(reply_to, text) for _, reply_to, text in self.messages()],
                         [(ids[i], f"question {i}!".encode()) for i in range(40)])
        self.run_until(lambda: sum(event[0] == "acked" for event in self.peer.events) == 40)
        for i in range(40):
            self.assertIn(f"message {ids[i]} question {i}", self.events)
        for i in range(20):
            self.ask("M", f"and you {i}".encode())
        self.run_until(lambda: len(self.messages()) == 60)
        self.run_until(lambda: sum(event == "sent 0 " for event in self.events) == 20)
        for number, _, text in self.messages()[40:]:
            self.peer.send(text.upper(), reply_to=number)
        self.run_until(lambda: self.told("^reply 0 AND YOU 19$"))
        self.assertEqual(sum(event.startswith("reply 0 AND YOU") for event in self.events), 20)

    def ended(self):
        return [event[1:] for event in self.peer.events if event[0] == "ended"]

    def check_end(self, reason, by_peer):
        """Both know the end of the session, and by whom."""
        self.run_until(lambda: self.peer.state == "gone" and self.told("^closed"))
        self.assertEqual(len(self.ended()), 1)
        self.assertEqual((self.ended()[0][0], self.ended()[0][3]), (reason, []))
        self.assertTrue(self.told(rf"^closed{'-by-peer' if by_peer else ''} {reason} "), self.events)

    def test_connected_and_closed_by_this_side(self):
        self.open(True)
        self.exchange()
        self.peer.close(text=b"enough")
        self.check_end(weftpeer.CLOSED, True)
        self.assertTrue(self.told("enough"), self.events)

    def test_connected_by_this_side_and_closed_by_the_library(self):
        self.open(True)
        self.exchange()
        self.ask("C")
        self.check_end(weftpeer.CLOSED, False)

    def test_connected_by_the_library_and_closed_by_this_side(self):
        self.open(False)
        self.exchange()
        self.peer.close()
        self.check_end(weftpeer.CLOSED, True)

    def test_connected_and_closed_by_the_library(self):
        self.open(False)
        self.exchange()
        self.ask("C")
        self.check_end(weftpeer.CLOSED, False)

    def test_what_is_queued_arrives_before_the_end(self):
        self.open(True)
        for i in range(200):
            self.peer.send(f"{i} ".encode() + b"x" * 500)
        self.peer.close()
        self.check_end(weftpeer.CLOSED, True)
        self.assertEqual(sum(event.startswith("message ") for event in self.events), 200)

    def test_idle_for_long(self):
        self.open(True)
        end = self.now + 40000
        self.run_until(lambda: self.now > end, 2000)
        self.assertEqual(self.peer.state, "open")
        self.assertIn("PONG", [frame["type"] for frame in self.frames])
        self.exchange()
        self.ask("C")
        self.check_end(weftpeer.CLOSED, False)

    def test_refused(self):
        self.peer.refusal = (77, b"not you")
        self.ask("N")
        self.run_until(lambda: self.told(rf"^closed-by-peer {weftpeer.REFUSED} .*not you"))

    def test_a_peer_that_falls_silent(self):
        self.open(True)
        for _ in range(2000):
            if self.told("^closed"):
                break
            self.ask("T")
        self.assertTrue(self.told(rf"^closed {weftpeer.SILENT} "), self.events)

    def test_a_frame_that_is_cut_short(self):
        self.open(True)
        self.peer.send(b"x" * 100)
        frame = self.peer.frames(self.now)[0]
        self.ask("F", frame[:-20])
        self.run_until(lambda: self.told(rf"^closed {weftpeer.BROKEN} ") and self.peer.state == "gone")
        self.assertEqual(self.ended()[0][0], weftpeer.BROKEN)


if __name__ == "__main__":
    unittest.main()
