# SPDX-License-Identifier: MIT
"""Takes the vectors out of doc/protocol.md: for Python as objects, for C as a header.

As a program: vectors.py PAGE HEADER writes the header, and vectors.py PAGE DIRECTORY/ a file for each frame, from which
the corpus of the fuzzer was made.
"""
import ast
import collections
import os
import re
import sys

from weftpeer import is_compact

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(TOP, "doc", "protocol.md")

# fields: name -> int, bytes, or for "records" a list of (id, reply_to, bytes, rest), for "bundled" a list of frames.
# kind: "parts", "frames", "read" or "malformed".
Vector = collections.namedtuple("Vector", "name kind fields frame why")

# What of each type of frame is where in the C table: all but the header, "records" and "bundled", which are by
# themselves.
HEADER = ["type", "flags", "header.session", "number", "ack", "credit", "returned"]
HELLO = ["version_min", "version_max", "features", "required", "max_frame", "instance", "session", "nonce",
         "max_message", "keepalive_ms", "silence_ms", "libfabric", "scheme", "format", "addr", "provider"]
CONTENTS = {
    "CONNECT": ("hello", HELLO),
    "ACCEPT": ("hello", HELLO),
    "REJECT": ("farewell", ["quoted", "reason", "code", "text"]),
    "DATA": (None, ["records", "padded"]),
    "OFFER": ("offer", ["id", "reply_to", "len"]),
    "GRANT": ("grant", ["id", "chunk", "tag", "count"]),
    "ABORT": ("abort", ["id", "by_receiver", "reason"]),
    "CREDIT": (None, []),
    "PING": ("ping", ["session", "instance", "scheme", "format", "addr"]),
    "PONG": (None, []),
    "CLOSE": ("farewell", ["reason", "code", "text"]),
    "CLOSED": (None, []),
    "BUNDLE": (None, ["bundled"]),
    "COMPACT": (None, ["reply_to", "text"]),
}
BYTES = {"addr", "provider", "text"}


def section(page, title):
    """What stands under a heading, up to the next one of the same level."""
    level = title.split(" ")[0]
    start = page.index(f"\n{title}") + 1
    end = re.compile(rf"^#{{1,{len(level)}}} ", re.M).search(page, start + len(title))
    return page[start:end.start() if end else len(page)]


def text(quoted):
    return ast.literal_eval("b" + quoted)


def record(name, value):
    match = re.fullmatch(r'(\w+), (\w+), ("(?:[^"\\]|\\.)*")(?:, (\w+))?', value)
    if match is None:
        raise ValueError(f"{name}: {value} is no record")
    number, reply_to, message, rest = match.groups("0")
    return int(number, 0), int(reply_to, 0), text(message), int(rest, 0)


def fields_of(name, lines, earlier):
    """The fields of a vector, which may name the vectors in front of it."""
    found = {}
    for line in lines.strip().split("\n"):
        field, value = line.split(" = ", 1)
        if field == "record":
            found.setdefault("records", []).append(record(name, value))
        elif field == "bundled":
            found.setdefault("bundled", []).append(earlier[value].frame)
        elif field not in found:
            found[field] = (value if field == "type" else bytes.fromhex(value) if field == "addr" else
                            text(value) if field in BYTES else int(value, 0))
        else:
            raise ValueError(f"{name}: {field} twice")
    contents = CONTENTS[found["type"]][1]
    if not set(found) <= {*HEADER, *contents}:
        raise ValueError(f"{name}: {set(found) - {*HEADER, *contents}} is no field of {found['type']}")
    for field in HEADER + contents:
        default = 1 if field == "padded" else b"" if field in BYTES else 0
        found.setdefault(field, default)
    return found


def frames(text_of_section, kind, earlier):
    """Every #### heading with a block of fields and a block of bytes under it, which is added to the earlier ones."""
    for part in text_of_section.split("\n#### ")[1:]:
        match = re.fullmatch(r"([a-z0-9-]+)\n\n(.+?)\n\n```text\n(.+?)```\n```hex\n(.+?)```\n*", part, re.S)
        if match is None:
            raise ValueError(f"not understood: {part[:60]!r}")
        name, why, lines, frame = match.groups()
        vector = Vector(name, kind, fields_of(name, lines, earlier), bytes.fromhex(frame), why)
        earlier[name] = vector
        yield vector


def malformed(text_of_section, good):
    """The rows of the table: a frame of before with some bytes changed, cut off or added."""
    for line in re.findall(r"^\| (.+) \|$", text_of_section, re.M)[1:]:
        name, base, at, change, why = line.split(" | ")
        frame, at = good[base].frame, int(at)
        if at > len(frame):
            raise ValueError(f"{name}: {at} is beyond the frame")
        patch = b"" if change == "end" else bytes.fromhex(change)
        rest = b"" if change == "end" else frame[at + len(patch):]
        if frame[:at] + patch + rest == frame:
            raise ValueError(f"{name}: changes nothing")
        yield Vector(name, "malformed", None, frame[:at] + patch + rest, why)


def load(path=PAGE):
    """All vectors of the page, by name."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    page = section(page, "## Vectors")
    good = {}
    all_of_them = [*frames(section(page, "### Parts"), "parts", good)]
    all_of_them += frames(section(page, "### Frames"), "frames", good)
    all_of_them += frames(section(page, "### Read,"), "read", good)
    all_of_them += malformed(section(page, "### Malformed"), good)
    by_name = {vector.name: vector for vector in all_of_them}
    missing = set(CONTENTS) - {vector.fields["type"] for vector in all_of_them if vector.kind in ("parts", "frames")}
    if missing or len(by_name) != len(all_of_them) or all_of_them[-1].kind != "malformed":
        raise ValueError(f"no frame of the types {missing}, or two of one name, or nothing malformed")
    return by_name


def c_bytes(data):
    return "{" + ", ".join(f"0x{byte:02x}" for byte in data) + "}"


def c_string(data):
    """As a C literal. Octal escapes end after three digits, whatever follows."""
    return '"' + "".join(chr(byte) if byte < 0x80 and chr(byte).isalnum() else f"\\{byte:03o}" for byte in data) + '"'


def c_number(value):
    return f"{value:#x}u" if value < 2 ** 32 else f"UINT64_C({value:#x})"


def c_contents(fields, names):
    """The initializers of one of the structs of wire.h."""
    for name in names:
        value = fields[name]
        if name == "scheme":
            yield (f".addr = {{.scheme = (enum weft_scheme){value}, .format = {fields['format']}u, "
                   f".len = {len(fields['addr'])}, .raw = {c_bytes(fields['addr'])}}}")
        elif name == "text":
            yield f".text_len = {len(value)}, .text = {c_string(value)}"
        elif name == "provider":
            yield f".provider = {c_string(value)}"
        elif name not in ("format", "addr"):
            yield f".{name} = {c_number(value)}"


def c_vector(vector):
    frame = f".frame = (const uint8_t[]){c_bytes(vector.frame)}, .len = {len(vector.frame)}"
    yield f'\t{{.name = "{vector.name}", .kind = VECTOR_{vector.kind.upper()}, {frame},'
    if vector.fields is not None:
        fields = vector.fields
        header = [f".{name.removeprefix('header.')} = {c_number(fields[name])}" for name in HEADER[1:]]
        kind = "DATA" if fields["type"] == "COMPACT" else fields["type"]
        yield f"\t .header = {{.version = 1, .type = WEFT__{kind}, {', '.join(header)}}},"
        struct, names = CONTENTS[fields["type"]]
        if struct is not None:
            yield f"\t .{struct} = {{{', '.join(c_contents(fields, names))}}},"
        if fields["type"] == "DATA":
            records = ", ".join(f"{{.id = {number}u, .reply_to = {reply_to}u, .len = {len(data)}, "
                                f".rest = {rest:#x}u, .data = (const uint8_t *){c_string(data)}}}"
                                for number, reply_to, data, rest in fields["records"])
            yield (f"\t .records = (const struct weft__record[]){{{records}}}, "
                   f".record_count = {len(fields['records'])}, .padded = {fields['padded']},")
        if fields["type"] == "COMPACT":
            yield (f"\t .records = (const struct weft__record[]){{{{.reply_to = {fields['reply_to']:#x}u, "
                   f".len = {len(fields['text'])}, .data = (const uint8_t *){c_string(fields['text'])}}}}}, "
                   ".record_count = 1,")
        if fields["type"] == "BUNDLE":
            bundled = ", ".join(f"{{(const uint8_t[]){c_bytes(part)}, {len(part)}, {int(is_compact(part))}}}"
                                for part in fields["bundled"])
            yield (f"\t .bundled = (const struct vector_bundled[]){{{bundled}}}, "
                   f".bundled_count = {len(fields['bundled'])},")
    yield "\t},"


def header(vectors):
    yield """/* Made by tests/peer/vectors.py from doc/protocol.md. */
#include "wire.h"

enum vector_kind {
	VECTOR_PARTS,     /* a part of a bundle that is no frame */
	VECTOR_FRAMES,    /* read and written */
	VECTOR_READ,      /* read, but written otherwise */
	VECTOR_MALFORMED, /* refused */
};

struct vector_bundled {
	const uint8_t *frame;
	size_t len;
	bool is_compact;
};

struct vector {
	const char *name;
	enum vector_kind kind;
	const uint8_t *frame;
	size_t len;
	struct weft__header header;
	/* Of these the one that belongs to the type. */
	struct weft__hello hello;
	struct weft__farewell farewell;
	struct weft__offer offer;
	struct weft__grant grant;
	struct weft__abort abort;
	struct weft__ping ping;
	const struct weft__record *records;
	size_t record_count;
	bool padded;
	const struct vector_bundled *bundled;
	size_t bundled_count;
};

static const struct vector vectors[] = {"""
    for vector in vectors:
        yield from c_vector(vector)
    yield "};"


def main():
    page, out = sys.argv[1:]
    vectors = load(page)
    if out.endswith("/"):
        for vector in vectors.values():
            with open(os.path.join(out, vector.name.replace("-", "_")), "wb") as file:
                file.write(vector.frame)
    else:
        with open(out, "w", encoding="ascii") as file:
            file.write("\n".join(header(vectors.values())) + "\n")


if __name__ == "__main__":
    main()
