#!/usr/bin/python3
"""`penstock data fetch` against a server on 127.0.0.1: whole, resumed after a cut connection and after
Ctrl-C, without ranges, with a file that changed, with wrong sums, with errors, and on a full disk; and the rows of tasks,
of which archives are unpacked.

    fetch_test.py PENSTOCK
"""

import hashlib
import http.server
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile


class Server(http.server.ThreadingHTTPServer):
    """One file under any path, with the behaviours that a test sets."""

    daemon_threads = True

    def __init__(self, content):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/file.zip"
        self.reset(content)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def reset(self, content, **behaviour):
        self.content, self.etag = content, f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        self.status, self.ranges, self.validators, self.honest = 200, True, True, True
        self.cut_after, self.pause_after, self.send_length = None, None, True
        self.requests = []
        for key, value in behaviour.items():
            setattr(self, key, value)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        server.requests.append(dict(self.headers))
        self.close_connection = True
        if server.status == 302:
            server.status = 200
            self.send_response(302)
            self.send_header("ETag", '"of the redirection"')
            self.send_header("Location", server.url)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if server.status != 200:
            body = b"<html>no</html>"
            self.send_response(server.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        begin, whole = 0, server.content
        wanted = self.headers.get("Range") if server.ranges else None
        if wanted and (self.headers.get("If-Range") == server.etag or not server.honest):
            begin = int(wanted[len("bytes="):].rstrip("-"))
        if begin >= len(whole) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(whole)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = whole[begin:]
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(whole) - 1}/{len(whole)}")
        if server.send_length:
            self.send_header("Content-Length", str(len(body)))
        if server.validators:
            self.send_header("ETag", server.etag)
        self.end_headers()
        if server.cut_after is not None:
            self.wfile.write(body[:server.cut_after])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            server.cut_after = None
        elif server.pause_after is not None:
            self.wfile.write(body[:server.pause_after])
            self.wfile.flush()
            server.paused.set()
            time.sleep(20)
        else:
            self.wfile.write(body)


class Test:
    def __init__(self, program, directory, server):
        self.program, self.directory, self.server, self.failures = program, directory, server, 0
        # A proxy of the machine's must not see requests to this one.
        self.environment = {**os.environ, "no_proxy": "127.0.0.1", "LC_ALL": "C"}

    def expect(self, what, condition, detail=""):
        if not condition:
            self.failures += 1
            print(f"FAILED: {what} {detail}")

    def path(self, name):
        return os.path.join(self.directory, name)

    def arguments(self, out, *more, dataset="text8", url=None):
        return [self.program, "data", "fetch", dataset, "--out", self.path(out), "--url", url or self.server.url,
                *more]

    def fetch(self, out, *more, **others):
        return subprocess.run(self.arguments(out, *more, **others), capture_output=True, text=True, timeout=60,
                              env=self.environment)

    def succeeds(self, what, out, *more, content=None):
        content = self.server.content if content is None else content
        done = self.fetch(out, "--sha256", hashlib.sha256(content).hexdigest(), "--json", *more)
        self.expect(what, done.returncode == 0, done.stderr)
        with open(self.path(f"{out}/text8.zip"), "rb") as file:
            self.expect(what, file.read() == content, "other bytes")
        self.expect(what, os.listdir(self.path(out)) == ["text8.zip"], os.listdir(self.path(out)))
        return json.loads(done.stdout)

    def fails(self, what, parts, out, *more, **others):
        done = self.fetch(out, *more, **others)
        self.expect(what, done.returncode == 1, f"exit {done.returncode} {done.stdout}")
        self.expect(what, done.stderr.count("\n") == 1, f"not one line: {done.stderr!r}")
        for part in parts:
            self.expect(what, part in done.stderr, f"{part!r} not in {done.stderr!r}")

    def left(self, out):
        folder = self.path(out)
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def noise(bytes_, seed):
    """Bytes that differ at every offset."""
    out = bytearray()
    for index in range(bytes_ // 32 + 1):
        out += hashlib.sha256(b"%d %d" % (seed, index)).digest()
    return bytes(out[:bytes_])


def check_whole(test, content):
    test.server.reset(content)
    result = test.succeeds("whole", "whole")
    test.expect("whole", result["bytes"] == len(content) and result["resumed_from"] == 0, result)
    test.expect("whole", result["checksum"] == "given" and not result["already_there"], result)
    test.expect("whole", result["sha256"] == hashlib.sha256(content).hexdigest(), result)
    test.expect("whole", test.path("whole/text8.zip") in result["next"], result)
    again = test.succeeds("again", "whole")
    test.expect("again", again["already_there"] and len(test.server.requests) == 1, test.server.requests)
    plain = test.fetch("whole", "--sha256", "none").stdout
    test.expect("none", "checksum unverified" in plain and result["sha256"] in plain, plain)
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
    test.expect("cut", test.left("resumed") == ["text8.zip.part", "text8.zip.part.json"], test.left("resumed"))
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

    # Nothing to tell versions apart by, notes that are damaged, and a part of another address.
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

    # A part that lacks nothing but its name.
    test.server.reset(content, cut_after=cut)
    test.fails("complete part", [keep], "complete")
    with open(test.path("complete/text8.zip.part"), "wb") as file:
        file.write(content)
    test.expect("complete part", test.succeeds("complete part", "complete")["resumed_from"] == len(content))


def check_links(test, content):
    """A name that leads elsewhere stays a link; what it leads to is written, by way of a part beside it."""
    os.makedirs(test.path("linked"))
    os.makedirs(test.path("store"))
    os.symlink("../store/mine.zip", test.path("linked/text8.zip"))
    test.server.reset(content, cut_after=1000)
    test.fails("cut behind a link", ["1,000 bytes are kept", "store/mine.zip.part"], "linked")
    test.expect("cut behind a link", test.left("store") == ["mine.zip.part", "mine.zip.part.json"], test.left("store"))
    test.server.reset(content)
    test.expect("link", test.succeeds("link", "linked")["resumed_from"] == 1000)
    test.expect("link", os.path.islink(test.path("linked/text8.zip")) and test.left("store") == ["mine.zip"],
                test.left("store"))
    os.symlink("text8.zip", test.path("store/text8.zip"))
    test.fails("circle", ["symbolic link that leads back to itself"], "store")

    # An archive whose members alone are kept: what was downloaded goes, wherever it lay.
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
    # An error in the middle of things leaves the part to go on from.
    test.server.reset(content, cut_after=1000)
    test.fails("cut", ["kept"], "later")
    test.server.reset(content, status=503)
    test.fails("then 503", ["503"], "later")
    test.server.reset(content)
    test.expect("then 503", test.succeeds("then 503", "later")["resumed_from"] == 1000)
    with socket.socket() as unused:  # bound and not listening: nobody else takes the port
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/x"
        test.fails("refused", [url, "connect", "--url"], "refused", url=url)
    test.fails("protocol", ["file:///etc/hostname"], "protocol", url="file:///etc/hostname")
    test.expect("left", test.left("refused") + test.left("protocol") == [])
    test.fails("unknown", ["no data set, task or group 'enwik' is known", "'enwik8'"], "x", dataset="enwik")


def check_full_disk(test, content):
    """On a file system that half of the file fills; only root can make one."""
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


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return buffer.getvalue()


def check_rows_of_tasks(test):
    """An archive's members, unpacked and compared again later."""
    members = {"COPA/val.jsonl": "{\"a\": 1}\n", "COPA/train.jsonl": "{\"a\": 2}\n"}
    content = zipped({f"outer/{name}": text for name, text in members.items()} | {"COPA/test.jsonl": "no"})
    right = ("--sha256", hashlib.sha256(content).hexdigest(), "--json")
    test.server.reset(content, cut_after=100)
    test.fails("cut", ["100 bytes are kept"], "rows", *right, dataset="copa")
    test.server.reset(content)
    done = json.loads(test.fetch("rows", *right, dataset="copa").stdout)
    test.expect("members", done["resumed_from"] == 100 and "--task-data " + test.path("rows") in done["next"], done)
    test.expect("members", test.left("rows") == ["COPA", "COPA.zip.fetched.json"], test.left("rows"))
    for name, text in members.items():
        with open(test.path(f"rows/{name}")) as file:
            test.expect("members", file.read() == text, name)
    test.expect("members", test.left("rows/COPA") == ["train.jsonl", "val.jsonl"], test.left("rows/COPA"))
    again = json.loads(test.fetch("rows", *right, dataset="copa").stdout)
    test.expect("again", again["already_there"] and again["sha256"] == done["sha256"] and
                len(test.server.requests) == 1, again)
    test.fails("other sum", ["COPA.zip.fetched.json", done["sha256"], "0" * 64], "rows", "--sha256", "0" * 64,
               dataset="copa")
    os.remove(test.path("rows/COPA/val.jsonl"))
    again = json.loads(test.fetch("rows", *right, dataset="copa").stdout)
    test.expect("one is missing", not again["already_there"] and test.left("rows/COPA") == ["train.jsonl", "val.jsonl"],
                again)
    with open(test.path("rows/COPA/val.jsonl"), "a") as file:
        file.write("more")
    test.fails("changed", ["COPA/val.jsonl", "when it was fetched", "remove both"], "rows", *right, dataset="copa")
    with open(test.path("rows/COPA.zip.fetched.json"), "w") as file:
        file.write("{}")
    test.fails("damaged record", ["COPA.zip.fetched.json", "is damaged", "remove it"], "rows", *right, dataset="copa")
    os.remove(test.path("rows/COPA.zip.fetched.json"))
    test.fails("mine", ["COPA/val.jsonl", "is there already", "is not what"], "rows", *right, dataset="copa")
    lacking = zipped({"COPA/val.jsonl": "{}\n"})
    test.server.reset(lacking)
    test.fails("lacking", ["has no member COPA/train.jsonl"], "lacking", "--sha256",
               hashlib.sha256(lacking).hexdigest(), dataset="copa")
    test.server.reset(content[:60])
    test.fails("torn", ["COPA.zip"], "torn", "--sha256", hashlib.sha256(content[:60]).hexdigest(), dataset="copa")
    test.expect("torn", "COPA.zip.fetched.json" not in test.left("torn"), test.left("torn"))


def check_first_sum_is_kept(test):
    """Of a file without a published sum the first one is what the next call compares with."""
    test.server.reset(b"{}\n")
    plain = test.fetch("race", dataset="race").stdout
    test.expect("no sum", "checksum unverified" in plain and "the next call compares with" in plain, plain)
    again = test.fetch("race", "--json", dataset="race")
    test.expect("no sum", json.loads(again.stdout)["already_there"], again)
    with open(test.path("race/race_high_test.jsonl"), "w") as file:
        file.write("{ }\n")
    test.fails("no sum", ["race_high_test.jsonl", "when it was fetched"], "race", dataset="race")


def check_names(test):
    listed = subprocess.run([test.program, "data", "fetch", "--list"], capture_output=True, text=True).stdout
    for part in ("text8", "BoolQ.zip", "CC BY-SA 3.0", "853fbe7922f7", "dataset_infos.json", "no published checksum"):
        test.expect("--list", part in listed, part)
    test.fails("several", ["--url", "one data set", "hellaswag-val, hellaswag-train"], "x", dataset="hellaswag")
    test.fails("none", ["task wsc", "wsc.jsonl", "docs/tasks.md"], "x", dataset="wsc")
    none = subprocess.run([test.program, "data", "fetch"], capture_output=True, text=True)
    test.expect("no name", none.returncode == 2 and "--all" in none.stderr, none.stderr)


def check_prepared(test):
    """An archive as it is fetched becomes a corpus."""
    archive = test.path("enwik8.zip")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("enwik8", "<page>\n turbine &amp; gate\n</page>\n" * 1000)
    with open(archive, "rb") as file:
        content = file.read()
    test.server.reset(content)
    done = test.fetch("archive", "--sha256", hashlib.sha256(content).hexdigest(), "--json", dataset="enwik8")
    fetched = json.loads(done.stdout)["path"]
    prepared = subprocess.run([test.program, "data", "prepare", fetched, "--out", test.path("corpus"), "--json"],
                              capture_output=True, text=True, timeout=60)
    test.expect("prepared", prepared.returncode == 0 and '"enwik8"' in prepared.stdout, prepared.stderr)


def main():
    content, other = noise(1_000_000, 1), noise(1_000_000, 2)
    with tempfile.TemporaryDirectory() as directory:
        test = Test(os.path.abspath(sys.argv[1]), directory, Server(content))
        check_whole(test, content)
        check_resumed(test, content, other)
        check_links(test, content)
        check_interrupted(test, content)
        check_errors(test, content)
        check_full_disk(test, content)
        check_rows_of_tasks(test)
        check_first_sum_is_kept(test)
        check_names(test)
        check_prepared(test)
    print("fetch: ok" if test.failures == 0 else f"fetch: {test.failures} failures")
    sys.exit(test.failures != 0)


if __name__ == "__main__":
    main()
