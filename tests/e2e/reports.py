"""Common code of the tests of reports: runs that a test writes, and the page of a report."""

import html.parser
import json
import pathlib

from harness import RunTest

ATTACK = "</script><script>alert(1)</script>\u2028&\"'"


class Page(html.parser.HTMLParser):
    """Collects the title, the scripts and the other tags of an HTML file."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.texts, self.addresses = [], {}, []
        self.open = None
        self.feed(pathlib.Path(path).read_text())
        self.close()
        self.title = self.texts["title"]
        self.runs = json.loads(self.texts["runs"])

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.addresses += [attributes[name] for name in ("src", "href") if name in attributes]
        self.open = attributes.get("id", tag)

    def handle_data(self, data):
        if self.open:
            self.texts[self.open] = self.texts.get(self.open, "") + data

    def handle_endtag(self, tag):
        self.open = None


def write_run(folder, events, **settings):
    """Writes a run's folder with these events, each an object or the text of a line."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    (folder / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))
    (folder / "config.json").write_text(json.dumps(
        {"settings": dict(RUN_ID=folder.name, **settings), "origins": {}, "versions": "1", "device": "CPU"}))
    return folder


def start(**more):
    return dict(event="start", tokens_per_step=1024, world_size=1, **more)


def train(step, loss=4.0, **more):
    return dict(event="train", step=step, train_loss=loss, lr_scale=1.0, train_time_ms=10.0 * step, **more)


class ReportTest(RunTest):
    def report(self, *runs, out="report.html"):
        """Makes a report of these folders and returns the parsed page."""
        done = self.run_gpt("report", *runs, "--out", out, OUTPUT_DIR=None)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.file = self.folder / out
        self.assertEqual(done.stdout,
                         f"{out}: {len(runs)} run{'s' * (len(runs) > 1)}, {self.file.stat().st_size} bytes\n")
        page = Page(self.file)
        self.assertEqual(page.addresses, [])  # it loads nothing else
        self.assertEqual(page.tags.count("script"), 2)
        return page
