"""A stand-in for llama-perplexity's task modes, for compare_llama_cpp_test.py. It reads the modes' files, scores with
Penstock, and prints the lines that llama.cpp prints. With WRONG in the environment, its scores and choices are wrong.

    llama_modes.py PENSTOCK MODEL [llama-perplexity's options]
"""

import csv
import json
import os
import struct
import subprocess
import sys

PROGRAM, MODEL, *OPTIONS = sys.argv[1:]
ASKED = subprocess.Popen([PROGRAM, "eval", MODEL, "--requests", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True)


def mean(text, begin):
    """Returns the mean log-likelihood of the tokens (here bytes) from index `begin` on."""
    ids = list(text.encode())
    if "WRONG" in os.environ:
        ids[-1] = ord("z") if text[-1] != "r" else ord("e")
    ASKED.stdin.write(json.dumps({"ids": ids, "scored_from": begin}) + "\n\n")
    ASKED.stdin.flush()
    return json.loads(ASKED.stdout.readline())["loglikelihood"] / (len(ids) - begin)


def chosen(context, choices):
    texts = [f"{context} {choice}" for choice in choices]
    scores = [mean(text, len(os.path.commonprefix(texts))) for text in texts]
    return (scores.index(max(scores)) + ("WRONG" in os.environ)) % len(scores)


def tell(rights):
    count = 0
    for number, right in enumerate(rights, 1):
        count += right
        print(f"{number}\t{100 * count / number:.8f}%\t[a, b]")


def multiple_choice(content):
    (count,), at = struct.unpack_from("<I", content), 4
    at += 4 * count

    def number():
        nonlocal at
        at += 4
        return struct.unpack_from("<i", content, at - 4)[0]

    def text():
        nonlocal at
        size = number()
        at += size
        return content[at - size:at].decode()

    for _ in range(count):
        context = text()
        choices = [text() for _ in range(number())]
        labels = [number() for _ in choices]
        assert number() == 0
        yield labels[chosen(context, choices)] == 1


def hellaswag(content):
    lines = content.decode().splitlines()
    items = [lines[i:i + 6] for i in range(0, len(lines), 6)]
    for context, label, *choices in items[1::2] + items[::2][::-1]:
        yield chosen(context, choices) == int(label)


def winogrande(content):
    for number, row in enumerate(filter(None, csv.reader(content.decode().splitlines())), 1):
        first, second = row[1].split("_")
        scores = [mean((first + option + second)[:-1], len(first + option)) for option in row[2:4]]
        print(f"{number}\t50.0000\t{scores[0]:10.6f}  {scores[1]:10.6f}  {1 if scores[0] > scores[1] else 2}  1")


with open(OPTIONS[OPTIONS.index("-bf" if "-bf" in OPTIONS else "-f") + 1], "rb") as source:
    data = source.read()
if "--multiple-choice" in OPTIONS:
    tell(multiple_choice(data))
elif "--hellaswag" in OPTIONS:
    tell(hellaswag(data))
else:
    winogrande(data)
ASKED.stdin.close()
