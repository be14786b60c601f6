"""Runs `penstock serve` for the measurements of the server. No program."""

import contextlib
import subprocess
import sys


@contextlib.contextmanager
def served(program, model, *options):
    """Yields the server's process and its port, which is a free one. Ends the server afterwards."""
    process = subprocess.Popen([program, "serve", model, "--port", "0", *options], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        if "http://" not in line:
            sys.exit("the server did not start")
        yield process, int(line.rstrip().rstrip("/").rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.wait()
