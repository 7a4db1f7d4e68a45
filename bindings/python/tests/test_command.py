# SPDX-License-Identifier: MIT
"""`python -m copse ...` is the command: the same text, files, exit codes and signals."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import copse
from rig import InFolder

BESIDE = Path(copse.__file__).parent / "bin" / "copse"
COMMAND = os.environ.get("COPSE_COMMAND") or str(BESIDE)
WAYS = {"command": [COMMAND], "python": [sys.executable, "-m", "copse"]}
ENDLESS = ["train", "--devices", "host", "--epochs", "1000000", "--quiet"]


class Command(InFolder):
    def begin(self, way, *arguments, **settings):
        folder = self.folder / way
        folder.mkdir(exist_ok=True)
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings
        process = subprocess.Popen([*WAYS[way], *arguments], cwd=folder, text=True, **settings)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def both(self, *arguments):
        """Exit code, output and error text of both ways; times and rates of speed are left out."""
        results = []
        own = os.environ | {"XDG_CACHE_HOME": str(self.folder / "cache")}  # others tune kernels meanwhile
        for way in WAYS:
            process = self.begin(way, *arguments, env=own)
            out, err = process.communicate()
            out = re.sub(r'"(seconds|samples_per_s|compile_seconds|data_wait)":[0-9.e+-]+', r'"\1":0', out)
            results.append((process.returncode, out, err))
        self.assertEqual(results[0], results[1])
        return results[1]

    def test_exit_codes_and_texts(self):
        self.assertEqual(self.both("--version")[0], 0)
        self.assertIn("usage", self.both("help", "train")[1].lower())
        self.assertIn("host:0", self.both("devices")[1])
        for arguments in (["no-such-command"], ["train", "--no-such-option"], ["predict", "none", "none"], []):
            with self.subTest(arguments):
                self.assertEqual(self.both(*arguments)[0], 2)
        failures = []
        for way in WAYS:
            with open("/dev/full", "w") as full:
                process = self.begin(way, "devices", stdout=full)
            failures.append((process.communicate()[1], process.returncode))
        self.assertEqual(failures[0], failures[1])
        self.assertEqual(failures[1][1], 1)

    def test_json_and_files(self):
        code, out, _ = self.both("train", "--devices", "host", "--epochs", "2", "--json", "--save", "m.safetensors")
        self.assertEqual(code, 0)
        self.assertEqual({"epoch"} & {json.loads(line).get("event") for line in out.splitlines()}, {"epoch"})
        files = [(self.folder / way / "m.safetensors").read_bytes() for way in WAYS]
        self.assertEqual(files[0], files[1])

    def stopped(self, way, number):
        process = self.begin(way, *ENDLESS, "--save", f"m{number:d}")
        while not (self.folder / way / f"m{number:d}.partial").exists() and process.poll() is None:
            time.sleep(0.02)  # the file is there when the run trains
        process.send_signal(number)
        return re.sub("step [0-9]+", "step N", process.communicate()[1]), process.returncode

    def test_signals(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            found = [self.stopped(way, number) for way in WAYS]
            self.assertEqual(found[0], found[1])
            self.assertEqual(found[1][1], code)

    def test_a_reader_that_goes_away(self):
        for way in WAYS:
            process = self.begin(way, "train", "--devices", "host", "--epochs", "100000", "--json")
            process.stdout.readline()
            process.stdout.close()
            process.stderr.close()
            with self.subTest(way):
                self.assertEqual(process.wait(timeout=200), -signal.SIGPIPE)


if __name__ == "__main__":
    unittest.main()
