#!/usr/bin/python3
"""Makes the items of last_word.toml and cloze.toml from a text, to measure models on the kind of text they trained on.

    make_word_tasks.py TEXT FOLDER [--from 0.9] [--to 1] [--items 500] [--seed 1]

TEXT is a text file or a .jsonl file with a field "text", either also as .gz. --from and --to select a part of its
characters; choose a part that no model was trained on. A passage is at most 400 characters long. It begins at the
beginning of a word, and the next word ends a sentence and has three letters or more. last_word.jsonl asks for this
word. cloze.jsonl also gives three wrong words. They are last words of other passages of the same part, drawn by the
seed, and their first letter has the same case.
"""

import argparse
import gzip
import json
import os
import random
import re


def read(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="ignore") as file:
        if path.removesuffix(".gz").endswith(".jsonl"):
            return "\n\n".join(json.loads(line)["text"] for line in file if line.strip())
        return file.read()


def passages(text):
    """Yields (context, word) for each passage and the word after it."""
    for found in re.finditer(r"(?<= )[A-Za-z]{3,}(?=[.!?](?:\s|\"|$))", text):
        context = text[max(0, found.start() - 401):found.start() - 1]
        if found.start() > 401:
            context = context[context.find(" ") + 1:]
        if len(context) >= 100:
            yield context, found.group()


def cloze(items, draw):
    for context, word in items:
        others = sorted({other for _, other in items if other.lower() != word.lower() and
                         other[0].isupper() == word[0].isupper()})
        if len(others) < 3:
            continue
        words = [word, *draw.sample(others, 3)]
        draw.shuffle(words)
        yield {"context": context, "words": words, "right": words.index(word)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("folder")
    parser.add_argument("--from", type=float, default=0.9, dest="begin")
    parser.add_argument("--to", type=float, default=1, dest="end")
    parser.add_argument("--items", type=int, default=500, help="at most, drawn by the seed")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    text, draw = read(arguments.text), random.Random(arguments.seed)
    part = text[int(arguments.begin * len(text)):int(arguments.end * len(text))]
    items = list(passages(part[part.find(" ") + 1:]))  # without the incomplete first word
    if len(items) > arguments.items:
        items = [items[i] for i in sorted(draw.sample(range(len(items)), arguments.items))]
    os.makedirs(arguments.folder, exist_ok=True)
    for name, rows in (("last_word", ({"context": context, "word": word} for context, word in items)),
                       ("cloze", cloze(items, draw))):
        with open(os.path.join(arguments.folder, name + ".jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    print(f"{arguments.folder}: {len(items)} passages")


if __name__ == "__main__":
    main()
