"""Shared code of the tests of the Python package: the package from BUILD, tensors from files, calls of the program, and
a folder with a finished run.

Every test runs as NAME_test.py BUILD SOURCE [unittest's arguments] and imports this module first. The module finds the
package, and exits with 77 (skipped) if the package is not built."""
import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

# A shell makes its background jobs ignore SIGINT, and child processes inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)
BUILD, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.join(SOURCE, "tests", "cli")]
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
try:
    import torch

    import penstock
    import penstock._core
except ImportError as error:
    print(f"skipped: the Python package is not built ({error})")
    sys.exit(77)
from shell import RECIPE  # noqa: E402

PROGRAM = os.path.join(BUILD, "bin", "penstock")
TYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "I32": torch.int32}


def read_tensors(path):
    """Returns the tensors of a safetensors file by name."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            kind = TYPES[entry["dtype"]]
            out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=kind).reshape(entry["shape"]) \
                if end > begin else torch.zeros(entry["shape"], dtype=kind)
    return out


def run_program(*arguments, **options):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True, **options).stdout


class Fixture(unittest.TestCase):
    """A folder with a corpus of bytes, a recipe and one finished run."""

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.folder = cls.stack.enter_context(tempfile.TemporaryDirectory())
        before = os.getcwd()
        cls.stack.callback(os.chdir, before)
        os.chdir(cls.folder)
        with open("text.txt", "w", encoding="utf-8") as file:
            file.write("".join(f"line {i} of a small text, squared {i * i}\n" for i in range(900)))
        run_program("data", "prepare", "text.txt", "--out", "corpus")
        with open("recipe.toml", "w", encoding="utf-8") as file:
            file.write(RECIPE)
        penstock.train("recipe.toml", out="run", progress=False)
        penstock.set_threads(1)


def stop_at(step):
    def hear(line):
        if line["step"] == step:
            raise StopIteration
    return hear


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
