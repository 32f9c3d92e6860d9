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
from weftpeer import decode, decode_part, encode, encode_part

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
        self.bundled = 0  # how many of them were in a BUNDLE
        self.bundles_sent = 0  # by this side
        letter, address = self.read()
        self.assertEqual(letter, "A")
        self.peer = weftpeer.Peer(7, addr=address, provider=b"python")
        self.second = None  # another session of the same node, in some tests
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
                self.take(data)

    def take(self, data):
        """Gives what the library has sent to the session that it is for, and of a bundle each what it has in it."""
        message = decode(data)
        self.assertEqual(encode(message).hex(), data.hex())
        parts = message.get("bundled", [data])
        self.bundled += len(message.get("bundled", []))
        frames = [decode_part(part) for part in parts]
        self.frames += frames
        self.assertEqual([encode_part(frame) for frame in frames], parts)
        others = [self.second is not None and frame["header.session"] == self.second.hello["session"]
                  for frame in frames]
        for peer, which in (self.peer, False), (self.second, True):
            mine = [part for part, other in zip(parts, others) if other == which]
            if mine == parts:
                peer.receive(data, self.now)
            elif mine:
                peer.receive(encode({"type": "BUNDLE", "bundled": mine}), self.now)

    def run_until(self, condition, turns=400):
        """Lets both go on until that is so."""
        for _ in range(turns):
            if condition():
                return
            for frame in self.outgoing():
                self.ask("F", frame)
            self.ask("T")
        self.fail(f"not so: {self.events} {self.peer.events} {self.peer.state}")

    def outgoing(self):
        """What this side sends now: what two open sessions send, in one bundle if it is not too much."""
        peers = [peer for peer in (self.peer, self.second) if peer is not None]
        for peer in peers:
            peer.tick(self.now)
        frames = [peer.frames(self.now) for peer in peers]
        out = sum(frames, [])
        bundle = encode({"type": "BUNDLE", "bundled": out})
        is_open = all(peer.state == "open" for peer in peers)
        if len(peers) > 1 and is_open and all(frames) and len(bundle) <= self.peer.theirs["max_frame"]:
            out = [bundle]
        self.bundles_sent += sum(decode(data)["type"] == "BUNDLE" for data in out)
        return out

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

    def texts(self, peer):
        return [event[3] for event in peer.events if event[0] == "message"]

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

    def exchange_in_bundles(self, outgoing):
        self.peer.bundle = 0.7
        self.open(outgoing)
        self.exchange()
        self.peer.close()
        self.check_end(weftpeer.CLOSED, True)
        self.assertGreater(self.bundles_sent, 5)
        # The library has one session with this node, and so no reason to do the same.
        self.assertEqual(self.bundled, 0)

    def test_in_bundles_connected_by_this_side(self):
        self.exchange_in_bundles(True)

    def test_in_bundles_connected_by_the_library(self):
        self.exchange_in_bundles(False)

    def test_two_sessions(self):
        """Both of one node, whose frames come in one bundle and are answered in one."""
        self.open(True)
        self.second = weftpeer.Peer(8, addr=self.peer.hello["addr"], provider=b"python")
        self.second.hello["instance"] = self.peer.hello["instance"]
        self.second.connect(self.now)
        self.run_until(lambda: sum(event.startswith("opened 0 ") for event in self.events) == 2)
        both = ("one", self.peer), ("two", self.second)
        wanted = {self.peer: [], self.second: []}
        for i in range(20):
            # At first two each, since the first answer of all leaves at once, and so alone; then a single one, which
            # the library answers in the compact form.
            for name, peer in both:
                for part in "ab" if i < 10 else "a":
                    question = f"{name} {i} {part} ".encode() + b"x" * i * 10
                    peer.send(question)
                    wanted[peer].append(question + b"!")
            self.run_until(lambda: all(self.texts(peer) == answers for peer, answers in wanted.items()))
        self.assertEqual([(peer.state, peer.dropped) for _, peer in both], [("open", 0)] * 2)
        self.assertGreater(min(self.bundled // 2, self.bundles_sent), 10)
        self.assertIn("COMPACT", [frame["type"] for frame in self.frames])
        # The library closes the session that was the last to open, and this side the other one.
        self.ask("C")
        self.run_until(lambda: self.second.state == "gone" and self.told(f"^closed {weftpeer.CLOSED} "))
        self.assertEqual(self.peer.state, "open")
        self.peer.close()
        self.check_end(weftpeer.CLOSED, True)

    def test_a_bundle_with_all_sorts_in_it(self):
        """What harms by itself is dropped by itself."""
        self.open(True)
        session = self.peer.theirs["session"]
        for text in b"first", b"second":
            self.peer.send(text)
            frame = self.peer.frames(self.now)[0]
            not_known = encode({"type": "REJECT", "header.session": session, "quoted": self.peer.hello["session"],
                                "reason": weftpeer.NOT_KNOWN, "code": 0, "text": b""})
            inner = encode({"type": "BUNDLE", "bundled": [not_known]})
            nobody = encode({"type": "CREDIT", "header.session": session ^ 1})
            malformed = encode({"type": "CLOSED", "header.session": session}) + b"x"
            bundle = encode({"type": "BUNDLE", "bundled": [bytes(32), not_known, inner, nobody, malformed, frame]})
            # What stands after the place where a bundle is malformed is dropped, and nothing in front of it.
            self.ask("F", bundle + bytes(8) + not_known)
            self.assertTrue(self.told(f"^message [0-9]+ {text.decode()}$"), self.events)
        self.peer.close()
        self.check_end(weftpeer.CLOSED, True)

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
