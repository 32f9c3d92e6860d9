# SPDX-License-Identifier: MIT
"""Reads the public headers for scripts/man-pages: their declarations, and the comments above and beside them. It knows
the few forms that these headers use and no other C; whatever it does not understand is an error that names the line."""
import re

NAME_MAX = 90  # columns of a NAME line, without the name


class Misunderstood(Exception):
    """The headers say something that this program would not render truly."""


class Item:
    """A declaration: kind is function, callback, struct, enum, value (a typedef) or macro."""

    def __init__(self, kind, name, text, where, group):
        self.kind, self.name, self.text, self.where, self.group = kind, name, text, where, group
        self.members = []  # of structs and enums: (comment above, declaration, comment behind)

    def says(self):
        """Everything that is written about it, to look for names in."""
        parts = [self.text] + [part for member in self.members for part in member if part]
        return " ".join(parts + [text for _, text in self.group.comment])


class Group:
    """Declarations that follow each other without a blank line, and the comment above them, if any."""

    def __init__(self):
        self.comment = []
        self.items = []


class Header:
    def __init__(self, path):
        self.path = path
        self.include = f"weft/{path.name}"
        self.text = path.read_text(encoding="utf-8")
        self.groups = []
        self.top = []
        self.parse()

    def fail(self, at, what):
        line = self.text.count("\n", 0, at) + 1
        raise Misunderstood(f"{self.path}:{line}: {what}")

    # What every header has around its declarations, and what forward declarations of opaque types look like.
    SKIPPED = [re.compile(pattern) for pattern in (
        r"#ifndef (WEFT_\w+_H)\n#define \1\n",
        r"#endif\n\Z",
        r"#include <[\w./]+>\n",
        r'#ifdef __cplusplus\nextern "C" \{\n#endif\n',
        r"#ifdef __cplusplus\n\}\n#endif\n",
        r"#if defined\(__GNUC__\)\n#define WEFT_API .*\n#else\n#define WEFT_API\n#endif\n",
        r"struct \w+;\n",
    )]
    KNOWN = [(kind, re.compile(pattern, re.S)) for kind, pattern in (
        ("function", r"WEFT_API (?P<text>[^;{]*?\b(?P<name>weft_\w+)\([^;{]*\));\n"),
        ("function", r"static inline (?P<text>[^;{]*?\b(?P<name>weft_\w+)\([^;{]*\))\n\{\n.*?\n\}\n"),
        ("callback", r"typedef (?P<text>[^;{(]*?\b(?P<name>weft_\w+_fn)\([^;{]*\));\n"),
        ("value", r"typedef (?P<text>\w+ (?P<name>weft_\w+));\n"),
        ("struct", r"struct (?P<name>weft_\w+) \{\n(?P<text>.*?)\n\};\n"),
        ("enum", r"enum (?P<name>weft_\w+) \{\n(?P<text>.*?)\n\};\n"),
        ("macro", r"#define (?P<name>WEFT_\w+)(?P<text>(?:[^\n]*\\\n)*[^\n]*)\n"),
    )]

    def parse(self):
        at = 0
        license_line = re.compile(r"/\* SPDX-License-Identifier: \S+ \*/\n").match(self.text)
        if not license_line:
            self.fail(0, "does not begin with its license")
        at = license_line.end()
        self.top, at = self.comment(at)
        group = None
        while at < len(self.text):
            if self.text[at] == "\n":
                self.close(group, at)
                group = None
                at += 1
            elif self.text.startswith("/*", at):
                self.close(group, at)
                group = Group()
                group.comment, at = self.comment(at)
            else:
                skipped = next((m for m in (p.match(self.text, at) for p in self.SKIPPED) if m), None)
                if skipped:
                    at = skipped.end()
                    continue
                group = group or Group()
                at = self.declaration(at, group)
        self.close(group, at)

    def close(self, group, at):
        if group is None:
            return
        if not group.items:
            self.fail(at - 1, "the comment that ends here belongs to no declaration; is a blank line in between?")
        self.groups.append(group)

    def declaration(self, at, group):
        for kind, pattern in self.KNOWN:
            match = pattern.match(self.text, at)
            if not match:
                continue
            text = re.sub(r"\s+", " ", match["text"].replace("\\\n", " ")).strip()
            item = Item(kind, match["name"], text, f"{self.path}:{self.text.count(chr(10), 0, at) + 1}", group)
            if kind in ("struct", "enum"):
                item.text = f"{kind} {item.name}"
                item.members = self.members(kind, match.start("text"), match.end("text"))
            group.items.append(item)
            return match.end()
        return self.fail(at, "a declaration that scripts/man-pages does not understand")

    def comment(self, at):
        """The paragraphs of the comment that begins here, each ("p" or "bullet", text), and where it ends."""
        match = re.compile(r"/\*(.*?)\*/\n", re.S).match(self.text, at)
        if not match:
            self.fail(at, "no comment, or one with something behind it on its last line")
        paragraphs, kind = [], None
        for line in match[1].split("\n"):
            line = re.sub(r"^[ \t]*\*", "", line).rstrip()
            text = line.strip()
            if not text:
                kind = None
            elif text.startswith("- "):
                kind = "bullet"
                paragraphs.append((kind, text[2:]))
            elif kind == "bullet" and not line.startswith("   "):
                self.fail(at, f"'{text}' in a list is neither indented nor begins with a dash")
            elif kind:
                paragraphs[-1] = (kind, f"{paragraphs[-1][1]} {text}")
            else:
                kind = "p"
                paragraphs.append((kind, text))
        if not paragraphs:
            self.fail(at, "an empty comment")
        return paragraphs, match.end()

    ABOVE = r"\s*(?:/\*(?P<above>(?:(?!\*/).)*)\*/\s*)?"
    BEHIND = r"(?:[ \t]*/\*(?P<behind>[^\n]*?)\*/)?[ \t]*(?:\n|\Z)"
    MEMBER = {
        "struct": re.compile(ABOVE + r"(?P<text>\w[^;/{}#]*);" + BEHIND, re.S),
        "enum": re.compile(ABOVE + r"(?P<text>\w+ = \w+),?" + BEHIND, re.S),
    }

    def members(self, kind, at, end):
        """Members with their comments. One on lines of its own may also be a heading for all that follow."""
        found = []
        while self.text[at:end].strip():
            match = self.MEMBER[kind].match(self.text, at, end)
            if not match:
                at += len(self.text[at:end]) - len(self.text[at:end].lstrip())
                self.fail(at, "a member that scripts/man-pages does not understand")
            above = match["above"] and " ".join(re.sub(r"\n[ \t]*\*", "\n", match["above"]).split())
            behind = match["behind"] and match["behind"].strip()
            found.append((above, " ".join(match["text"].split()), behind))
            at = match.end()
        return found


def sentences(text):
    """Splits at full stops that are outside parentheses and have a blank behind them."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "." and depth <= 0 and text[at + 1:at + 2] in ("", " "):
            found.append(text[start:at + 1].strip())
            start = at + 1
    rest = text[start:].strip()
    return found + [rest] if rest else found


class Comment:
    """The comment of a function or type, taken apart."""

    def __init__(self, item):
        self.description, self.returns, self.threads = [], [], []
        for kind, text in item.group.comment:
            if kind != "p":
                raise Misunderstood(f"{item.where}: {item.name}: no lists in the comments of declarations, please")
            told, value = [], []
            for sentence in sentences(text):
                if re.match(r"(Any thread|On the node's thread)\b", sentence):
                    self.threads.append(sentence)
                else:
                    (value if value or sentence.startswith("Returns ") else told).append(sentence)
            self.description += [" ".join(told)] if told else []
            self.returns += [" ".join(value)] if value else []
        if not self.description:
            raise Misunderstood(f"{item.where}: {item.name}: its comment does not say what it is or does")
        first = re.split(r"[.:;](?= |$)", self.description[0])[0]
        if len(first) > NAME_MAX:
            raise Misunderstood(f"{item.where}: {item.name}: the first sentence of its comment, up to a full stop or a "
                                f"colon, is its NAME line; {len(first)} columns are too long, {NAME_MAX} will do")
        self.short = first[0].lower() + first[1:]
