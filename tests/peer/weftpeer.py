# SPDX-License-Identifier: MIT
"""A second implementation of doc/protocol.md, written from that page: frames as bytes, and one side of a session.

It is transport-agnostic: frames go in with Peer.receive() and come out of Peer.frames(), and the time is given to it in
milliseconds. Of the protocol it lacks OFFER and GRANT, which it does not offer either.

A frame in Python is a dict with the names that the vectors have: "type" as in "DATA", "flags", "header.session",
"number", "ack", "credit", "returned", and the fields of its contents. What a BUNDLE holds is left as bytes. A message
in the compact form, which is found in one only, is such a dict too, of the type "COMPACT".
"""
import collections
import ipaddress
import random
import re
import struct

TYPES = [None, "CONNECT", "ACCEPT", "REJECT", "DATA", "OFFER", "GRANT", "ABORT", "CREDIT", "PING", "PONG", "CLOSE",
         "CLOSED", "BUNDLE"]
NUMBERED = {"DATA", "OFFER", "CLOSE"}
NOT_BUNDLED = {"CONNECT", "ACCEPT", "REJECT", "BUNDLE"}
VERSION = 1
ACK_NOW = 1
BUNDLES = 8
COMPACTS = 16
FEATURES = BUNDLES | COMPACTS  # that this side knows

CLOSED, SHUTDOWN, REFUSED, BAD_VERSION, BAD_FEATURE, TOO_MANY, MEMORY, NOT_KNOWN = range(1, 9)
BROKEN, LOST, NO_ANSWER, SILENT, RESTARTED, FABRIC, BAD_ADDRESS = range(9, 16)

EFA, TCP, UDP, VERBS, SHM, RAW = range(1, 7)
IN, IN6, STR, EFA_FORMAT = 2, 3, 9, 12

HEADER = struct.Struct("<2sBBBBHQIIII")
HELLO = struct.Struct("<BBHIIIQQQQIII")
HELLO_FIELDS = ["version_min", "version_max", None, "features", "required", "max_frame", "instance", "session", "nonce",
                "max_message", "keepalive_ms", "silence_ms", "libfabric"]
ADDRESS = struct.Struct("<BBHI")
FAREWELL = struct.Struct("<HHHH")
RECORD = struct.Struct("<IIII")
NEVER = 2 ** 32 - 1  # in place of how much of a message follows: it is given up
OFFER = struct.Struct("<IIQ")
GRANT = struct.Struct("<IIQII")
ABORT = struct.Struct("<IBBH")
PING = struct.Struct("<QQ")
BUNDLED = struct.Struct("<II")
COMPACT = struct.Struct("<IIQIIII")
IS_COMPACT = 2 ** 31


class Malformed(ValueError):
    """Bytes that are no frame."""


def check(condition, why):
    if not condition:
        raise Malformed(why)


def unpack(layout, data, at=0):
    check(len(data) >= at + layout.size, "too short")
    return layout.unpack_from(data, at)


def whole(layout, data):
    check(len(data) == layout.size, "not as long as its type is")
    return layout.unpack(data)


# ---- addresses


def check_efa(raw):
    check(len(raw) == 32, "an EFA address has 32 bytes")
    check(any(raw[:16]) and not any(raw[18:20]) and not any(raw[24:]), "no GID, or reserved bytes are in use")
    return EFA_FORMAT, raw


def check_ip(raw):
    family = int.from_bytes(raw[:2], "little")
    check((family, len(raw)) in ((2, 16), (10, 28)), "neither IPv4 nor IPv6")
    check(any(raw[2:4]), "port 0")
    if family == 2:
        host = ipaddress.IPv4Address(raw[4:8])
        check(not host.is_multicast and int(host) not in (0, 0xffffffff), "not the address of a host")
        return IN, raw[:8] + bytes(8)
    host = ipaddress.IPv6Address(raw[8:24])
    check(not host.is_multicast and int(host) != 0 and host.ipv4_mapped is None, "not the address of a host")
    scope = raw[24:] if host.is_link_local else bytes(4)
    check(any(scope) or not host.is_link_local, "link-local without an interface")
    return IN6, raw[:4] + bytes(4) + raw[8:24] + scope


def check_shm(raw):
    name = re.fullmatch(rb"(?:fi_shm://|fi_ns://)?([0-9A-Za-z._:-]+)\0", raw)
    check(name is not None and name[1] not in (b".", b"..") and len(raw) <= 128, "not a name")
    return STR, raw


def get_address(data):
    """Reads an address in its canonical form. Returns its fields and what follows it."""
    scheme, length, _, form = unpack(ADDRESS, data)
    raw = data[ADDRESS.size:ADDRESS.size + length]
    check(1 <= length <= 128 and len(raw) == length, "an address of no bytes, or longer than the frame")
    check(EFA <= scheme <= RAW, "no such scheme")
    if scheme != RAW:
        form, raw = (check_efa if scheme == EFA else check_shm if scheme == SHM else check_ip)(raw)
    return {"scheme": scheme, "format": form, "addr": raw}, data[ADDRESS.size + length:]


def put_address(frame):
    return ADDRESS.pack(frame["scheme"], len(frame["addr"]), 0, frame["format"]) + frame["addr"]


# ---- the contents of each type


def get_hello(data):
    values = dict(zip(HELLO_FIELDS, unpack(HELLO, data)))
    name_length = values.pop(None)
    address, name = get_address(data[HELLO.size:])
    check(len(name) == name_length <= 63 and all(0x20 <= byte < 0x7f for byte in name), "not a provider's name")
    check(values["version_min"] <= values["version_max"], "no version at all")
    check(values["max_frame"] >= 1024 and values["session"] != 0, "short frames, or session 0")
    return {**values, **address, "provider": name}


def put_hello(frame):
    values = [len(frame["provider"]) if name is None else frame[name] for name in HELLO_FIELDS]
    return HELLO.pack(*values) + put_address(frame) + frame["provider"]


def get_close(data):
    reason, code, length, _ = unpack(FAREWELL, data)
    text = data[FAREWELL.size:]
    check(len(text) == length <= 200, "the text is too long, or not as long as it says")
    return {"reason": reason, "code": code, "text": text}


def put_close(frame):
    return FAREWELL.pack(frame["reason"], frame["code"], len(frame["text"]), 0) + frame["text"]


def get_reject(data):
    check(len(data) >= 8, "too short")
    return {"quoted": int.from_bytes(data[:8], "little"), **get_close(data[8:])}


def put_reject(frame):
    return frame["quoted"].to_bytes(8, "little") + put_close(frame)


def get_data(data):
    records, at, padded = [], 0, 1
    while at < len(data) or not records:
        length, number, reply_to, rest = unpack(RECORD, data, at)
        end = at + RECORD.size + length
        check(end <= len(data) and number != 0, "longer than the frame, or id 0")
        records.append((number, reply_to, data[at + RECORD.size:end], rest))
        at = (end + 7) // 8 * 8
        if at > len(data):
            check(end == len(data), "padded by half")
            padded = 0
    return {"records": records, "padded": padded}


def put_data(frame):
    data = b""
    for number, reply_to, message, rest in frame["records"]:
        data += bytes(-len(data) % 8) + RECORD.pack(len(message), number, reply_to, rest) + message
    return data + bytes(-len(data) % 8 if frame["padded"] else 0)


def get_offer(data):
    number, reply_to, length = whole(OFFER, data)
    check(number != 0, "id 0")
    return {"id": number, "reply_to": reply_to, "len": length}


def get_grant(data):
    number, chunk, tag, count, _ = whole(GRANT, data)
    check(number != 0 and chunk != 0, "id 0, or chunks of no bytes")
    return {"id": number, "chunk": chunk, "tag": tag, "count": count}


def get_abort(data):
    number, side, _, reason = whole(ABORT, data)
    check(number != 0 and side in (1, 2), "id 0, or from nobody")
    return {"id": number, "by_receiver": side - 1, "reason": reason}


def get_ping(data):
    session, instance = unpack(PING, data)
    address, rest = get_address(data[PING.size:])
    check(session != 0 and not rest, "session 0, or longer than it says")
    return {"session": session, "instance": instance, **address}


def is_compact(part):
    """Whether a part of a BUNDLE is a message in the compact form. If not, it is a frame."""
    return len(part) >= COMPACT.size and COMPACT.unpack_from(part)[0] & IS_COMPACT != 0


def bundled_room(part):
    """How many bytes a part takes in a BUNDLE."""
    return ((0 if is_compact(part) else BUNDLED.size) + len(part) + 7) // 8 * 8


def unbundle(data):
    """Yields the parts in the contents of a BUNDLE. Raises Malformed when it comes to what is none."""
    at = 0
    while at < len(data) or at == 0:
        length, _ = unpack(BUNDLED, data, at)
        if length & IS_COMPACT:
            part = data[at:at + COMPACT.size + length % 2 ** 24]
            least = COMPACT.size + length % 2 ** 24
        else:
            part = data[at + BUNDLED.size:at + BUNDLED.size + length]
            least = max(length, HEADER.size)
        check(len(part) >= least, "shorter than a header, or longer than the bundle")
        at += bundled_room(part)
        check(at <= len(data), "not padded")
        yield part


def put_bundle(frame):
    return b"".join((b"" if is_compact(part) else BUNDLED.pack(len(part), 0)) + part + bytes(-len(part) % 8)
                    for part in frame["bundled"])


def decode_part(part):
    """Takes apart what unbundle() has found."""
    if not is_compact(part):
        return decode(part)
    word, reply_to, session, number, ack, credit, returned = COMPACT.unpack_from(part)
    return {"type": "COMPACT", "flags": word >> 24 & 0x7f, "header.session": session, "number": number, "ack": ack,
            "credit": credit, "returned": returned, "reply_to": reply_to, "text": part[COMPACT.size:]}


def encode_part(frame):
    if frame["type"] != "COMPACT":
        return encode(frame)
    return COMPACT.pack(IS_COMPACT | frame["flags"] << 24 | len(frame["text"]), frame["reply_to"],
                        frame["header.session"], frame["number"], frame["ack"], frame["credit"],
                        frame["returned"]) + frame["text"]


def as_data(compact):
    """The DATA frame that a message in the compact form stands for. The id None is the next one."""
    return {**compact, "type": "DATA", "records": [(None, compact["reply_to"], compact["text"], 0)]}


def as_compact(frame):
    """The opposite, of one with a single whole message, which is not the last part of one either."""
    (_, reply_to, message, _), = frame["records"]
    return {**frame, "type": "COMPACT", "reply_to": reply_to, "text": message}


def get_nothing(data):
    check(not data, "contents where there are none")
    return {}


GET = {"CONNECT": get_hello, "ACCEPT": get_hello, "REJECT": get_reject, "DATA": get_data, "OFFER": get_offer,
       "GRANT": get_grant, "ABORT": get_abort, "PING": get_ping, "CLOSE": get_close,
       "BUNDLE": lambda data: {"bundled": list(unbundle(data))}}
PUT = {"CONNECT": put_hello, "ACCEPT": put_hello, "REJECT": put_reject, "DATA": put_data, "CLOSE": put_close,
       "OFFER": lambda f: OFFER.pack(f["id"], f["reply_to"], f["len"]),
       "GRANT": lambda f: GRANT.pack(f["id"], f["chunk"], f["tag"], f["count"], 0),
       "ABORT": lambda f: ABORT.pack(f["id"], 1 + f["by_receiver"], 0, f["reason"]),
       "PING": lambda f: PING.pack(f["session"], f["instance"]) + put_address(f), "BUNDLE": put_bundle}


def decode_header(data):
    """Returns the fields of the header, and the contents as bytes."""
    magic, version, kind, flags, musts, length, session, number, ack, credit, returned = unpack(HEADER, data)
    check(magic == b"wf" and version == VERSION, "another protocol, or another version")
    check(0 < kind < len(TYPES) and musts == 0, "a type or a flag that nobody knows")
    check(32 <= length <= 64 and length <= len(data), "the header's length")
    return {"type": TYPES[kind], "flags": flags, "header.session": session, "number": number, "ack": ack,
            "credit": credit, "returned": returned}, data[length:]


def decode(data):
    """The frame that these bytes are. Raises Malformed."""
    frame, contents = decode_header(data)
    return {**frame, **GET.get(frame["type"], get_nothing)(contents)}


def encode(frame):
    """The bytes of a frame. The header's fields may be left out where they are 0."""
    header = HEADER.pack(b"wf", VERSION, TYPES.index(frame["type"]), frame.get("flags", 0), 0, 32,
                         *(frame.get(name, 0) for name in ["header.session", "number", "ack", "credit", "returned"]))
    return header + PUT.get(frame["type"], lambda _: b"")(frame)


# ---- sessions


def plus(number, more):
    return (number + more) % 2 ** 32


def distance(a, b):
    """How far a is after b; negative if it is before."""
    return (a - b + 2 ** 31) % 2 ** 32 - 2 ** 31


def next_id(number):
    return number % (2 ** 32 - 1) + 1


class Outgoing:
    """A message that waits to be sent, or what is left of it."""

    def __init__(self, number, reply_to, message):
        self.number, self.reply_to, self.message = number, reply_to, message
        self.sent = 0
        self.given_up = False

    def fits(self, room):
        return not self.given_up and RECORD.size + len(self.message) <= room

    def part(self, room):
        """The next record of one that does not fit a frame, of at most so many bytes with its head."""
        if self.given_up:
            return self.number, self.reply_to, b"", NEVER
        data = self.message[self.sent:self.sent + room - RECORD.size]
        self.sent += len(data)
        return self.number, self.reply_to, data, len(self.message) - self.sent

    def is_done(self):
        return self.given_up or self.sent == len(self.message)


class Peer:
    """One side of one session, which may be the side that connects or the one that accepts.

    What happens is added to events: ("opened",), ("message", id, reply_to, bytes), ("acked", id), and
    ("ended", reason, code, text, [ids of the messages that are not known to have arrived]). With hold, the memory of a
    message that came in parts counts in the budget until release() is called. bundle is the chance that a frame leaves
    in a BUNDLE where it may, from 0 to 1: one session has no need of any, but the other side takes it all the same.
    """

    def __init__(self, seed, *, scheme=TCP, form=IN, addr=b"\x02\0\x1b\x58\x7f\0\0\1" + bytes(8), provider=b"tcp",
                 max_frame=4096, max_message=2 ** 20, window=8, keepalive_ms=1000, silence_ms=5000,
                 budget=2 ** 21, hold=False, bundle=0.0):
        self.random = random.Random(seed)
        self.hello = {"version_min": VERSION, "version_max": VERSION, "features": FEATURES, "required": 0,
                      "max_frame": max_frame, "instance": self._random_id(), "session": self._random_id(),
                      "nonce": 0, "max_message": max_message, "keepalive_ms": keepalive_ms, "silence_ms": silence_ms,
                      "libfabric": 0x00010011, "scheme": scheme, "format": form, "addr": addr, "provider": provider}
        self.window = window      # how many frames that cost credit may be on their way to this side
        self.refusal = None       # code and text, if the application is to refuse the next CONNECT
        self.bundle = bundle
        self.patience = 10000     # how long to connect and to close, in milliseconds
        self.state = None         # None: neither connected nor asked yet
        self.theirs = None        # the other side's CONNECT or ACCEPT
        self.events = []
        self.trace = []           # (state, event, next state), with the names of the table in the protocol's page
        self.dropped = 0          # frames that changed nothing
        self.out = []             # bytes to be sent
        self.queue = collections.deque()    # messages to be sent: Outgoing
        self.unacked = collections.deque()  # (number of a frame, id of a message that ends in it or None) of those sent
        self.in_parts = set()     # ids of messages that went in parts
        self.budget, self.hold = budget, hold
        self.reserved = 0         # bytes of the budget, for the message that is arriving and those held
        self.arriving = None      # [id, reply_to, length, bytes so far] of a message in parts
        self.last_id = self.last_id_seen = 0
        self.number = self.acked = self.sent = self.credit = self.returned = 0
        self.taken = self.told = self.received = self.consumed = self.their_returned = 0
        self.told_credit = window
        self.closed_number = None  # of the CLOSED that has come
        self.early = {}           # numbered frames that wait for their turn, by number
        self.owes = False         # an acknowledgement or credit, now
        self.user_close = None
        self.heard = self.waiting = self.deadline = self.repeat = 0
        self.pinged = None

    # -- what the user does

    def connect(self, now=0):
        self.state = "connecting"
        self.hello["nonce"] = self._random_id()
        self.deadline, self.repeat = now + self.patience, now
        self.tick(now)

    def send(self, message, reply_to=0):
        """Queues a message, to be sent as soon as there is a session and credit. Returns its id."""
        if self.theirs is not None and len(message) > self.theirs["max_message"] or len(message) >= NEVER:
            raise ValueError("the message is too long")
        if self.user_close or self.state in ("closing", "gone"):
            raise ValueError("the session is at its end")
        self.last_id = next_id(self.last_id)
        self.queue.append(Outgoing(self.last_id, reply_to, message))
        return self.last_id

    def give_up(self, number):
        """Nobody wants the message any more. Returns whether there was anything left of it to be sent."""
        for out in self.queue:
            if out.number == number and not out.given_up:
                out.given_up = True
                return True
        return False

    def release(self, length):
        """Gives back the memory of a held message of so many bytes."""
        self.reserved -= length
        self._take_early()

    def give_back(self, count):
        """Gives credit back unused. Returns how much there was."""
        count = min(count, self._may_send())
        self.returned = plus(self.returned, count)
        self.owes = True
        return count

    def close(self, reason=CLOSED, code=0, text=b""):
        """Closes the session when all that is queued has been sent."""
        self.user_close = (reason, code, text)
        if self.state == "connecting":
            self._end("user-close", reason, code, text)

    def tick(self, now):
        """To be called now and then: what is due because time has passed."""
        if self.state == "connecting" and now >= self.deadline:
            self._end("timeout", NO_ANSWER)
        elif self.state == "connecting" and now >= self.repeat:
            self.repeat = now + 100
            self._step("tick-connect", "connecting")
            self._put("CONNECT", **self.hello)
        elif self.state == "halfopen" and now >= self.deadline:
            self._step("timeout", "gone")
        elif self.state == "closing" and now >= self.deadline:
            self._end("timeout", *self.user_close)
        elif self.state in ("open", "closing"):
            self._tick_session(now)

    def _tick_session(self, now):
        since = min(self.heard, self.waiting if self.unacked else now)
        if self.pinged is not None and now - self.pinged >= self.theirs["silence_ms"]:
            if self.state == "open":
                self._put_close(SILENT)
            self._end("silent", SILENT)
        elif self.pinged is None and now - since >= self.hello["keepalive_ms"]:
            self._step("tick-idle", self.state)
            self._put("PING", **{name: self.hello[name] for name in
                                 ["session", "instance", "scheme", "format", "addr"]})
            self.pinged = self.waiting = now
        elif self.told != self.taken or self.told_credit != self._allowed():
            self.owes = True

    def frames(self, now):
        """The frames to be sent now, alone or in bundles, as a list of bytes."""
        if self.state == "open":
            self._put_messages(now)
            if self.user_close and not self.queue:
                self._step("user-close", "closing")
                self.deadline = now + self.patience
                self._put_close(*self.user_close)
        if self.owes and self.state in ("open", "closing"):
            self._put("CREDIT")
        out, self.out = self.out, []
        return self._in_bundles(out) if self._may_bundle() else out

    # -- what goes out

    def _random_id(self):
        return self.random.randrange(1, 2 ** 64)

    def _may_send(self):
        return distance(self.credit, plus(self.sent, self.returned))

    def _allowed(self):
        return (self.consumed + self.their_returned + self.window) % 2 ** 32

    def _may_bundle(self):
        agreed = self.theirs["features"] & self.hello["features"] if self.theirs else 0
        return self.bundle > 0 and agreed & BUNDLES != 0

    def _ends_early(self):
        """Whether a DATA frame is to have no more messages: full ones would never be together in a bundle."""
        return self._may_bundle() and self.random.random() < self.bundle

    def _in_bundles(self, frames):
        """Puts frames into bundles, as chance decides, but for those that have no right to be in one or no room."""
        groups = []  # [frames, whether they are in a bundle]
        for data in frames:
            kind = decode_header(data)[0]["type"]
            if kind == "DATA":
                data = self._maybe_compact(data)
            left = self.theirs["max_frame"] - HEADER.size - bundled_room(data)
            may = kind not in NOT_BUNDLED and left >= 0 and self.random.random() < self.bundle
            if may and groups and groups[-1][1] and sum(map(bundled_room, groups[-1][0])) <= left:
                groups[-1][0].append(data)
            else:
                groups.append([[data], may or is_compact(data)])
        return [encode({"type": "BUNDLE", "bundled": bundled}) if is_bundle else bundled[0]
                for bundled, is_bundle in groups]

    def _maybe_compact(self, data):
        """The same DATA in the compact form, where it may have it, as chance decides."""
        frame = decode(data)
        agreed = self.theirs["features"] & self.hello["features"] & COMPACTS
        one = len(frame["records"]) == 1 and frame["records"][0][0] not in self.in_parts
        return encode_part(as_compact(frame)) if agreed and one and self.random.random() < self.bundle else data

    def _put(self, kind, flags=0, **contents):
        self.told, self.told_credit, self.owes = self.taken, self._allowed(), False
        self.out.append(encode({
            "type": kind, "flags": flags, "header.session": self.theirs["session"] if self.theirs else 0,
            "number": self.number, "ack": self.taken, "credit": self.told_credit, "returned": self.returned,
            **contents}))

    def _put_messages(self, now):
        while self.queue and self._may_send() > 0:
            room = self.theirs["max_frame"] - HEADER.size
            self.waiting = self.waiting if self.unacked else now
            self.number, self.sent = plus(self.number, 1), plus(self.sent, 1)
            if self.queue[0].fits(room):
                records = []
                while self.queue and self.queue[0].fits(room) and not (records and self._ends_early()):
                    out = self.queue.popleft()
                    records.append((out.number, out.reply_to, out.message, 0))
                    room -= RECORD.size + (len(out.message) + 7) // 8 * 8
                self.unacked.extend((self.number, record[0]) for record in records)
            else:
                records, room = [self._next_part(room)], 0
            # Both forms are right; so that both are seen, chance decides where there surely is room for either.
            padded = room >= 0 and self.random.random() < 0.5
            self._put("DATA", 0 if self._may_send() > 0 else ACK_NOW, records=records, padded=padded)

    def _next_part(self, room):
        """Takes a part from the first message of the queue."""
        out = self.queue[0]
        # Parts may be of any length.
        if self.random.random() < 0.25:
            room = self.random.randrange(RECORD.size + 1, room + 1)
        record = out.part(room)
        self.in_parts.add(out.number)
        if out.is_done():
            self.queue.popleft()
        self.unacked.append((self.number, out.number if out.is_done() and not out.given_up else None))
        return record

    def _put_close(self, reason, code=0, text=b""):
        self.number = plus(self.number, 1)
        self._put("CLOSE", reason=reason, code=code, text=text)

    def _put_reject(self, session, quoted, reason, code=0, text=b""):
        self.out.append(encode({"type": "REJECT", "header.session": session, "quoted": quoted, "reason": reason,
                                "code": code, "text": text}))

    # -- the states

    def _step(self, event, state):
        self.trace.append((self.state, event, state))
        self.state = state

    def _end(self, event, reason, code=0, text=b""):
        lost = [number for _, number in self.unacked if number is not None]
        lost += [out.number for out in self.queue if not out.given_up]
        self._step(event, "gone")
        self.queue.clear()
        self.events.append(("ended", reason, code, text, lost))

    def _fail(self, reason):
        if self.state == "open":
            self._put_close(reason)
        self._end("fail", reason)

    # -- what comes in

    def receive(self, data, now):
        """Takes a frame, or those in a BUNDLE, each as if it had come alone."""
        try:
            frame, contents = decode_header(data)
            if frame["type"] != "BUNDLE":
                self._receive(data, now)
                return
            for part in unbundle(contents):
                if is_compact(part):
                    self._take(as_data(decode_part(part)), now)
                else:
                    self._receive(part, now, NOT_BUNDLED)
        except Malformed:
            self.dropped += 1

    def _receive(self, data, now, refused=()):
        """Takes a frame, unless it is of one of those types."""
        try:
            frame, _ = decode_header(data)
            check(frame["type"] not in refused, "not a frame for a BUNDLE")
            mine = frame["header.session"] == self.hello["session"] and self.state in ("open", "closing")
            try:
                frame = decode(data)
            except Malformed:
                if mine and frame["type"] in NUMBERED:
                    self._fail(BROKEN)
                raise
        except Malformed:
            self.dropped += 1
            return
        self._take(frame, now)

    def _take(self, frame, now):
        if frame["type"] == "CONNECT":
            self._on_connect(frame, now)
        elif frame["header.session"] == self.hello["session"] and self.state not in (None, "gone"):
            self._on_session(frame, now)
        elif frame["type"] == "PING":
            self._put_reject(frame["session"], frame["header.session"], NOT_KNOWN)
        else:
            self.dropped += 1

    def _on_connect(self, frame, now):
        if self.state is not None:
            if frame["nonce"] != self.hello["nonce"]:
                self._put_reject(frame["session"], frame["nonce"], TOO_MANY)
            elif self.state == "halfopen":
                self._step("rx-connect", "halfopen")
                self._put("ACCEPT", **self.hello)
            else:
                self.dropped += 1
        elif not frame["version_min"] <= VERSION <= frame["version_max"]:
            self._put_reject(frame["session"], frame["nonce"], BAD_VERSION)
        elif frame["required"] & ~FEATURES:
            self._put_reject(frame["session"], frame["nonce"], BAD_FEATURE)
        elif self.refusal is not None:
            self._put_reject(frame["session"], frame["nonce"], REFUSED, *self.refusal)
            self.refusal = None
        elif frame["credit"] == 0:
            self.dropped += 1
        else:
            self.state, self.theirs, self.credit = "halfopen", frame, frame["credit"]
            self.hello["nonce"] = frame["nonce"]
            self.hello["features"] &= frame["features"]
            self.deadline = now + self.patience
            self._put("ACCEPT", **self.hello)

    def _on_session(self, frame, now):
        kind = frame["type"]
        if kind in ("ACCEPT", "REJECT") or self.state == "connecting":
            self._on_answer(frame, now)
            return
        if self.state == "halfopen":
            if kind in ("GRANT", "ABORT", "CLOSED"):
                self.dropped += 1
                return
            self._step("rx-numbered" if kind in NUMBERED else f"rx-{kind.lower()}", "open")
            self.events.append(("opened",))
        elif kind != "CLOSED":
            self._step("rx-numbered" if kind in NUMBERED else f"rx-{kind.lower()}", self.state)
        self.heard, self.pinged = now, None
        if not self._on_header(frame, now):
            self._fail(BROKEN)
        elif kind in NUMBERED:
            self._on_numbered(frame)
        elif kind == "PING":
            self._put("PONG")
        elif kind == "CLOSED":
            self.closed_number = frame["number"]
            self._on_closed()

    def _on_closed(self):
        """The other side has forgotten the session: the end, as soon as all has come that it had sent."""
        if self.closed_number is not None and distance(self.closed_number, self.taken) <= 0 and self.state != "gone":
            self._end("rx-closed", *(self.user_close or (CLOSED, 0, b"")))

    def _on_answer(self, frame, now):
        """ACCEPT and REJECT, and what comes before them."""
        kind = frame["type"]
        quoted = frame.get("nonce" if kind == "ACCEPT" else "quoted")
        not_known = kind == "REJECT" and frame["reason"] == NOT_KNOWN and self.theirs is not None
        if kind not in ("ACCEPT", "REJECT") or self.state == "halfopen":
            self.dropped += 1
        elif quoted != (self.theirs["session"] if not_known else self.hello["nonce"]):
            self.dropped += 1
        elif kind == "REJECT":
            self._end("rx-reject", frame["reason"], frame["code"], frame["text"])
        elif self.state == "open":
            self._step("rx-accept", "open")
            self.owes = True
        elif self.state == "connecting" and frame["version_min"] == frame["version_max"] == VERSION and frame["credit"]:
            self._step("rx-accept", "open")
            self.theirs, self.credit, self.heard = frame, frame["credit"], now
            self.owes = True
            self.events.append(("opened",))
        else:
            self.dropped += 1

    def _on_header(self, frame, now):
        """Takes acknowledgement and credit. Returns whether they can be."""
        if distance(frame["ack"], self.acked) > 0:
            if distance(frame["ack"], self.number) > 0:
                return False
            self.acked, self.waiting = frame["ack"], now
            while self.unacked and distance(self.unacked[0][0], self.acked) <= 0:
                number = self.unacked.popleft()[1]
                if number is not None:
                    self.events.append(("acked", number))
        if distance(frame["credit"], self.credit) > 0:
            self.credit = frame["credit"]
        if distance(frame["returned"], self.their_returned) > 0:
            outstanding = distance(self._allowed(), plus(self.received, self.their_returned))
            if distance(frame["returned"], self.their_returned) > outstanding:
                return False
            self.their_returned = frame["returned"]
        return True

    def _on_numbered(self, frame):
        number = frame["number"]
        if distance(number, self.taken) <= 0 or number in self.early:
            self.dropped += 1
            return
        if frame["type"] != "CLOSE":
            if distance(self._allowed(), plus(self.received, self.their_returned)) <= 0:
                self._fail(BROKEN)
                return
            self.received = plus(self.received, 1)
        self.early[number] = frame
        self.owes = self.owes or bool(frame["flags"] & ACK_NOW)
        self._take_early()

    def _take_early(self):
        """Deals with the frames whose turn it is."""
        while self.state != "gone" and plus(self.taken, 1) in self.early:
            if not self._admit(self.early[plus(self.taken, 1)]):
                return
            self.taken = plus(self.taken, 1)
            self._in_turn(self.early.pop(self.taken))
        self._on_closed()

    def _admit(self, frame):
        """Reserves memory where a message in parts begins. Returns whether the frame can be dealt with."""
        if frame["type"] != "DATA" or self.arriving is not None:
            return True
        number, reply_to, message, rest = frame["records"][0]
        length = len(message) + rest
        if rest in (0, NEVER) or length > min(self.budget, self.hello["max_message"]):
            return True
        if self.reserved + length > self.budget:
            return False
        self.reserved += length
        self.arriving = [number, reply_to, length, b""]
        return True

    def _in_turn(self, frame):
        if frame["type"] == "CLOSE" and self.state == "closing":
            # The two have crossed; the answer to this side's is still to come.
            self._put("CLOSED")
            self._step("rx-close", "closing")
        elif frame["type"] == "CLOSE":
            self._put("CLOSED")
            self._end("rx-close", frame["reason"], frame["code"], frame["text"])
        elif frame["type"] == "OFFER":
            self._fail(BROKEN)
        else:
            self.consumed = plus(self.consumed, 1)
            self.owes = self.owes or distance(self._allowed(), self.told_credit) * 2 > self.window
            for record in frame["records"]:
                reason = self._on_record(record, len(frame["records"]) == 1)
                if reason:
                    self._fail(reason)
                    return

    def _on_record(self, record, is_alone):
        """Takes a message or a part of one. Returns 0, or why the session is at its end."""
        number, reply_to, message, rest = record
        number = next_id(self.last_id_seen) if number is None else number
        is_part = rest != 0 or self.arriving is not None
        if self.arriving is None or not self.arriving[3]:
            self.last_id_seen = next_id(self.last_id_seen)
        if number != self.last_id_seen or is_part and not is_alone:
            return BROKEN
        if not is_part:
            if len(message) > self.hello["max_message"]:
                return BROKEN
            self.events.append(("message", number, reply_to, message))
            return 0
        if rest == NEVER:
            if self.arriving is not None:
                self.reserved -= self.arriving[2]
            self.arriving = None
            return BROKEN if message else 0
        if self.arriving is None:
            return BROKEN if len(message) + rest > self.hello["max_message"] else MEMORY
        return self._on_part(message, rest)

    def _on_part(self, message, rest):
        number, reply_to, length, before = self.arriving
        whole_message = before + message
        if not message or len(whole_message) + rest != length:
            return BROKEN
        self.arriving[3] = whole_message
        if rest == 0:
            self.arriving = None
            self.events.append(("message", number, reply_to, whole_message))
            if not self.hold:
                self.reserved -= length
        return 0
