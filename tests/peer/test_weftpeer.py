# SPDX-License-Identifier: MIT
"""Two peers of the second implementation, which talk with each other over a link that delivers frames in any order."""
import random
import re
import unittest

import vectors
import weftpeer
from weftpeer import decode, decode_part, encode, encode_part


def states_of_the_page():
    """The table of states of doc/protocol.md, as {(state, event): next state}."""
    with open(vectors.PAGE, encoding="utf-8") as file:
        table = file.read().split("<!-- states:", 1)[1].split("\n\n", 1)[0]
    rows = re.findall(r"^\| ([a-z]+) \| ([a-z-]+) \| ([a-z]+) \|", table, re.M)
    return {(state, event): after for state, event, after in rows if state != "state"}


class Link:
    """Two peers, a that connects and b that accepts, and the frames between them."""

    def __init__(self, test, seed=1, **options):
        self.test = test
        self.random = random.Random(seed)
        self.a = weftpeer.Peer(seed * 2, **options)
        self.b = weftpeer.Peer(seed * 2 + 1, **options)
        self.now = 0
        self.under_way = []  # (to whom, frame)
        self.seen = []       # every frame, decoded
        self.bundles = []    # how many frames there were in each bundle
        self.lose = lambda frame: False  # with a frame, the bundle that it is in
        test.addCleanup(self.check_states)

    def collect(self):
        """Puts what both want to send on its way."""
        for peer, other in (self.a, self.b), (self.b, self.a):
            for data in peer.frames(self.now):
                self.test.assertEqual(encode(decode(data)), data)
                frames = [decode_part(part) for part in decode(data).get("bundled", [data])]
                if decode(data)["type"] == "BUNDLE":
                    self.test.assertLessEqual(len(data), other.hello["max_frame"])
                    self.bundles.append(len(frames))
                for frame in frames:
                    self.test.assertEqual(decode_part(encode_part(frame)), frame)
                    self.seen.append(frame)
                if not any(self.lose(frame) for frame in frames):
                    self.under_way.append((other, data))

    def run(self, until=lambda: False, in_order=False):
        """Delivers until there is nothing more to be delivered and nothing happens as time passes."""
        quiet = 0
        while quiet < 3 and not until():
            self.collect()
            if self.under_way:
                quiet = 0
                at = 0 if in_order else self.random.randrange(len(self.under_way))
                peer, data = self.under_way.pop(at)
                peer.receive(data, self.now)
            else:
                quiet += 1
                self.pass_time(50)
        return self

    def pass_time(self, milliseconds):
        self.now += milliseconds
        self.a.tick(self.now)
        self.b.tick(self.now)

    def open(self):
        self.a.connect(self.now)
        self.run()
        self.test.assertEqual((self.a.state, self.b.state), ("open", "open"))
        return self

    def count(self, kind):
        return sum(frame["type"] == kind for frame in self.seen)

    def check_states(self):
        """What the peers did is what the table says."""
        table = states_of_the_page()
        for state, event, after in self.a.trace + self.b.trace:
            self.test.assertEqual(table.get((state, event)), after, f"{state}, {event}")


def messages(peer):
    return [event[3] for event in peer.events if event[0] == "message"]


def ended(peer):
    """Why, with which code and text, and what was lost; None while it has not ended."""
    return next((event[1:] for event in peer.events if event[0] == "ended"), None)


class OpeningTest(unittest.TestCase):
    def test_open(self):
        link = Link(self).open()
        self.assertEqual(link.a.events, [("opened",)])
        self.assertEqual(link.b.events, [("opened",)])
        self.assertEqual([frame["type"] for frame in link.seen], ["CONNECT", "ACCEPT", "CREDIT"])

    def test_lost_connect_and_accept(self):
        link = Link(self)
        link.lose = lambda frame: link.count(frame["type"]) == 1 and frame["type"] in ("CONNECT", "ACCEPT")
        link.a.connect()
        link.run(until=lambda: link.b.state == "open")
        self.assertEqual(link.a.state, "open")
        self.assertEqual((link.count("CONNECT"), link.count("ACCEPT")), (3, 2))
        # Both CONNECTs that arrived were of one session.
        self.assertEqual(link.b.events, [("opened",)])

    def test_accept_twice(self):
        link = Link(self)
        link.a.connect()
        link.pass_time(200)
        link.run()
        self.assertEqual((link.count("CONNECT"), link.count("ACCEPT")), (2, 2))
        self.assertEqual(link.a.events, [("opened",)])

    def test_refused(self):
        link = Link(self)
        link.b.refusal = (42, b"busy")
        link.a.connect()
        link.run()
        self.assertEqual(ended(link.a), (weftpeer.REFUSED, 42, b"busy", []))
        self.assertIsNone(link.b.state)

    def test_no_answer(self):
        link = Link(self)
        link.lose = lambda frame: True
        link.a.send(b"in vain")
        link.a.connect()
        while link.a.state == "connecting":
            link.pass_time(50)
        self.assertEqual(ended(link.a), (weftpeer.NO_ANSWER, 0, b"", [1]))

    def test_other_versions_and_features(self):
        for change, reason in [({"version_min": 2, "version_max": 3}, weftpeer.BAD_VERSION),
                               ({"required": 1 << 31}, weftpeer.BAD_FEATURE)]:
            link = Link(self)
            link.a.hello.update(change)
            link.a.connect()
            link.run()
            self.assertEqual(ended(link.a)[0], reason)
            self.assertIsNone(link.b.state)

    def test_third(self):
        link = Link(self).open()
        third = weftpeer.Peer(99)
        third.connect()
        link.b.receive(third.frames(0)[0], 0)
        third.receive(link.b.frames(0)[0], 0)
        self.assertEqual(ended(third)[0], weftpeer.TOO_MANY)
        self.assertEqual(link.b.state, "open")

    def test_other_nonce(self):
        link = Link(self)
        link.a.connect()
        link.b.receive(link.a.frames(0)[0], 0)
        accept = decode(link.b.frames(0)[0])
        link.a.receive(encode({**accept, "nonce": accept["nonce"] ^ 1}), 0)
        self.assertEqual((link.a.state, link.a.dropped), ("connecting", 1))


class MessageTest(unittest.TestCase):
    def exchange(self, seed, first=0, **options):
        link = Link(self, seed, **options).open()
        chance = random.Random(seed)
        sent = {peer: [chance.randbytes(chance.choice([0, 1, 7, 8, 9, 100, 900])) for _ in range(300)]
                for peer in (link.a, link.b)}
        for peer in link.a, link.b:
            for name in "number", "acked", "sent", "returned", "taken", "told", "received", "consumed":
                setattr(peer, name, first)
            peer.their_returned = first
            peer.credit = peer.told_credit = peer._allowed()
        for one, other in zip(sent[link.a], sent[link.b]):
            link.a.send(one)
            link.b.send(other, reply_to=1)
        link.run()
        self.assertEqual(messages(link.b), sent[link.a])
        self.assertEqual(messages(link.a), sent[link.b])
        for peer in link.a, link.b:
            self.assertEqual([event[1] for event in peer.events if event[0] == "acked"], list(range(1, 301)))
            self.assertEqual(peer.dropped, 0)
        return link

    def test_in_any_order(self):
        for seed in range(1, 11):
            self.exchange(seed)

    def test_in_bundles(self):
        seen = set()
        for seed in range(1, 6):
            link = self.exchange(seed, bundle=seed / 5)
            self.assertGreater(max(link.bundles), 1)
            seen |= {frame["type"] for frame in link.seen}
        self.assertEqual(seen, {"CONNECT", "ACCEPT", "DATA", "COMPACT", "CREDIT"})

    def test_small_window(self):
        for window in 1, 2, 3:
            self.exchange(1, window=window, max_frame=1024)

    def test_numbers_wrap(self):
        link = self.exchange(3, first=2 ** 32 - 20, max_frame=1024)
        self.assertLess(link.a.number, 2 ** 31)

    def test_ids_wrap(self):
        link = Link(self).open()
        link.a.last_id = link.b.last_id_seen = 2 ** 32 - 2
        for message in b"x", b"y":
            link.a.send(message)
        link.run()
        self.assertEqual([event[1] for event in link.b.events if event[0] == "message"], [2 ** 32 - 1, 1])

    def test_frames_are_filled(self):
        link = Link(self, max_frame=1024).open()
        for size in 200, 200, 200, 200, 100, 976, 0:
            link.a.send(bytes(size))
        link.run()
        sizes = [[len(record[2]) for record in frame["records"]] for frame in link.seen if frame["type"] == "DATA"]
        self.assertEqual(sizes, [[200, 200, 200, 200, 100], [976], [0]])

    def test_credit(self):
        link = Link(self, window=4).open()
        self.assertEqual(link.a.give_back(3), 3)
        self.assertEqual(link.a.give_back(3), 1)
        self.assertEqual(link.a.give_back(3), 0)
        link.a.send(b"has to wait")
        link.a.owes = False
        self.assertEqual(link.a.frames(0), [])
        # Told so, the other side allows as many as before.
        link.a.owes = True
        link.run()
        self.assertEqual(messages(link.b), [b"has to wait"])
        self.assertEqual((link.b.their_returned, link.b.told_credit), (4, 9))

    def test_credit_exceeded(self):
        link = Link(self, window=2).open()
        link.a.credit += 1
        for _ in range(3):
            link.a.send(bytes(3000))
        # None has been taken when the third comes, since the first is late.
        link.collect()
        for _, data in reversed(link.under_way):
            link.b.receive(data, 0)
        self.assertEqual(ended(link.b)[0], weftpeer.BROKEN)
        link.under_way.clear()
        link.run()
        self.assertEqual(ended(link.a), (weftpeer.BROKEN, 0, b"", [1, 2, 3]))


class PartsTest(unittest.TestCase):
    """Messages that are longer than a frame."""

    def test_sizes(self):
        for seed in range(1, 6):
            link = Link(self, seed, max_frame=1024).open()
            chance = random.Random(seed)
            sizes = [0, 976, 977, 3, 976 * 2, 976 * 2 + 1, 64 * 1024, 1, 20000]
            sent = {peer: [chance.randbytes(size) for size in sizes] for peer in (link.a, link.b)}
            for one, other in zip(sent[link.a], sent[link.b]):
                link.a.send(one)
                link.b.send(other, reply_to=5)
            link.run()
            self.assertEqual(messages(link.b), sent[link.a])
            self.assertEqual(messages(link.a), sent[link.b])
            self.assertEqual({event[2] for event in link.a.events if event[0] == "message"}, {5})
            for peer in link.a, link.b:
                self.assertEqual([event[1] for event in peer.events if event[0] == "acked"], [*range(1, 10)])
                self.assertEqual((peer.reserved, peer.arriving, peer.dropped), (0, None, 0))

    def test_largest(self):
        link = Link(self, max_message=10000).open()
        link.a.send(bytes(10000))
        self.assertRaises(ValueError, link.a.send, bytes(10001))
        link.run()
        self.assertEqual(messages(link.b), [bytes(10000)])

    def test_too_long_before_it_was_known(self):
        link = Link(self, max_message=10000)
        link.a.connect()
        link.a.send(bytes(10001))
        link.run()
        self.assertEqual((ended(link.b)[0], messages(link.b)), (weftpeer.BROKEN, []))

    def test_budget(self):
        """A message waits for the memory of those before it, and so does all that is behind it."""
        link = Link(self, budget=50000, hold=True, max_frame=1024, window=100).open()
        for size in 30000, 20000, 10, 10000, 20:
            link.a.send(bytes(size))
        link.a.close()
        link.run()
        self.assertEqual([len(message) for message in messages(link.b)], [30000, 20000, 10])
        self.assertEqual((link.b.reserved, link.b.arriving), (50000, None))
        link.b.release(20000)
        link.run()
        self.assertEqual([len(message) for message in messages(link.b)], [30000, 20000, 10, 10000, 20])
        self.assertEqual((ended(link.a)[3], ended(link.b)[3]), ([], []))
        self.assertEqual(link.b.reserved, 40000)

    def test_longer_than_the_budget(self):
        link = Link(self, budget=5000).open()
        link.a.send(bytes(5001))
        link.run()
        self.assertEqual((ended(link.b)[0], ended(link.a)[0]), (weftpeer.MEMORY, weftpeer.MEMORY))

    def test_given_up(self):
        for frames_before in 0, 1, 3:
            link = Link(self, seed=frames_before + 1, max_frame=1024, window=max(frames_before, 1)).open()
            if frames_before == 0:
                link.a.send(b"in front")
            number = link.a.send(bytes(10000))
            link.a.send(b"behind")
            link.collect()
            self.assertTrue(link.a.give_up(number))
            self.assertFalse(link.a.give_up(number))
            link.run()
            self.assertEqual(messages(link.b)[-1], b"behind")
            self.assertNotIn(bytes(10000), messages(link.b))
            self.assertEqual((link.b.last_id_seen, link.b.reserved, link.b.arriving), (link.a.last_id, 0, None))
            self.assertNotIn(("acked", number), link.a.events)
            link.a.close()
            link.run()
            self.assertEqual((ended(link.a)[3], ended(link.b)[0]), ([], weftpeer.CLOSED))
        self.assertFalse(link.a.give_up(number))

    def test_parts_that_do_not_fit(self):
        first = (1, 0, b"abc", 5)
        for records in ([(1, 0, b"", 5)],                                # nothing of it
                        [(2, 0, b"abc", 5)],                             # not the next one
                        [first, (2, 0, b"x", 0)],                        # not alone
                        [(1, 0, b"x", 0), (2, 0, b"abc", 5)],
                        [(1, 0, b"abc", 2 ** 32 - 2)],                   # longer than all that are taken
                        [(1, 0, b"abc", weftpeer.NEVER)],                # given up, with bytes
                        [(2, 0, b"", weftpeer.NEVER)]):
            self.break_with([records])
        for second in ((1, 0, b"de", 2), (1, 0, b"de", 4), (1, 0, b"de", 0), (1, 0, b"", 5), (1, 0, b"defghi", 0),
                       (2, 0, b"de", 3), (2, 0, b"defgh", 0), (2, 0, b"", weftpeer.NEVER),
                       (1, 0, b"d", weftpeer.NEVER)):
            self.break_with([[first], [second]])
        self.break_with([[first], [(1, 0, b"defgh", 0), (2, 0, b"x", 0)]])
        self.break_with([[first], [(1, 0, b"", weftpeer.NEVER), (2, 0, b"x", 0)]])

    def break_with(self, frames):
        link = Link(self).open()
        for number, records in enumerate(frames, 1):
            self.assertIsNone(ended(link.b))
            link.b.receive(encode({"type": "DATA", "header.session": link.b.hello["session"], "number": number,
                                   "records": records, "padded": 0}), 0)
        self.assertEqual((ended(link.b)[0], messages(link.b)[1:]), (weftpeer.BROKEN, []), frames)

    def test_end_in_the_middle(self):
        for closing in "a", "b":
            link = Link(self, max_frame=1024, window=2).open()
            number = link.a.send(bytes(10000))
            link.collect()
            getattr(link, closing).close(code=4)
            link.run()
            arrives = closing == "a"
            self.assertEqual(messages(link.b), [bytes(10000)] if arrives else [])
            self.assertEqual(ended(link.a), (weftpeer.CLOSED, 4, b"", [] if arrives else [number]))


class BundleTest(unittest.TestCase):
    """Frames of this session and of others in one message."""

    def bundled(self, link, *frames):
        """Gives b a bundle of these frames; those in Python have the session id of b where they do not say another."""
        session = {"header.session": link.b.hello["session"]}
        parts = [frame if isinstance(frame, bytes) else encode({**session, **frame}) for frame in frames]
        link.b.receive(encode({"type": "BUNDLE", "bundled": parts}), 0)
        return parts

    def data(self, number, text):
        return {"type": "DATA", "number": number, "records": [(number, 0, text, 0)], "padded": 0}

    def test_where_it_is_not_known(self):
        for side in "a", "b":
            link = Link(self, bundle=1.0)
            getattr(link, side).hello["features"] = 0
            link.open()
            link.a.send(b"alone")
            link.b.send(b"this one too")
            link.run()
            self.assertEqual((messages(link.a), messages(link.b)), ([b"this one too"], [b"alone"]))
            self.assertEqual(link.bundles, [])

    def test_each_by_itself(self):
        link = Link(self).open()
        hello = {**link.a.hello, "nonce": 5, "header.session": 0, "credit": 1}
        not_known = {"type": "REJECT", "quoted": link.a.hello["session"], "reason": weftpeer.NOT_KNOWN, "code": 0,
                     "text": b""}
        ping = {"type": "PING", "header.session": 77, **{name: hello[name] for name in
                                                         ["session", "instance", "scheme", "format", "addr"]}}
        inner = encode({**self.data(2, b"inner"), "header.session": link.b.hello["session"]})
        refused = [{"type": "CONNECT", **hello}, {"type": "ACCEPT", **hello, "nonce": link.b.hello["nonce"]}, not_known,
                   {"type": "BUNDLE", "bundled": [inner]}]
        malformed = [bytes(32), encode({"type": "CREDIT", "header.session": link.b.hello["session"]}) + b"x"]
        other = [{**self.data(2, b"of nobody"), "header.session": 77}]
        self.bundled(link, self.data(1, b"first"), *refused, *malformed, *other, ping, self.data(3, b"third"),
                     self.data(2, b"second"))
        self.assertEqual(messages(link.b), [b"first", b"second", b"third"])
        self.assertEqual((link.b.state, link.b.dropped), ("open", len(refused + malformed + other)))
        # The PING alone has an answer, and each DATA has cost credit.
        out = [decode(data) for data in link.b.frames(0)]
        self.assertEqual([(frame["type"], frame.get("quoted"), frame["ack"]) for frame in out],
                         [("REJECT", 77, 0)])
        self.assertEqual(link.b.received, 3)
        # By itself it would have been the end.
        link.b.receive(encode({**not_known, "header.session": link.b.hello["session"]}), 0)
        self.assertEqual(ended(link.b)[0], weftpeer.NOT_KNOWN)

    def test_own_header_is_ignored(self):
        link = Link(self).open()
        part = encode({**self.data(1, b"taken"), "header.session": link.b.hello["session"]})
        link.b.receive(encode({"type": "BUNDLE", "flags": 0xff, "header.session": 77, "number": 5, "ack": 6,
                               "credit": 7, "returned": 1000, "bundled": [part]}), 0)
        self.assertEqual((messages(link.b), link.b.state, link.b.dropped), ([b"taken"], "open", 0))

    def test_malformed_from_there_on(self):
        """What stands before the place is taken, and the rest is not."""
        for change in [(0, b"\x1f"), (0, b"\0"), (0, b"\xff" * 4), (2, b"\1")]:
            link = Link(self).open()
            parts = [encode({**self.data(number, b"%d" % number), "header.session": link.b.hello["session"]})
                     for number in (1, 2, 3)]
            bundle = bytearray(encode({"type": "BUNDLE", "bundled": parts}))
            at = 32 + weftpeer.bundled_room(parts[0]) + change[0]
            bundle[at:at + len(change[1])] = change[1]
            link.b.receive(bytes(bundle), 0)
            self.assertEqual((messages(link.b), link.b.state, link.b.dropped), ([b"1"], "open", 1))
        for contents in b"", bytes(4), bytes(40):
            link.b.receive(encode({"type": "BUNDLE", "bundled": []}) + contents, 0)
        self.assertEqual((messages(link.b), link.b.state, link.b.dropped), ([b"1"], "open", 4))

    def test_broken_in_it(self):
        """As alone, it ends its own session, whatever else is in the bundle."""
        link = Link(self).open()
        self.bundled(link, self.data(1, b"before"), {"type": "OFFER", "number": 2, "id": 0, "reply_to": 0, "len": 9},
                     self.data(3, b"behind"))
        self.assertEqual((messages(link.b), ended(link.b)[0]), ([b"before"], weftpeer.BROKEN))


class EndTest(unittest.TestCase):
    def test_close(self):
        for seed in range(1, 6):
            link = Link(self, seed, window=2, max_frame=1024).open()
            for number in range(20):
                link.a.send(bytes(500 + number))
                link.b.send(bytes(500 + number))
            link.a.close(weftpeer.SHUTDOWN, 7, b"enough")
            self.assertRaises(ValueError, link.a.send, b"late")
            link.run()
            self.assertEqual(len(messages(link.b)), 20)
            self.assertEqual(ended(link.a), (weftpeer.SHUTDOWN, 7, b"enough", []))
            reason, code, text, lost = ended(link.b)
            self.assertEqual((reason, code, text), (weftpeer.SHUTDOWN, 7, b"enough"))
            # What the other side could not send or has no answer to is told, and all the rest arrived.
            arrived = len(messages(link.a))
            self.assertLessEqual(set(range(arrived + 1, 21)), set(lost))
            self.assertEqual((link.count("CLOSE"), link.count("CLOSED")), (1, 1))

    def test_closes_cross(self):
        link = Link(self).open()
        link.a.close(code=1)
        link.b.close(code=2)
        link.run(in_order=True)
        # Each gets the answer to its own, and has taken part in the order of numbers until then.
        self.assertEqual((ended(link.a)[1], ended(link.b)[1]), (1, 2))
        self.assertEqual((link.count("CLOSE"), link.count("CLOSED")), (2, 2))

    def test_closes_cross_in_any_order(self):
        for seed in range(1, 31):
            link = Link(self, seed, max_frame=1024, window=100).open()
            for number in range(10):
                link.a.send(bytes(300 * number))
                link.b.send(bytes(300 * number))
            link.a.close(code=1)
            link.b.close(code=2)
            link.run()
            self.assertEqual({len(messages(link.a)), len(messages(link.b))}, {10})
            self.assertEqual((ended(link.a)[3], ended(link.b)[3]), ([], []))
            self.assertEqual({peer.state for peer in (link.a, link.b)}, {"gone"})

    def test_closed_overtakes(self):
        """CLOSED ends nothing while something that was sent before it is on its way."""
        link = Link(self).open()
        link.b.send(b"late")
        link.collect()
        late = link.under_way.pop()
        link.a.close()
        link.run()
        self.assertEqual((link.count("CLOSED"), ended(link.b)[3], link.a.state), (1, [1], "closing"))
        link.under_way.append(late)
        link.run()
        self.assertEqual((messages(link.a), ended(link.a)), ([b"late"], (weftpeer.CLOSED, 0, b"", [])))

    def test_close_while_connecting(self):
        link = Link(self)
        link.a.connect()
        link.a.close()
        link.run()
        self.assertEqual(link.a.events, [("ended", weftpeer.CLOSED, 0, b"", [])])
        while link.b.state == "halfopen":
            link.pass_time(1000)
        self.assertEqual((link.b.state, link.b.events), ("gone", []))

    def test_nobody_answers_close(self):
        link = Link(self).open()
        link.lose = lambda frame: frame["type"] in ("CLOSED", "REJECT")
        link.a.send(b"arrives")
        link.a.close(code=3)
        link.run(until=lambda: ended(link.b))
        while link.a.state == "closing":
            link.pass_time(1000)
            link.run()
        self.assertEqual(ended(link.a)[0], weftpeer.SILENT)
        self.assertEqual(ended(link.b)[1], 3)

    def test_silent(self):
        link = Link(self).open()
        link.a.send(b"never arrives")
        link.lose = lambda frame: True
        while link.a.state == "open":
            link.pass_time(100)
            link.collect()
        self.assertEqual(ended(link.a), (weftpeer.SILENT, 0, b"", [1]))
        # After the keepalive, a PING; as long as the other side may be silent after that, the end; told in vain.
        self.assertEqual(link.now, 1050 + 5000)
        self.assertEqual(link.seen[-1]["type"], "CLOSE")

    def test_idle(self):
        link = Link(self).open()
        for _ in range(100):
            link.pass_time(200)
            link.run()
        self.assertEqual((link.a.state, link.b.state), ("open", "open"))
        self.assertEqual(link.count("PING"), link.count("PONG"))
        self.assertGreater(link.count("PING"), 10)

    def test_other_side_forgot(self):
        link = Link(self).open()
        link.b = weftpeer.Peer(77)
        link.pass_time(2000)
        link.run()
        self.assertEqual(link.count("REJECT"), 1)
        self.assertEqual(ended(link.a)[0], weftpeer.NOT_KNOWN)

    def test_strangers(self):
        """Answers that nobody asked for, of sessions that there are not."""
        link = Link(self).open()
        reject = {"type": "REJECT", "header.session": link.a.hello["session"], "quoted": 5, "code": 0, "text": b""}
        strange = [{**reject, "reason": weftpeer.TOO_MANY}, {**reject, "reason": weftpeer.NOT_KNOWN},
                   {"type": "CREDIT", "header.session": 1, "credit": 1000},
                   {"type": "ACCEPT", "header.session": link.a.hello["session"], "credit": 8,
                    **link.b.hello, "nonce": 5}]
        for frame in strange:
            link.a.receive(encode(frame), 0)
        self.assertEqual((link.a.state, link.a.dropped), ("open", len(strange)))

    def test_broken(self):
        data = {"type": "DATA", "number": 1, "records": [(1, 0, b"x", 0)], "padded": 0}
        offer = {"type": "OFFER", "number": 1, "id": 1, "reply_to": 0, "len": 10 ** 6}
        for frame in ({**data, "records": [(2, 0, b"x", 0)]}, {**data, "records": []}, {**data, "ack": 1},
                      {**data, "returned": 1000}, offer, {**offer, "id": 0}):
            link = Link(self).open()
            link.b.receive(encode({**frame, "header.session": link.b.hello["session"]}), 0)
            self.assertEqual(ended(link.b)[0], weftpeer.BROKEN)
            link.run()
            self.assertEqual(ended(link.a)[0], weftpeer.BROKEN)

    def test_anything(self):
        """Frames with any bytes changed end the session, or do not, and that is all they do."""
        for seed in range(1, 401):
            link = Link(self, seed, bundle=seed % 2, window=32).open()
            for number in range(20):
                link.a.send(bytes(number))
            link.a.close()
            link.collect()
            chance = random.Random(seed)
            damaged = []
            for peer, data in link.under_way:
                data = bytearray(data)
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                damaged.append((peer, bytes(data)))
            link.under_way = damaged
            while link.now < 30000 and {link.a.state, link.b.state} != {"gone"}:
                link.pass_time(500)
                link.run()
            self.assertEqual((link.a.state, link.b.state), ("gone", "gone"))

    def test_malformed_changes_nothing(self):
        for kind in "CREDIT", "PONG", "CLOSED":
            link = Link(self).open()
            frame = encode({"type": kind, "header.session": link.b.hello["session"]})
            link.b.receive(frame + b"\0", 0)
            self.assertEqual((link.b.state, link.b.dropped), ("open", 1))


if __name__ == "__main__":
    unittest.main()
