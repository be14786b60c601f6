"""Reads and updates the pages of the documentation, for the scripts that write parts of them. No program."""

import os
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def update(path, fresh, check=False, stale=""):
    """Gives the file the text `fresh`. With `check` it changes nothing, and exits with the message `stale` if the file
    has another text or is missing."""
    if os.path.exists(path) and read(path) == fresh:
        return
    if check:
        sys.exit(stale)
    with open(path, "w", encoding="utf-8") as file:
        file.write(fresh)
