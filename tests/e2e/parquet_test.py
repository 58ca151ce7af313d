"""Parquet files as pyarrow writes them, as text for make_shards and for a run."""

import json
import random
import shutil
import subprocess
import sys
import unittest

import pyarrow as pa
from pyarrow import parquet

from harness import BUILD, SMALL, TEXT, TOKENIZER, RunTest, train_losses


def licences():
    texts = [path.read_text() for path in sorted(TEXT.iterdir()) if path.is_file() and not path.is_symlink()]
    return [part for text in texts for part in text.split("\n\n") if part.strip()]


class ParquetTest(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.texts = licences()
        cls.write("plain.parquet", {"text": cls.texts, "n": range(len(cls.texts))})
        (cls.folder / "plain.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in cls.texts))
        cls.expected = cls.shards_of("plain.jsonl")

    @classmethod
    def write(cls, name, columns, **options):
        path = cls.folder / name
        path.parent.mkdir(exist_ok=True)
        parquet.write_table(pa.table(columns), path, **options)
        return path

    @classmethod
    def make_shards(cls, *arguments, out="shards", program=BUILD / "make_shards"):
        shutil.rmtree(cls.folder / out, ignore_errors=True)
        command = [program, "--tokenizer", TOKENIZER, "--out", cls.folder / out, "--val-fraction", "0.1", *arguments]
        return subprocess.run(command, cwd=cls.folder, capture_output=True, text=True, check=False)

    @classmethod
    def shards_of(cls, *arguments):
        done = cls.make_shards(*arguments)
        assert done.returncode == 0, done.stderr
        return {path.name: path.read_bytes() for path in sorted((cls.folder / "shards").iterdir())}

    def refused(self, name, *words, arguments=()):
        done = self.make_shards(*arguments, name)
        self.assertEqual(65, done.returncode, done.stdout + done.stderr)
        self.assertEqual(1, done.stderr.count("ERROR "), done.stderr)
        for word in (name, *words):
            self.assertIn(word, done.stderr)
        return done.stderr

    def test_compressions_encodings_pages_and_row_groups_give_the_shards_of_json_lines(self):
        small_pages = {"use_dictionary": False, "row_group_size": 37, "data_page_size": 512}
        for compression, options in (("none", small_pages), ("snappy", {}), ("snappy", small_pages), ("gzip", {}),
                                     ("zstd", small_pages), ("zstd", {"data_page_version": "2.0", "row_group_size": 64}),
                                     ("brotli", {}), ("lz4", {})):
            path = self.write("packed.parquet", {"n": range(len(self.texts)), "text": self.texts}, compression=compression,
                              **options)
            with self.subTest(compression, **options):
                self.assertEqual(self.expected, self.shards_of(path.name))

    def test_every_type_of_strings_is_read(self):
        for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.binary()):
            path = self.write("typed.parquet", {"text": pa.array(self.texts).cast(kind)})
            with self.subTest(str(kind)):
                self.assertEqual(self.expected, self.shards_of(path.name))

    def test_a_column_of_another_name_and_a_member_of_a_struct(self):
        self.write("named.parquet", {"body": self.texts, "text": ["other"] * len(self.texts)})
        self.assertEqual(self.expected, self.shards_of("--text-key", "body", "named.parquet"))
        self.write("nested.parquet", {"meta": [{"id": 1, "text": text} for text in self.texts]})
        self.assertEqual(self.expected, self.shards_of("--text-key", "meta.text", "nested.parquet"))

    def test_null_rows_are_skipped_with_a_warning(self):
        rows = [row for text in self.texts for row in (None, text)]
        self.write("nulls.parquet", {"text": rows})
        done = self.make_shards("nulls.parquet")
        self.assertEqual(self.expected, {path.name: path.read_bytes() for path in (self.folder / "shards").iterdir()})
        self.assertEqual(1, done.stderr.count("nulls.parquet row 1 has no text (null)"), done.stderr)

    def test_a_folder_and_several_files_are_read_in_order(self):
        half = len(self.texts) // 2
        self.write("folder/0.parquet", {"text": self.texts[:half]}, compression="zstd")
        (self.folder / "folder" / "1.jsonl").write_text(
            "".join(json.dumps({"text": text}) + "\n" for text in self.texts[half:]))
        self.assertEqual(self.expected, self.shards_of("folder"))
        self.assertEqual(self.expected, self.shards_of("folder/0.parquet", "folder/1.jsonl"))

    def test_a_run_trains_on_parquet_as_on_json_lines(self):
        settings = dict(SMALL, ITERATIONS=3)
        expected = train_losses(self.train(DATA_PATH=self.folder / "plain.jsonl", output="lines", **settings))
        self.assertEqual(expected, train_losses(self.train(DATA_PATH=self.folder / "plain.parquet", output="rows", **settings)))
        half = len(self.texts) // 2
        self.write("parts/a0.parquet", {"text": self.texts[:half]})
        self.write("parts/a1.parquet", {"text": self.texts[half:]})
        self.write("parts/b.parquet", {"text": ["another"]})
        self.assertEqual(expected, train_losses(self.train(DATA_PATH=self.folder / "parts" / "a?.parquet", output="glob",
                                                           **settings)))

    def test_columns_that_hold_no_strings_are_refused(self):
        for name, column, words in (
                ("numbers", range(3), "the column 'text' is INT64"),
                ("lists", [["a"], ["b", "c"]], "the column 'text' is nested"),
                ("structs", [{"a": "b"}], "a member of a struct is named with a dot"),
                ("decimals", pa.array([1, 2]).cast(pa.decimal128(30, 2)), "expected strings")):
            self.write(f"{name}.parquet", {"text": column})
            with self.subTest(name):
                self.refused(f"{name}.parquet", words)
        self.refused("lists.parquet", "holds lists", arguments=("--text-key", "text.list.element"))
        self.write("unnamed.parquet", {"id": [1], "content": ["a"]})
        self.refused("unnamed.parquet", "no column 'text'", "found columns: id, content")

    def test_text_that_is_not_utf8_names_its_row(self):
        self.write("latin.parquet", {"text": pa.array([b"sound", b"caf\xe9"], pa.binary())})
        self.refused("latin.parquet", "row 2 is not UTF-8 at byte 3 of its text (found 0xe9)", "--replace-invalid")
        done = self.make_shards("--replace-invalid", "--val-fraction", "0", "latin.parquet")
        self.assertEqual(0, done.returncode, done.stderr)

    def test_damaged_files_are_errors_of_the_file(self):
        whole = (self.folder / "plain.parquet").read_bytes()
        damaged = self.folder / "damaged.parquet"
        for length in (0, 4, 8, 11, 12, len(whole) // 2, len(whole) - 1):
            damaged.write_bytes(whole[:length])
            with self.subTest(length=length):
                self.refused("damaged.parquet", "damaged, or no Parquet (")
        damaged.write_text("plain text")
        self.refused("damaged.parquet")
        draw = random.Random(7)
        refused = 0
        for _ in range(40):
            bytes_ = bytearray(whole)
            # The footer and the pages' headers decide what is allocated and read.
            at = draw.randrange(len(whole) - 2000, len(whole)) if draw.random() < 0.5 else draw.randrange(len(whole))
            for i in range(at, min(at + draw.randint(1, 8), len(whole))):
                bytes_[i] = draw.randrange(256)
            damaged.write_bytes(bytes_)
            done = self.make_shards("--replace-invalid", "damaged.parquet")
            self.assertIn(done.returncode, (0, 65), f"byte {at}: {done.stderr}")
            refused += done.returncode == 65
        self.assertGreater(refused, 3)

    def peak_kib(self, name):
        """Returns the peak memory of make_shards."""
        command = [BUILD / "make_shards", "--tokenizer", TOKENIZER, "--out", self.folder / "peak", "--force", "--threads",
                   "1", name]
        done = subprocess.run([sys.executable, "-c", PEAK, *command], cwd=self.folder, capture_output=True, text=True,
                              check=True)
        return int(done.stdout.splitlines()[-1])

    def test_memory_is_bounded_by_pages_not_row_groups(self):
        draw = random.Random(1)
        blank = ["".join(draw.choices(" \n\t", k=5000)) for _ in range(50)]  # read, and skipped before the tokenizer
        texts = self.texts + [blank[i % 50] for i in range(20000)]
        path = self.write("large.parquet", {"text": texts}, row_group_size=len(texts), use_dictionary=False,
                          compression="none")
        peaks = {name: self.peak_kib(name) for name in ("plain.parquet", path.name)}
        self.assertGreater(path.stat().st_size, 100_000_000)
        self.assertLess(peaks["large.parquet"] - peaks["plain.parquet"], 10_000, f"KiB: {peaks}")

    def test_without_arrow_the_error_names_the_setup(self):
        alone = self.folder / "alone"
        alone.mkdir()
        shutil.copy(BUILD / "make_shards", alone)
        done = self.make_shards("plain.parquet", program=alone / "make_shards")
        self.assertEqual(65, done.returncode)
        self.assertIn("plain.parquet is Parquet (expected text in UTF-8 or JSON); convert it: python3 -c", done.stderr)
        self.assertIn("scripts/setup.sh --parquet", done.stderr)
        (self.folder / "mixed").mkdir()
        shutil.copy(self.folder / "plain.jsonl", self.folder / "mixed")
        shutil.copy(self.folder / "plain.parquet", self.folder / "mixed")
        done = self.make_shards("mixed", program=alone / "make_shards")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("left out: 1 .parquet", done.stdout + done.stderr)


# Runs a command; prints its peak memory in KiB.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""

if __name__ == "__main__":
    unittest.main()
