#!/usr/bin/env python3
"""Prints the memory of `penstock data prepare` beside mapped files, for a JSONL file of random words that it makes.

  bench/prepare_memory.py PENSTOCK [MB]     MB of text, default 150
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time


def write_text(path, size):
    """Writes documents of 600 words, of 5,000 different ones, and returns their number."""
    draws, words, documents = random.Random(1), ["w%d" % i for i in range(5000)], 0
    with open(path, "w") as file:
        while file.tell() < size:
            file.write(json.dumps({"text": " ".join(draws.choices(words, k=600))}) + "\n")
            documents += 1
    return documents


def anonymous_kilobytes(process):
    """Returns RssAnon of the process, or 0 if it has ended."""
    try:
        with open("/proc/%d/status" % process.pid) as status:
            return next((int(line.split()[1]) for line in status if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0


def main():
    program, megabytes = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 150
    with tempfile.TemporaryDirectory(dir=".") as folder:
        text = os.path.join(folder, "text.jsonl")
        documents = write_text(text, megabytes * 1_000_000)
        process = subprocess.Popen([program, "data", "prepare", text, "--out", os.path.join(folder, "corpus")],
                                   stdout=subprocess.DEVNULL)
        most = 0
        while process.poll() is None:
            most = max(most, anonymous_kilobytes(process))
            time.sleep(0.02)
        if process.returncode != 0:
            sys.exit(process.returncode)
    print(f"{megabytes} MB of JSONL in {documents} documents: {most * 1024 / 1e6:.0f} MB at most (RssAnon)")


if __name__ == "__main__":
    main()
