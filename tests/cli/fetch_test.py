#!/usr/bin/python3
"""Runs `penstock data fetch` against a server on 127.0.0.1: whole downloads, downloads resumed after a cut connection
and after Ctrl-C, a server without ranges, a file that changed, wrong checksums, errors, links, and a full disk.

    fetch_test.py PENSTOCK
"""

import hashlib
import os
import signal
import socket
import subprocess
import threading
import time

from fetch_server import noise, run, zipped


def check_whole(test, content):
    test.server.reset(content)
    result = test.succeeds("whole", "whole")
    test.expect("a whole download", result["bytes"] == len(content) and result["resumed_from"] == 0, result)
    test.expect("a whole download", result["checksum"] == "given" and not result["already_there"], result)
    test.expect("a whole download", result["sha256"] == hashlib.sha256(content).hexdigest(), result)
    test.expect("a whole download", test.path("whole/text8.zip") in result["next"], result)
    again = test.succeeds("again", "whole")
    test.expect("a second call fetches nothing", again["already_there"] and len(test.server.requests) == 1, test.server.requests)
    plain = test.fetch("whole", "--sha256", "none").stdout
    test.expect("no checksum was given", "checksum unverified" in plain and result["sha256"] in plain, plain)
    test.server.reset(content, send_length=False)
    test.succeeds("without a length", "unsized")
    test.server.reset(content, status=302)
    test.succeeds("redirected", "redirected")
    with open(test.path("whole/text8.zip"), "wb") as file:
        file.write(b"mine")
    test.fails("another file", ["is there already", "remove it"], "whole")


def check_resumed(test, content, other):
    cut = 300_000
    keep = f"{cut:,} bytes are kept"
    test.server.reset(content, cut_after=cut)
    test.fails("cut", ["broke off", keep, "run the same command again"], "resumed")
    test.expect("a download cut short", test.left("resumed") == ["text8.zip.part", "text8.zip.part.json"], test.left("resumed"))
    result = test.succeeds("resumed", "resumed")
    test.expect("resumed", result["resumed_from"] == cut, result)
    test.expect("resumed", test.server.requests[1].get("Range") == f"bytes={cut}-", test.server.requests)

    for name, then in (("no ranges", {"ranges": False}), ("changed", {"content": other}),
                       ("changed, unsaid", {"content": other, "honest": False}),
                       ("shrunk", {"content": other[:1000], "honest": False})):
        test.server.reset(content, cut_after=cut)
        test.fails(name, [keep], name)
        test.server.reset(then.pop("content", content), **then)
        result = test.succeeds(name, name)
        test.expect(name, result["resumed_from"] == 0, result)

    # Downloads that begin again: no ETag to recognise the version by, damaged notes, a part from another address.
    test.server.reset(content, cut_after=cut, validators=False)
    test.fails("no validators", [keep], "no validators")
    test.expect("no validators", test.succeeds("no validators", "no validators")["resumed_from"] == 0)
    test.server.reset(content, cut_after=cut)
    test.fails("damaged notes", [keep], "damaged")
    with open(test.path("damaged/text8.zip.part.json"), "w") as file:
        file.write("{")
    test.expect("damaged notes", test.succeeds("damaged notes", "damaged")["resumed_from"] == 0)
    test.server.reset(content, cut_after=cut)
    test.fails("other address", [keep], "address", url=test.server.url + "?other")
    test.expect("other address", test.succeeds("other address", "address")["resumed_from"] == 0)

    # A complete part that was not renamed yet.
    test.server.reset(content, cut_after=cut)
    test.fails("complete part", [keep], "complete")
    with open(test.path("complete/text8.zip.part"), "wb") as file:
        file.write(content)
    test.expect("complete part", test.succeeds("complete part", "complete")["resumed_from"] == len(content))


def check_links(test, content):
    """If the output is a symbolic link, the link stays. The target is written, with the part beside the target."""
    os.makedirs(test.path("linked"))
    os.makedirs(test.path("store"))
    os.symlink("../store/mine.zip", test.path("linked/text8.zip"))
    test.server.reset(content, cut_after=1000)
    test.fails("cut behind a link", ["1,000 bytes are kept", "store/mine.zip.part"], "linked")
    test.expect("cut behind a link", test.left("store") == ["mine.zip.part", "mine.zip.part.json"], test.left("store"))
    test.server.reset(content)
    test.expect("the target is a link", test.succeeds("link", "linked")["resumed_from"] == 1000)
    test.expect("the target is a link", os.path.islink(test.path("linked/text8.zip")) and test.left("store") == ["mine.zip"],
                test.left("store"))
    os.symlink("text8.zip", test.path("store/text8.zip"))
    test.fails("circle", ["symbolic link that leads back to itself"], "store")

    # Only an archive's members are kept. The downloaded archive is removed, also where a link points to it.
    archive = zipped({"COPA/val.jsonl": "{}\n", "COPA/train.jsonl": "{}\n"})
    os.makedirs(test.path("unpacked"))
    os.symlink("../store/COPA.zip", test.path("unpacked/COPA.zip"))
    test.server.reset(archive)
    done = test.fetch("unpacked", "--sha256", hashlib.sha256(archive).hexdigest(), dataset="copa")
    test.expect("archive behind a link", done.returncode == 0 and "COPA" in test.left("unpacked"), done.stderr)
    test.expect("archive behind a link", "COPA.zip" not in test.left("store"), test.left("store"))


def check_interrupted(test, content):
    for number in (signal.SIGINT, signal.SIGKILL):
        out = f"signal {number}"
        test.server.reset(content, pause_after=200_000, paused=threading.Event())
        sum_ = hashlib.sha256(content).hexdigest()
        process = subprocess.Popen(test.arguments(out, "--sha256", sum_), stderr=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, text=True, env=test.environment)
        test.server.paused.wait(30)
        for _ in range(200):
            part = test.path(out + "/text8.zip.part")
            if os.path.exists(part) and os.path.getsize(part) == 200_000:
                break
            time.sleep(0.05)
        process.send_signal(number)
        said = process.communicate(timeout=30)[1]
        if number == signal.SIGINT:
            test.expect(out, process.returncode == 130 and "run the same command again" in said,
                        f"{process.returncode} {said!r}")
        test.server.reset(content)
        test.expect(out, test.succeeds(out, out)["resumed_from"] == 200_000)


def check_errors(test, content):
    right, wrong = hashlib.sha256(content).hexdigest(), "0" * 64
    test.server.reset(content)
    test.fails("wrong sum", [right, wrong, "it was removed"], "bad", "--sha256", wrong)
    test.expect("wrong sum", test.left("bad") == [], test.left("bad"))
    sha1 = hashlib.sha1(content).hexdigest()
    test.fails("published sum", [sha1, "6c70299b93b7e1f927b42cd8f6ac1a31547c7a2e", "gluon-nlp"], "bad")
    for status, meaning in ((404, "not found"), (403, "refused"), (500, "its own failure"), (418, "418")):
        test.server.reset(content, status=status)
        test.fails(f"status {status}", [str(status), meaning, "--url"], "status")
        test.expect(f"status {status}", test.left("status") == [], test.left("status"))
    # A server error during a resumed download keeps the part, and a later call resumes from it.
    test.server.reset(content, cut_after=1000)
    test.fails("cut", ["kept"], "later")
    test.server.reset(content, status=503)
    test.fails("then 503", ["503"], "later")
    test.server.reset(content)
    test.expect("then 503", test.succeeds("then 503", "later")["resumed_from"] == 1000)
    with socket.socket() as unused:  # bound but not listening, so that no other program gets the port
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/x"
        test.fails("refused", [url, "connect", "--url"], "refused/inner", url=url)
    test.fails("protocol", ["file:///etc/hostname"], "protocol", url="file:///etc/hostname")
    test.expect("no folder is left after an error", not any(
        os.path.exists(test.path(name)) for name in ("bad", "status", "refused", "protocol")))
    os.mkdir(test.path("mine"))
    test.fails("protocol", ["file:///etc/hostname"], "mine/inner", url="file:///etc/hostname")
    test.expect("a folder of the user's stays", test.left("mine") == [] and os.path.isdir(test.path("mine")))
    test.fails("unknown", ["no data set, task or group 'enwik' is known", "'enwik8'"], "x", dataset="enwik")


def check_full_disk(test, content):
    """A download to a file system with room for half of the file. Only root can mount one."""
    full = test.path("full")
    os.mkdir(full)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", full], capture_output=True).returncode:
        print("skipped: a full disk (cannot mount a small one)")
        return
    try:
        test.server.reset(content)
        test.fails("disk full", ["disk full", "make room", "run the same command again"], "full")
        test.expect("disk full", "text8.zip" not in test.left("full") and "text8.zip.part" in test.left("full"),
                    test.left("full"))
        subprocess.run(["mount", "-o", "remount,size=4m", full], check=True)
        test.expect("disk full", test.succeeds("then room", "full")["resumed_from"] > 100_000)
    finally:
        subprocess.run(["umount", full], check=True)


def checks(test):
    content, other = noise(1_000_000, 1), noise(1_000_000, 2)
    check_whole(test, content)
    check_resumed(test, content, other)
    check_links(test, content)
    check_interrupted(test, content)
    check_errors(test, content)
    check_full_disk(test, content)


if __name__ == "__main__":
    run(checks)
