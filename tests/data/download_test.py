#!/usr/bin/env python3
"""data/download_fineweb.py with a server on 127.0.0.1: interrupted downloads, ranges, redirects, wrong bytes."""

import hashlib
import http.server
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "data" / "download_fineweb.py"
SHARDS = "/datasets/datasets/fineweb10B_sp1024/"
FILES = {
    "/datasets/tokenizers/fineweb_1024_bpe.model": b"model" * 1000,
    SHARDS + "fineweb_val_000000.bin": os.urandom(300_000),
    SHARDS + "fineweb_train_000000.bin": os.urandom(2_500_000),
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves FILES with ranges; the server's attributes select faults."""

    def do_GET(self):
        server, path = self.server, self.path
        server.requests.append((path, self.headers.get("Range")))
        if server.busy > 0:
            server.busy -= 1
            return self.plain(503)
        if path not in server.files and not path.startswith("/store"):
            return self.plain(404)
        if server.redirect and not path.startswith("/store"):
            digest = hashlib.sha256(server.files[path]).hexdigest()
            return self.plain(302, {"Location": "/store" + path, "X-Linked-Etag": f'"{digest}"'})
        body = server.files[path.removeprefix("/store")]
        begin, status = 0, 200
        if self.headers.get("Range") and server.ranges:
            begin, status = int(self.headers["Range"][6:].rstrip("-")), 206
            if begin >= len(body):
                return self.plain(416, {"Content-Range": f"bytes */{len(body)}"})
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) - begin))
        if status == 206:
            self.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        self.end_headers()
        body = bytearray(body[begin:])
        if server.flip and path.endswith("val_000000.bin"):
            body[7] ^= 1
        if server.cut and len(body) > server.cut:
            body = body[: server.cut]
        self.wfile.write(body)
        self.close_connection = True

    def plain(self, status, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


class Download(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = pathlib.Path(folder.name)
        self.shards = self.data / "datasets" / "fineweb10B_sp1024"
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.files, self.server.requests = dict(FILES), []
        self.server.busy, self.server.cut, self.server.flip = 0, 0, False
        self.server.redirect, self.server.ranges = True, True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def run_script(self, *arguments):
        url = f"http://127.0.0.1:{self.server.server_port}"
        return subprocess.run(
            [sys.executable, SCRIPT, "sp1024", "--data", self.data, "--base-url", url, "--backoff", "0.01",
             "--timeout", "10", "--retries", "3", *map(str, arguments)],
            capture_output=True, text=True, check=False)

    def expect(self, code, part, result):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(part, result.stderr if code else result.stdout)
        if code:
            errors = [line for line in result.stderr.splitlines() if not line.startswith("WARN")]
            self.assertEqual(len(errors), 1, result.stderr)
            self.assertTrue(errors[0].startswith(f"ERROR exit={code}: "), errors[0])

    def expect_all_there(self):
        for path, body in FILES.items():
            self.assertEqual((self.data / path.removeprefix("/datasets/")).read_bytes(), body)
        sums = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=self.shards, check=False)
        self.assertEqual(sums.returncode, 0)
        self.assertEqual(list(self.data.rglob("*.part")), [])

    def test_downloads_all_once_and_verifies_from_then_on(self):
        self.expect(0, "downloaded", self.run_script())
        self.expect_all_there()
        self.server.requests.clear()
        self.expect(0, "verified", self.run_script())
        self.expect(0, "verified", self.run_script("--verify"))
        self.assertEqual(self.server.requests, [])

    def test_goes_on_where_a_connection_was_cut(self):
        self.server.cut = 900_000
        result = self.run_script()
        self.expect(0, "downloaded", result)
        self.assertIn("the connection ended at byte 900000 of 2500000", result.stderr)
        self.expect_all_there()
        ranges = [asked for path, asked in self.server.requests if path.endswith("train_000000.bin")]
        self.assertIn("bytes=1800000-", ranges)

    def test_goes_on_in_a_later_run(self):
        self.shards.mkdir(parents=True)
        body = FILES[SHARDS + "fineweb_train_000000.bin"]
        (self.shards / "fineweb_train_000000.bin.part").write_bytes(body[:1234])
        whole = FILES[SHARDS + "fineweb_val_000000.bin"]
        (self.shards / "fineweb_val_000000.bin.part").write_bytes(whole)
        self.expect(0, "downloaded", self.run_script())
        self.expect_all_there()
        self.assertIn("bytes=1234-", [asked for _, asked in self.server.requests])

    def test_begins_again_where_the_server_knows_no_ranges_or_the_part_is_too_long(self):
        self.shards.mkdir(parents=True)
        (self.shards / "fineweb_train_000000.bin.part").write_bytes(b"x" * 1234)
        self.server.ranges = False
        self.expect(0, "downloaded", self.run_script())
        self.expect_all_there()
        (self.shards / "fineweb_val_000000.bin").unlink()
        (self.shards / "fineweb_val_000000.bin.part").write_bytes(b"x" * 400_000)
        self.server.ranges = True
        self.expect(0, "downloaded", self.run_script())
        self.expect_all_there()

    def test_waits_for_a_busy_server_but_not_for_ever(self):
        self.server.busy = 3
        self.expect(0, "downloaded", self.run_script())
        self.server.busy = 1000
        self.expect(69, "HTTP 503", self.run_script("--train-shards", 2))

    def test_refuses_wrong_bytes_and_keeps_none_of_them(self):
        self.server.flip = True
        self.expect(65, "wrong checksum for", self.run_script())
        self.assertFalse((self.shards / "fineweb_val_000000.bin").exists())
        self.assertFalse((self.shards / "fineweb_val_000000.bin.part").exists())

    def test_holds_to_a_list_that_the_user_gave(self):
        sums = self.data / "mine"
        lines = [f"{hashlib.sha256(body).hexdigest()}  {path.rsplit('/', 1)[1]}\n" for path, body in FILES.items()]
        sums.write_text("".join(lines))
        self.server.redirect = False  # the server sends no checksum
        self.expect(0, "downloaded", self.run_script("--checksums", sums))
        self.expect_all_there()
        sums.write_text(lines[0] + lines[1].replace(lines[1][:8], "00000000"))
        self.expect(65, "wrong checksum for", self.run_script("--checksums", sums))
        sums.write_text("garbage\n")
        self.expect(65, "mine:1: expected", self.run_script("--checksums", sums))

    def test_notices_a_file_that_changed_on_the_disk_and_leaves_it(self):
        self.expect(0, "downloaded", self.run_script())
        shard = self.shards / "fineweb_train_000000.bin"
        shard.write_bytes(b"y" + shard.read_bytes()[1:])
        self.expect(65, "wrong checksum for", self.run_script("--verify"))
        self.assertTrue(shard.exists())

    def test_says_what_is_missing(self):
        self.expect(66, "HTTP 404", self.run_script("--train-shards", 2))
        self.expect(66, "is missing", self.run_script("--train-shards", 2, "--verify"))
        self.assertEqual(self.run_script("--train-shards", -1).returncode, 64)
        self.server.shutdown()
        self.server.server_close()
        self.expect(69, "cannot download", self.run_script("--train-shards", 2, "--retries", 1))

    def test_leaves_a_file_that_it_did_not_bring(self):
        self.shards.mkdir(parents=True)
        own = self.shards / "fineweb_val_000000.bin"
        own.write_bytes(b"my own shard")
        self.expect(65, "does not list it", self.run_script())
        self.assertEqual(own.read_bytes(), b"my own shard")

    def test_presets_read_the_folders_that_it_fills(self):
        there = set(re.findall(r'"(datasets/\w+)"', SCRIPT.read_text()))
        self.assertIn("datasets/fineweb10B_gpt2", there)
        for preset in sorted((SOURCE / "configs").glob("*.env")):
            for folder in re.findall(r"^DATA_PATH=\./data/(datasets/fineweb\w*)$", preset.read_text(), re.M):
                self.assertIn(folder, there, preset)


if __name__ == "__main__":
    unittest.main()
