# SPDX-License-Identifier: MIT
"""The second implementation of the protocol against the vectors of doc/protocol.md."""
import unittest

import vectors
import weftpeer


class VectorTest(unittest.TestCase):
    def each(self, *kinds):
        found = [vector for vector in vectors.load().values() if vector.kind in kinds]
        self.assertTrue(found)
        return found

    def test_read(self):
        for vector in self.each("frames", "read"):
            with self.subTest(vector.name):
                self.assertEqual(weftpeer.decode(vector.frame), vector.fields)

    def test_parts(self):
        for vector in self.each("parts"):
            with self.subTest(vector.name):
                self.assertEqual(weftpeer.decode_part(vector.frame), vector.fields)
                self.assertEqual(weftpeer.encode_part(vector.fields).hex(" "), vector.frame.hex(" "))
                self.assertRaises(weftpeer.Malformed, weftpeer.decode, vector.frame)

    def test_written(self):
        for vector in self.each("frames"):
            with self.subTest(vector.name):
                self.assertEqual(weftpeer.encode(vector.fields).hex(" "), vector.frame.hex(" "))

    def test_written_otherwise(self):
        for vector in self.each("read"):
            with self.subTest(vector.name):
                again = weftpeer.encode(vector.fields)
                self.assertNotEqual(again, vector.frame)
                self.assertEqual(weftpeer.decode(again), vector.fields)

    def test_malformed(self):
        for vector in self.each("malformed"):
            with self.subTest(vector.name):
                with self.assertRaises(weftpeer.Malformed, msg=vector.why):
                    weftpeer.decode(vector.frame)

    def test_cut(self):
        """Every frame cut off anywhere is malformed, but for DATA that is cut off where a record ends, and for BUNDLE
        that is where a frame in it ends with its padding."""
        for vector in self.each("frames", "read"):
            with self.subTest(vector.name):
                ends, at = set(), 32
                for _, _, message, _ in vector.fields.get("records", []):
                    padded = at + (16 + len(message) + 7) // 8 * 8
                    ends |= {at + 16 + len(message), padded}
                    at = padded
                for bundled in vector.fields.get("bundled", []):
                    at += weftpeer.bundled_room(bundled)
                    ends.add(at)
                for length in range(len(vector.frame)):
                    try:
                        weftpeer.decode(vector.frame[:length])
                    except weftpeer.Malformed:
                        self.assertNotIn(length, ends)
                    else:
                        self.assertIn(length, ends)

    def test_every_type_is_there(self):
        types = {vector.fields["type"] for vector in self.each("frames")}
        self.assertEqual(types, set(weftpeer.TYPES[1:]))


if __name__ == "__main__":
    unittest.main()
