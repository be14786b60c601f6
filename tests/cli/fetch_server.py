"""Shared code of the tests of `penstock data fetch`: a server on 127.0.0.1 that fails as a test asks, calls of the
program that fetches from the server, and files to fetch."""

import hashlib
import http.server
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile


class Server(http.server.ThreadingHTTPServer):
    """Serves one file under any path. A test sets the server's behaviour."""

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
        # Requests to this server must not go through the machine's proxy.
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
    """Returns pseudo-random bytes, so that two parts of a file or of two files never agree by chance."""
    out = bytearray()
    for index in range(bytes_ // 32 + 1):
        out += hashlib.sha256(b"%d %d" % (seed, index)).digest()
    return bytes(out[:bytes_])


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return buffer.getvalue()


def run(checks):
    """Calls checks(test) for the program named on the command line. Exits with 1 if a check failed, else with 0."""
    with tempfile.TemporaryDirectory() as directory:
        test = Test(os.path.abspath(sys.argv[1]), directory, Server(b""))
        checks(test)
    print("fetch: ok" if test.failures == 0 else f"fetch: {test.failures} failures")
    sys.exit(test.failures != 0)
