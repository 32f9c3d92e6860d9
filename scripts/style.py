# SPDX-License-Identifier: MIT
"""Checks what no compiler does: license lines, line lengths, tabs, blanks at line ends, and that no source or test has
been forgotten in the lists of meson.build. Prints each offence."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["include", "src", "tool", "examples", "softefa", "tests", "bench", "scripts", ".ci"]
LIMITS = {".c": 100, ".cc": 120, ".h": 120, ".in": 120, ".py": 120, ".build": 120, ".sh": 120, "": 120}


def offences(path):
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    if not any("SPDX-License-Identifier: MIT" in line for line in lines[:3]):
        yield 1, "no SPDX-License-Identifier line at the top"
    if lines[-1] != "":
        yield len(lines), "no newline at the end"
    for number, line in enumerate(lines, 1):
        if len(line.expandtabs(8)) > LIMITS[path.suffix]:
            yield number, f"longer than {LIMITS[path.suffix]} columns"
        if line != line.rstrip():
            yield number, "blanks at the end"
        if path.suffix in (".c", ".h") and line.startswith("  "):
            yield number, "indented by blanks, not by a tab"
        if "\r" in line:
            yield number, "carriage return"


# Which files have to be named in which list, and how: in one of these forms.
LISTED = [
    ("src/meson.build", "src/*.c", "{path.name}"),
    ("tool/meson.build", "tool/*.c", "{path.name}"),
    ("doc/man/meson.build", "doc/man/*.1.scd", "{path.stem}"),
    ("tests/meson.build", "tests/unit/test_*.c", "{path.stem}"),
    ("tests/meson.build", "tests/conformance/test_*.c", "{path.stem}"),
    ("tests/meson.build", "tests/fake/test_*.c", "{path.stem}"),
    ("tests/meson.build", "tests/cli/test_*.py", "{path.stem}"),
    ("tests/meson.build", "tests/peer/test_*.py", "{path.stem}"),
    ("tests/meson.build", "tests/fuzz/fuzz_*.c", "{path.stem}"),
    ("softefa/meson.build", "softefa/*.c", "{path.name}"),
    ("softefa/meson.build", "softefa/*/*.c", "{path.parent.name}/{path.name}"),
    ("softefa/tests/meson.build", "softefa/tests/unit/test_*.c", "{path.stem}"),
    ("softefa/tests/meson.build", "softefa/tests/verbs/test_*.c", "{path.stem}"),
    ("softefa/tests/meson.build", "softefa/tests/run/test_*.py", "{path.stem}", "run/{path.name}"),
    ("softefa/tests/meson.build", "softefa/tests/fuzz/fuzz_*.c", "{path.stem}"),
]


def unlisted():
    for build, pattern, *forms in LISTED:
        text = (ROOT / build).read_text(encoding="utf-8")
        for path in sorted(ROOT.glob(pattern)):
            names = [form.format(path=path).removeprefix("fuzz_") for form in forms]
            if not any(f"'{name}'" in text for name in names):
                yield path, f"not listed in {build}, so that it is never built or run"


def main():
    bad = seen = 0
    for path, what in unlisted():
        bad += 1
        print(f"{path.relative_to(ROOT)}: {what}")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if not path.is_file() or path.suffix not in LIMITS or "corpus" in path.parts:
                continue
            seen += 1
            for number, what in offences(path):
                bad += 1
                print(f"{path.relative_to(ROOT)}:{number}: {what}")
    print(f"{seen} files, {bad} offences")
    return 1 if bad or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
