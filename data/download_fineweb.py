#!/usr/bin/env python3
"""Downloads tokenised FineWeb shards. Python's standard library only.

A download that was cut goes on where it stopped (HTTP range requests). Every file is checked against
SHA256SUMS in its folder (the format of sha256sum): a file listed there must match; a new one is
checked against the digest that the server announces, where it does, and then listed. Give a list of
your own with --checksums to trust nothing that the server says.

  data/download_fineweb.py sp1024 --train-shards 10
  data/download_fineweb.py gpt2 --train-shards 9
  data/download_fineweb.py sp1024 --verify          # check what is there, download nothing
"""

import argparse
import hashlib
import http.client
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

HUB = "https://huggingface.co/datasets"
DATA = Path(__file__).resolve().parent
CHUNK = 1 << 20
EXIT_USAGE, EXIT_BAD_DATA, EXIT_MISSING, EXIT_NETWORK, EXIT_CREATE, EXIT_IO = 64, 65, 66, 69, 73, 74


class Set:
    """Where a tokenised set lies at its host, and where it goes here."""

    def __init__(self, base_url, shards_at, shards_to, first_train, tokenizer=None):
        self.base_url, self.shards_at, self.shards_to = base_url, shards_at, shards_to
        self.first_train, self.tokenizer = first_train, tokenizer

    def files(self, train_shards, data):
        """(path at the host, path here), validation first."""
        names = ["fineweb_val_000000.bin"]
        last = self.first_train + train_shards
        names += [f"fineweb_train_{i:06}.bin" for i in range(self.first_train, last)]
        files = [(self.shards_at + name, data / self.shards_to / name) for name in names]
        if self.tokenizer:
            at, to = self.tokenizer
            files.insert(0, (at, data / to))
        return files


SETS = {
    "sp1024": Set(
        f"{HUB}/willdepueoai/parameter-golf/resolve/main/", "datasets/datasets/fineweb10B_sp1024/",
        "datasets/fineweb10B_sp1024", 0,
        ("datasets/tokenizers/fineweb_1024_bpe.model", "tokenizers/fineweb_1024_bpe.model")),
    "gpt2": Set(f"{HUB}/kjj0/fineweb10B-gpt2/resolve/main/", "", "datasets/fineweb10B_gpt2", 1),
}


class Failure(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Checksums:
    """SHA256SUMS of one folder."""

    def __init__(self, folder):
        self.path = folder / "SHA256SUMS"
        self.known = read_checksums(self.path) if self.path.exists() else {}

    def add(self, name, digest):
        if self.known.get(name) == digest:
            return
        self.known[name] = digest
        lines = [f"{self.known[key]}  {key}\n" for key in sorted(self.known)]
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text("".join(lines))
        os.replace(temporary, self.path)


def read_checksums(path):
    known = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
        if not match:
            raise Failure(EXIT_BAD_DATA, f"{path}:{number}: expected '<sha256>  <name>', found {line!r}")
        known[match[2]] = match[1]
    return known


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class KeepAnnouncedDigest(urllib.request.HTTPRedirectHandler):
    """The hub names the SHA-256 in the answer that redirects to the store, not in the store's own."""

    announced = None

    def redirect_request(self, request, body, code, message, headers, new_url):
        self.announced = announced_digest(headers) or self.announced
        return super().redirect_request(request, body, code, message, headers, new_url)


def announced_digest(headers):
    for name in ("X-Linked-Etag", "X-Checksum-Sha256", "ETag"):
        value = (headers.get(name) or "").strip('"')
        if re.fullmatch(r"[0-9a-f]{64}", value):
            return value
    return None


class Downloader:
    def __init__(self, retries, backoff, timeout):
        self.retries, self.backoff, self.timeout = retries, backoff, timeout
        self.redirects = KeepAnnouncedDigest()
        self.opener = urllib.request.build_opener(self.redirects)

    def fetch(self, url, part):
        """Fills `part` with all of `url`; the digest that the server announced, if any."""
        failures = 0
        while True:
            before = part.stat().st_size if part.exists() else 0
            try:
                return self.fetch_rest(url, part)
            except urllib.error.HTTPError as error:
                if error.code not in (408, 429) and error.code < 500:
                    code = EXIT_MISSING if error.code in (404, 410) else EXIT_NETWORK
                    raise Failure(code, f"cannot download {url} (HTTP {error.code} {error.reason})")
                reason = f"HTTP {error.code} {error.reason}"
            except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
            # Only attempts that brought nothing count: a long file over a bad line may be cut often.
            failures = 1 if part.exists() and part.stat().st_size > before else failures + 1
            if failures > self.retries:
                raise Failure(EXIT_NETWORK, f"cannot download {url} ({reason}); run the same command "
                                            f"again to go on where it stopped")
            wait = self.backoff * 2 ** (failures - 1)
            print(f"WARN {url}: {reason}; again in {wait:g} s", file=sys.stderr)
            time.sleep(wait)

    def fetch_rest(self, url, part):
        have = part.stat().st_size if part.exists() else 0
        request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
        self.redirects.announced = None
        try:
            answer = self.opener.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            total = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range") or "")
            if error.code == 416 and total and int(total[1]) == have:
                # All of it was there already.
                return self.redirects.announced or announced_digest(error.headers)
            if error.code == 416:
                part.unlink()  # longer than the file at the host: begin again
                return self.fetch_rest(url, part)
            raise
        with answer:
            announced = self.redirects.announced or announced_digest(answer.headers)
            resumed = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(
                f"bytes {have}-")
            length = answer.headers.get("Content-Length")
            expected = None if length is None else int(length) + (have if resumed else 0)
            with open(part, "ab" if resumed else "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    show(part, file.tell(), expected)
                size = file.tell()
            if expected is not None and size != expected:
                raise ConnectionError(f"the connection ended at byte {size} of {expected}")
            return announced


def show(path, done, total):
    if sys.stdout.isatty():
        share = f" of {total / 1e6:.1f}" if total else ""
        print(f"\r\x1b[K{path.stem} {done / 1e6:.1f}{share} MB", end="", flush=True)


def clear_line():
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")


def check(path, expected):
    found = digest_of(path)
    if found != expected:
        raise Failure(EXIT_BAD_DATA, f"wrong checksum for {path} (expected sha256 {expected}, found {found})")
    return found


def get(downloader, url, path, trusted, verify_only):
    """One file; `trusted` maps names to digests that must hold, or is empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    checksums = Checksums(path.parent)
    expected = trusted.get(path.name) or checksums.known.get(path.name)
    if trusted and path.name not in trusted:
        raise Failure(EXIT_BAD_DATA, f"{path.name} is not in the list given with --checksums")
    if path.exists():
        if expected is None:
            raise Failure(EXIT_BAD_DATA, f"{path} is not from here: {checksums.path} does not list it; "
                                         f"move it away, or give --checksums")
        checksums.add(path.name, check(path, expected))
        print(f"verified {path}")
        return
    if verify_only:
        raise Failure(EXIT_MISSING, f"{path} is missing; run without --verify")
    part = path.with_name(path.name + ".part")
    announced = downloader.fetch(url, part)
    clear_line()
    try:
        digest = check(part, expected or announced) if expected or announced else digest_of(part)
    except Failure:
        part.unlink()  # going on from wrong bytes could never end well
        raise
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    checksums.add(path.name, digest)
    os.replace(part, path)
    print(f"downloaded {path}" + ("" if expected or announced else " (the server announced no checksum)"))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("set", choices=sorted(SETS), help="sp1024: 1,024 pieces; gpt2: 50,257")
    parser.add_argument("--train-shards", type=int, default=1, help="of 100 million tokens each")
    parser.add_argument("--data", type=Path, default=DATA, help="where datasets/ and tokenizers/ go")
    parser.add_argument("--base-url", help="a mirror with the same paths")
    parser.add_argument("--checksums", type=Path, help="a list as sha256sum writes it, which must hold")
    parser.add_argument("--retries", type=int, default=8, help="attempts in a row that bring nothing")
    parser.add_argument("--backoff", type=float, default=1.0, help="seconds before the first; then doubled")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds without a byte")
    parser.add_argument("--verify", action="store_true", help="check what is there, download nothing")
    given = parser.parse_args(arguments)
    if given.train_shards < 0:
        parser.error(f"--train-shards: expected at least 0, found {given.train_shards}")
    return given


def main(arguments):
    try:
        given = parse(arguments)
    except SystemExit as stop:
        return EXIT_USAGE if stop.code else 0
    chosen = SETS[given.set]
    base = given.base_url.rstrip("/") + "/" if given.base_url else chosen.base_url
    try:
        trusted = read_checksums(given.checksums) if given.checksums else {}
        downloader = Downloader(given.retries, given.backoff, given.timeout)
        for at, path in chosen.files(given.train_shards, given.data):
            get(downloader, urllib.parse.urljoin(base, at), path, trusted, given.verify)
    except Failure as failure:
        clear_line()
        print(f"ERROR exit={failure.code}: {failure}", file=sys.stderr)
        return failure.code
    except OSError as error:
        clear_line()
        code = EXIT_CREATE if isinstance(error, (PermissionError, FileExistsError)) else EXIT_IO
        print(f"ERROR exit={code}: {error}", file=sys.stderr)
        return code
    except KeyboardInterrupt:
        clear_line()
        print("stopped; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
