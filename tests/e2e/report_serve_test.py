"""`train_gpt report --serve`: which requests are allowed, and that the page follows growing runs at low cost."""

import contextlib
import html.parser
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse

from harness import RunTest, end, read_until

ATTACK = "</script><script>alert(1)</script>\u2028&\"'"
MANY = 1_440_000 if os.environ.get("MEASURE") else 240_000  # a thousand steps per minute: a day, four hours


def lines(first, last, name="train"):
    """Returns the events of these steps as text."""
    return "".join(f'{{"event":"train","step":{step},"train_loss":{3 + step % 1000 / 1000 + 20 * (step == 77777)},'
                   f'"lr_scale":1.0,"grad_norm":{step % 7 / 7},"train_time_ms":{60.5 * step}}}\n'
                   for step in range(first, last + 1))


START = '{"event":"start","tokens_per_step":1024,"world_size":1,"dataset":"text"}\n'


def write_run(folder, steps, run_id=None, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(
        {"settings": dict(RUN_ID=run_id or folder.name, **settings), "origins": {}, "versions": "1", "device": "CPU"}))
    (folder / "metrics.jsonl").write_text(START + lines(1, steps))
    return folder / "metrics.jsonl"


def bytes_read_by(process):
    return int(re.search(r"rchar: (\d+)", pathlib.Path(f"/proc/{process.pid}/io").read_text())[1])


class Scripts(html.parser.HTMLParser):
    """Returns the texts of a page's scripts."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.inside = [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.inside = tag == "script"
        if self.inside:
            self.texts.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.texts[-1] += data


def tcp_sockets(state):
    """Returns the fields of the kernel's socket tables for sockets in that state."""
    rows = [row.split() for table in ("tcp", "tcp6")
            for row in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    return [fields for fields in rows if fields[3] == state]


class ServeTest(RunTest):
    @contextlib.contextmanager
    def serving(self, *runs, port=()):
        """Serves these runs; the server must exit successfully when it is stopped."""
        with self.start_gpt("report", *runs, "--serve", *port, OUTPUT_DIR=None) as process:
            try:
                address = process.stdout.readline().strip()
                match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([0-9a-f]{32})", address)
                self.assertTrue(match, f"{address} {process.poll()}")
                self.port, self.token = int(match[1]), match[2]
                yield process
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(10), 0)
                self.assertEqual((process.stdout.read(), process.stderr.read()), ("", ""))
            finally:
                end(process)

    def get(self, path, token=None, host=None, method="GET", **query):
        """Returns status, headers, text."""
        query = {"token": self.token if token is None else token, **query}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, f"{path}?{urllib.parse.urlencode(query)}", skip_host=host is not None)
        if host:
            connection.putheader("Host", host)
        connection.endheaders()
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply.status, dict(reply.getheaders()), text

    def changes(self, since=0):
        status, _, text = self.get("/changes", since=since)
        self.assertEqual(status, 200, text)
        self.size = len(text)
        return json.loads(text)

    def all_read(self, since=0):
        """Returns the page after the server has read the runs to their ends."""
        for _ in range(100):
            state = self.changes(since)
            if not state["reading"]:
                return state
        self.fail("it reads for ever")


class AccessTest(ServeTest):
    def test_only_who_has_the_address_reads(self):
        write_run(self.folder / "runs" / "one", 3)
        with self.serving("runs"):
            first = self.token
            self.assertEqual(self.get("/")[0], 200)
            for token in ("", "0" * 32, first[:-1], first + "0", first.upper() + "x"):
                for path in ("/", "/changes", "/other"):
                    status, _, text = self.get(path, token=token)
                    self.assertEqual((status, text), (403, "403 Forbidden\n"))
            self.assertEqual(self.get("/other")[0], 404)
            self.assertIn(self.get("/", method="POST")[0], (405, 501))
        with self.serving("runs"):
            self.assertNotEqual(self.token, first)

    def test_a_foreign_host_is_refused(self):
        write_run(self.folder / "hosts" / "one", 3)
        with self.serving("hosts"):
            for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:1",
                         "10.0.0.1", "[::2]", "127.0.0.1@evil.example"):
                self.assertEqual(self.get("/", host=host)[0], 403, host)
            for host in ("127.0.0.1", "localhost:9999", f"127.0.0.1:{self.port}", "[::1]:80"):  # 9999: the port of a tunnel
                self.assertEqual(self.get("/", host=host)[0], 200, host)
            self.assertEqual(self.get("/", host="")[0], 403)  # no Host header

    def test_it_listens_on_the_loopback_alone(self):
        write_run(self.folder / "own" / "one", 3)
        with self.serving("own") as process:
            owned = {os.readlink(link) for link in pathlib.Path(f"/proc/{process.pid}/fd").iterdir()}
            listening = [fields[1] for fields in tcp_sockets("0A") if f"socket:[{fields[9]}]" in owned]
            self.assertEqual(listening, [f"0100007F:{self.port:04X}"])

    def test_the_page_may_ask_its_server_and_nobody_else(self):
        write_run(self.folder / "policy" / "one", 3)
        with self.serving("policy"):
            _, headers, text = self.get("/")
        self.assertIn("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'\"", text)
        self.assertEqual([headers[name] for name in ("Cache-Control", "Referrer-Policy", "X-Frame-Options")],
                         ["no-store", "no-referrer", "DENY"])

    def test_text_of_a_run_stays_text(self):
        write_run(self.folder / "hostile" / "one", 3, run_id=ATTACK, DATA_PATH=ATTACK)
        with self.serving("hostile"):
            status, _, text = self.get("/")
            _, headers, _ = self.get("/changes")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))  # not displayed as a page
        scripts = Scripts(text).texts
        self.assertEqual(len(scripts), 2)
        self.assertEqual(json.loads(scripts[0])["runs"][0]["settings"]["DATA_PATH"], ATTACK)
        self.assertNotIn("<script>alert", text)

    def test_usage(self):
        see = "see train_gpt report --help"
        for words, code, line in (
                (["a", "--serve", "--out", "b"], 64, f"train_gpt report: expected --out FILE or --serve [PORT], found both; {see}"),
                (["--serve=high"], 64, "train_gpt report: --serve: expected a port, 0 to 65535, found 'high'"),
                (["--serve", "65536"], 64, "train_gpt report: --serve: expected a port, 0 to 65535, found '65536'"),
                (["none", "--serve"], 66, "none: no such folder (expected a run's OUTPUT_DIR, such as logs/RUN_ID)")):
            done = self.run_gpt("report", *words)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (code, "", f"ERROR exit={code} rank=0: {line}\n"))

    def test_a_port_in_use_is_one_line(self):
        write_run(self.folder / "busy" / "one", 3)
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            done = self.run_gpt("report", "busy", "--serve", port)
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        self.assertEqual(done.stderr, f"ERROR exit=69 rank=0: port {port} of 127.0.0.1 cannot be used (Address already in use); "
                         "choose another one, or none for a free one\n")
        with self.serving("busy", port=[str(port)]):  # the port is free again
            self.assertEqual(self.port, port)


class FollowTest(ServeTest):
    def test_a_file_that_grows(self):
        path = write_run(self.folder / "grows" / "one", 3)
        with self.serving("grows"):
            state = self.changes()
            self.assertEqual(state["runs"][0]["train"]["columns"]["step"], [1, 2, 3])
            still = self.changes(state["version"])
            self.assertEqual((still["runs"], still["paths"]), ([], ["grows/one/metrics.jsonl"]))
            text = lines(4, 5)
            with path.open("a") as file:  # a line written in two pieces
                file.write(text[:-30])
                file.flush()
                run, = self.changes(still["version"])["runs"]
                self.assertEqual(run["train"]["columns"]["step"], [1, 2, 3, 4])
                file.write(text[-30:])
            run, = self.changes(still["version"])["runs"]
            self.assertEqual(run["train"]["columns"]["step"], [1, 2, 3, 4, 5])
            self.assertEqual(run["train"]["columns"]["tokens"][-1], 5 * 1024)

    def test_a_file_that_is_cut_back_or_replaced_is_read_anew(self):
        path = write_run(self.folder / "cut" / "one", 6)
        with self.serving("cut"):
            version = self.changes()["version"]
            # As a run that resumes from step 3 and writes more than before until the next poll.
            path.write_text(START + lines(1, 3) + lines(4, 9).replace("60.5", "61").replace('"train_loss":3', '"train_loss":4'))
            state = self.changes(version)
            columns = state["runs"][0]["train"]["columns"]
            self.assertEqual(columns["step"], list(range(1, 10)))
            self.assertEqual([int(loss) for loss in columns["loss"]], [3, 3, 3, 4, 4, 4, 4, 4, 4])
            new = self.folder / "new.jsonl"
            new.write_text(START + lines(1, 20))
            new.rename(path)
            self.assertEqual(self.changes(state["version"])["runs"][0]["train"]["rows"], 20)

    def test_a_new_run_shows_up_and_one_that_is_gone_leaves(self):
        write_run(self.folder / "logs" / "a", 3)
        with self.serving():  # logs is the default
            version = self.changes()["version"]
            (self.folder / "logs" / "b").mkdir()
            (self.folder / "logs" / "b" / "metrics.jsonl").write_text("")  # has not started
            self.assertEqual(self.changes(version)["paths"], ["logs/a/metrics.jsonl"])
            write_run(self.folder / "logs" / "b", 2)
            state = self.changes(version)
            self.assertEqual(state["paths"], ["logs/a/metrics.jsonl", "logs/b/metrics.jsonl"])
            self.assertEqual([run["name"] for run in state["runs"]], ["b"])
            shutil.rmtree(self.folder / "logs" / "a")
            self.assertEqual(self.changes(version)["paths"], ["logs/b/metrics.jsonl"])

    def test_of_many_runs_the_newest_32(self):
        for i in range(40):
            path = write_run(self.folder / "many" / f"run{i:02}", 1)
            os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))
        with self.serving("many"):
            state = self.changes()
        self.assertEqual([run["name"] for run in state["runs"]], [f"run{i:02}" for i in range(8, 40)])
        self.assertEqual(state["left_out"], 8)

    def test_what_a_run_does_is_told_also_when_it_says_nothing(self):
        path = write_run(self.folder / "silent" / "one", 3)
        with self.serving("silent"):
            state = self.changes()
            self.assertEqual(state["statuses"], [{"kind": "training", "text": "training"}])
            then = time.time() - 200
            os.utime(path, (then, then))
            state = self.changes(state["version"])
            self.assertEqual(state["statuses"], [{"kind": "silent", "text": "training, no line for 3 min"}])
            self.assertEqual(state["runs"], [])  # no series is sent again
            with path.open("a") as file:
                file.write('{"event":"exit","code":65,"step":3,"text":"bad"}\n')
            state = self.changes(state["version"])
            self.assertEqual(state["statuses"], [{"kind": "stopped", "text": "stopped at step 3, exit 65"}])
            self.assertEqual(state["runs"][0]["exit"]["text"], "bad")

    def test_a_damaged_run_is_told_and_the_others_go_on(self):
        write_run(self.folder / "mixed" / "good", 3)
        bad = write_run(self.folder / "mixed" / "bad", 2)
        with bad.open("a") as file:
            file.write("hello\n")
        with self.serving("mixed"):
            state = self.changes()
        self.assertEqual([(run["name"], run["train"]["rows"]) for run in state["runs"]], [("bad", 2), ("good", 3)])
        self.assertEqual(state["errors"], [{"path": "mixed/bad/metrics.jsonl", "text":
                         'mixed/bad/metrics.jsonl:4: expected an event, a JSON object with a string "event", found "hello"'}])

    def test_a_run_that_trains(self):
        with self.start_gpt(output="live", ITERATIONS=40) as process:
            read_until(process, "step:2/")
            with self.serving(self.folder / "live"):
                state = self.changes()
                seen = state["runs"][0]["train"]["rows"]
                self.assertGreaterEqual(seen, 1)
                process.communicate(timeout=60)
                run, = self.changes(state["version"])["runs"]
        self.assertEqual(run["train"]["rows"], 40)
        self.assertEqual(run["status"]["text"], "ended")


class LongRunTest(ServeTest):
    def test_a_long_run_costs_little_to_follow(self):
        path = write_run(self.folder / "day" / "long", 0)
        with path.open("a") as file:
            for first in range(1, MANY, 100_000):
                file.write(lines(first, min(first + 99_999, MANY)))
        with self.serving("day") as process:
            before = bytes_read_by(process)
            began = time.monotonic()
            _, _, page = self.get("/")
            first_s = time.monotonic() - began
            self.assertLess(bytes_read_by(process) - before, 20 << 20)  # an answer does not wait until everything is read
            state = self.all_read()
            all_s = time.monotonic() - began
            self.assertLess(self.size, 3_000_000)
            self.assertLess(len(page), 3_000_000)
            columns = state["runs"][0]["train"]["columns"]
            self.assertEqual(state["runs"][0]["train"]["rows"], MANY)
            self.assertEqual((columns["step"][0], columns["step"][-1]), (1, MANY))
            self.assertEqual(columns["loss"][columns["step"].index(77777)], 3.777 + 20)  # thinning keeps extremes
            with path.open("a") as file:
                file.write(lines(MANY + 1, MANY + 17))
            before = bytes_read_by(process)
            began = time.monotonic()
            state = self.changes(state["version"])
            update_s = time.monotonic() - began
            self.assertEqual(state["runs"][0]["train"]["rows"], MANY + 17)
            self.assertLess(bytes_read_by(process) - before, 20_000)  # 17 lines and the request
            memory = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1])
            again = self.changes(state["version"])
            self.assertEqual(again["runs"], [])
            self.assertLess(self.size, 1000)
        if os.environ.get("MEASURE"):
            print(f"\n{MANY} steps, {path.stat().st_size} bytes: page {len(page)} bytes in {first_s:.3f} s, all read in "
                  f"{all_s:.2f} s; update {len(json.dumps(state))} bytes in {update_s:.3f} s; {memory} KiB resident")


@unittest.skipUnless(shutil.which("chromium"), "no chromium on this machine: pages are not opened")
class BrowserTest(ServeTest):
    def is_asked(self):
        """A client is connected to the server."""
        return any(fields[1] == f"0100007F:{self.port:04X}" for fields in tcp_sockets("01"))

    def test_the_page_follows_a_run(self):
        path = write_run(self.folder / "seen" / "one", 30)
        stopped = write_run(self.folder / "seen" / "two", 5)
        with self.serving("seen"), tempfile.TemporaryDirectory() as profile, subprocess.Popen(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--enable-logging=stderr",
                 "--virtual-time-budget=60000", "--dump-dom", f"http://127.0.0.1:{self.port}/?token={self.token}"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as browser:
            while browser.poll() is None and not self.is_asked():
                time.sleep(0.005)
            # The run continues for one second only: the browser's virtual time, after which it exits, hardly
            # advances while there are responses to wait for and to draw.
            for step in range(31, 231):
                with path.open("a") as file:
                    file.write(lines(step, step))
                time.sleep(0.005)
            with stopped.open("a") as file:
                file.write('{"event":"exit","code":75,"step":5,"text":"stopped by SIGTERM"}\n')
            page, errors = browser.communicate(timeout=60)
        self.assertEqual([line for line in errors.splitlines() if "CONSOLE" in line], [])
        self.assertIn("Follows the runs.", page)
        self.assertIn('<span>one: training</span>; <span class="bad">two: stopped at step 5, exit 75</span>', page)
        self.assertIn("<td class=\"text\">stopped at step 5, exit 75: stopped by SIGTERM</td>", page)
        at_first = json.loads(Scripts(page).texts[0])["runs"][0]["train"]["rows"]
        shown = int(re.search(r'<th scope="row">steps</th><td>([\d,]+)</td><td>5</td>', page)[1].replace(",", ""))
        self.assertGreater(shown, at_first)


if __name__ == "__main__":
    unittest.main()
