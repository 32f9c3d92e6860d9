# SPDX-License-Identifier: MIT
"""The entry points that libfabric wants are there, and the check of that would see any one missing.

SOFTEFA_LIBRARY names the library, SOFTEFA_FACE an archive of the object that defines the entry points.
"""
import os
import re
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = os.path.join(os.path.dirname(HERE), "check-entries")
LIBRARY = os.path.abspath(os.environ["SOFTEFA_LIBRARY"])
FACE = os.path.abspath(os.environ["SOFTEFA_FACE"])
CC = os.environ.get("CC", "cc").split()


def check(library):
    done = subprocess.run([CHECK, library], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def without(name, target):
    """The face as a library of its own, in which one definition is not to be seen."""
    script = target + ".map"
    with open(script, "w", encoding="ascii") as file:
        file.write(f"{{ local: {name}; }};\n" if name else "{ global: *; };\n")
    subprocess.run([*CC, "-shared", "-nostdlib", "-o", target, f"-Wl,--version-script={script}",
                    "-Wl,--whole-archive", FACE, "-Wl,--no-whole-archive"], check=True)


class Entries(unittest.TestCase):
    def test_all_are_there(self):
        status, out, err = check(LIBRARY)
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"wants \d\d, \d\d are defined, 0 missing")

    def test_any_one_missing_is_seen(self):
        fabric = re.match(r"entries: (\S+) wants", check(LIBRARY)[1])[1]
        symbols = subprocess.run(["nm", "-D", "--undefined-only", fabric], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        wanted = sorted(set(re.findall(r" (_?(?:ibv|efadv)_\w+)(?:@|$)", symbols, re.MULTILINE)))
        self.assertGreater(len(wanted), 30)
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "face.so")
            without(None, target)
            self.assertEqual(check(target)[0], 0)
            for name in wanted:
                without(name, target)
                status, _, err = check(target)
                self.assertEqual(status, 1, name)
                self.assertEqual(err.count("\n"), 1, err)
                self.assertIn(f" wants {name}, and ", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
