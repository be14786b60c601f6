#!/usr/bin/python3
"""Prints the numbers of protocols_test.cpp. It counts as the published code does, with Python's split() and
Counter.most_common(), and uses no code of Penstock.

    protocol_numbers.py shared/data/lm
"""

import collections
import gzip
import os
import sys


def read(name):
    with gzip.open(os.path.join(sys.argv[1], name)) as file:
        return file.read()


def lines(data):
    out = data.decode().split("\n")
    return out[:-1] if out[-1] == "" else out


def main():
    text = read("enwik8/enwik8_0_3500000.gz")
    cuts = [0, int(len(text) * 0.9), int(len(text) * 0.95), len(text)]
    parts = [text[a:b] for a, b in zip(cuts, cuts[1:])]
    print("enwik8", len(text), "bytes, cut to", [len(part) for part in parts])
    print("without newlines", [len(part) - part.count(b"\n") for part in parts])
    # Counts words as a line-by-line reader does in the files that prep_enwik8.py writes.
    counts = collections.Counter()
    for part in parts:
        for line in " ".join("\n" if byte == 10 else str(byte) for byte in part).split("\n"):
            counts.update(line.split())
    print("vocabulary", len(counts), [int(word) for word, _ in counts.most_common()][:8], "...",
          [int(word) for word, _ in counts.most_common()][-4:])
    words = collections.Counter()
    for name in ("train", "valid", "test"):
        data = read(f"wikitext-2/{name}.txt.gz")
        if name == "train":
            for line in lines(data):
                words.update(line.split())
        print("wikitext-2", name, len(data), "bytes,", sum(len(line.split()) + 1 for line in lines(data)),
              "tokens with <eos>,", sum(word not in words for line in lines(data) for word in line.split()),
              "unknown")
    print("vocabulary", len(words) + 1, [word for word, _ in words.most_common()][:6], "...",
          [word for word, _ in words.most_common()][-2:])


if __name__ == "__main__":
    main()
