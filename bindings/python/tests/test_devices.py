# SPDX-License-Identifier: MIT
"""Devices and conformance."""
import unittest

import copse


class Devices(unittest.TestCase):
    def test_found(self):
        found = {d.id: d for d in copse.devices()}
        self.assertEqual(found["host:0"].kind, "reference")
        self.assertTrue(found["host:0"].is_usable)
        self.assertEqual(copse.select("host"), ["host:0"])

    def test_conformance(self):
        cases = []
        counts = copse.conformance.run("host:0", ops="softmax", modes=["run"], on_case=cases.append)
        self.assertEqual(set(counts), {"PASS"})
        self.assertEqual(len(cases), counts["PASS"])
        self.assertEqual(cases[0].op, "softmax")
        with self.assertRaises(copse.errors.ArgumentError):
            copse.conformance.run("host:0", ops="no such op")

        def stop(case):
            raise KeyError(case.op)

        with self.assertRaises(KeyError):
            copse.conformance.run("host:0", ops="softmax", on_case=stop)


if __name__ == "__main__":
    unittest.main()
