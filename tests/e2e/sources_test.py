"""Data that changes, disappears or is invalid during a run, and data that is not shards."""

import gzip
import json
import lzma
import os
import shutil
import subprocess
import unittest

from harness import BUILD, TEXT, TOKENIZER, TWO_LAYERS, RunTest, end, mpirun, train_losses

BAD_DATA, MISSING, CONFIG = 65, 66, 78


class ChangedWhileTrainingTest(RunTest):
    small = TWO_LAYERS

    def setUp(self):
        self.copy = self.folder / "copy"
        shutil.copytree(self.shards, self.copy)
        self.shard(1).unlink()  # the last shard is used sooner

    def tearDown(self):
        shutil.rmtree(self.copy)

    def fails_after(self, change, exit_code, *words):
        """Trains on a copy of the shards, which `change` damages after the second step."""
        # With large steps the last shard is soon reached.
        process = self.start_gpt(DATA_PATH=self.copy, ITERATIONS=100000, VAL_LOSS_EVERY=0, TRAIN_BATCH_TOKENS=4096)
        self.addCleanup(end, process)
        for line in process.stdout:
            if line.startswith("step:2/"):
                break
        change()
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, exit_code, errors)
        line = next(line for line in errors.splitlines() if line.startswith("ERROR "))
        self.assertRegex(line, rf"^ERROR exit={exit_code} rank=0 step=\d+: ")
        for word in words:
            self.assertIn(str(word), line)

    def shard(self, index):
        return sorted(self.copy.glob("fineweb_train_*"))[index]

    def test_a_shard_that_is_cut_short(self):
        self.fails_after(lambda: os.truncate(self.shard(0), 2048), BAD_DATA, "Shard size mismatch for ",
                         self.shard(0), "found 2048", "while in use")

    def test_a_shard_that_is_written_over(self):
        def write_over():
            self.shard(0).write_bytes(self.shard(0).read_bytes())

        self.fails_after(write_over, BAD_DATA, self.shard(0), "replaced or written to while in use")

    def test_a_shard_that_is_replaced_before_its_turn(self):
        def replace():
            fresh = self.copy / "fresh"
            shutil.copy(self.shard(-1), fresh)
            fresh.rename(self.shard(-1))

        self.fails_after(replace, BAD_DATA, self.shard(-1), "replaced or written to while in use")

    def test_a_shard_that_is_deleted(self):
        last = self.shard(-1)
        self.fails_after(last.unlink, MISSING, "cannot open", last)

    def test_a_folder_without_permission(self):
        denied = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-P", str(self.copy), "-e", "trace=openat",
                  "-e", "inject=openat:error=EACCES"]
        self.fails(MISSING, "fineweb_train_*.bin", "Permission denied", DATA_PATH=self.copy, through=denied)


class TextTest(RunTest):
    """Training on text gives the same tokens, and so the same losses, as the shards that make_shards writes from it."""

    small = TWO_LAYERS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.texts = cls.folder / "texts"
        cls.texts.mkdir()
        for number, path in enumerate(sorted(p for p in TEXT.iterdir() if p.is_file() and not p.is_symlink())):
            shutil.copy(path, cls.texts / f"{number:02}.txt")
        documents = [path.read_text() for path in sorted(cls.texts.iterdir())]
        cls.json_lines = cls.folder / "documents.jsonl"
        cls.json_lines.write_text("".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(documents * 3)))

    def losses(self, output, path, **settings):
        events = self.train(output=output, DATA_PATH=path, VAL_TOKENS=1024, VAL_BATCH_SIZE=1024, **settings)
        scores = [event["val_loss"] for event in events if event["event"] == "val"]
        return train_losses(events), scores

    def shards_of(self, path, *files):
        made = self.folder / (path.name + ".shards")
        subprocess.run([BUILD / "make_shards", "--tokenizer", TOKENIZER, "--out", made, "--name-prefix", "own", "--force",
                        "--document-separator", "blank-line", *(files or [path])], check=True, stdout=subprocess.DEVNULL)
        return made

    def expect_those_of_shards(self, path, *files):
        made = self.shards_of(path, *files)
        self.assertEqual(self.losses("text", path), self.losses("shards", made, SHARD_PREFIX="own"))

    def test_two_ranks_have_them_and_one_of_them_reads_the_text(self):
        made = self.shards_of(self.json_lines)
        expected = self.losses("shards", made, SHARD_PREFIX="own", ranks=2)
        traced = 'exec strace -f --seccomp-bpf -qq -y -e trace=read -o "$TMPDIR/reads$OMPI_COMM_WORLD_RANK" "$0" "$@"'
        temporary = self.folder / "tmp"
        temporary.mkdir()
        self.assertEqual(self.losses("text", self.json_lines, TMPDIR=temporary, through=mpirun(2) + ["bash", "-c", traced]),
                         expected)
        reads = [(temporary / f"reads{rank}").read_text().count(f"<{self.json_lines}>") for rank in (0, 1)]
        self.assertEqual([count > 0 for count in sorted(reads)], [False, True], reads)
        # Without in-memory files in the kernel, the temporary folder's files are removed.
        refused = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=memfd_create",
                   "-e", "inject=memfd_create:error=ENOSYS"]
        self.assertEqual(self.losses("refused", self.json_lines, TMPDIR=temporary, through=mpirun(2) + refused), expected)
        self.assertEqual({path.name for path in temporary.iterdir() if path.is_file()}, {"reads0", "reads1"})

    def test_a_folder_of_text_files(self):
        self.expect_those_of_shards(self.texts, *sorted(self.texts.iterdir()))

    def test_a_file_of_json_lines(self):
        self.expect_those_of_shards(self.json_lines)

    def test_packed_files_and_arrays_of_another_key(self):
        lines = self.json_lines
        plain = self.losses("lines", lines)
        packed = self.folder / "documents.jsonl.gz"
        packed.write_bytes(gzip.compress(lines.read_bytes()))
        self.assertEqual(self.losses("packed", packed), plain)
        array = self.folder / "documents.json.xz"
        objects = [{"body": json.loads(line)["text"], "n": float("nan")} for line in lines.read_text().splitlines()]
        array.write_bytes(lzma.compress(json.dumps(objects, indent=1).encode()))
        self.assertEqual(self.losses("array", array, TEXT_KEY="body"), plain)
        self.fails(BAD_DATA, array, "line 2 ", '"body", "n"', "TEXT_KEY", DATA_PATH=array)
        os.truncate(packed, packed.stat().st_size - 9)
        self.fails(BAD_DATA, packed, f"at byte {packed.stat().st_size} of the file", "cut short", DATA_PATH=packed,
                   VAL_TOKENS=0)

    def test_data_of_another_format_is_refused_with_the_command_that_converts_it(self):
        path = self.folder / "data.pq"
        path.write_bytes(b"PAR1 and more")
        self.fails(BAD_DATA, path, "is Parquet", "pyarrow.parquet", "columns=['body']", DATA_PATH=path, TEXT_KEY="body")

    def test_waiting_for_all_text_is_shown_on_a_terminal(self):
        path = self.folder / "long.jsonl"
        path.write_text(self.json_lines.read_text() * 4)
        shown = self.run_in_terminal(DATA_PATH=path, VAL_TOKENS=0, VAL_BATCH_SIZE=65536, ITERATIONS=1,
                                     WARMUP_STEPS=0, VAL_LOSS_EVERY=0)
        self.assertRegex(shown, r"tokenizing \S+long\.jsonl: \d+\.\d MB \(\d+%\) \d+\.\d\d M tokens \d+\.\d MB/s")
        self.assertNotIn("tokenizing", (self.out / "log.txt").read_text())

    def test_invalid_utf8_is_named_with_its_byte(self):
        path = self.folder / "latin1.txt"
        path.write_bytes(b"Stra\xdfe\n\n" * 2000)
        self.fails(BAD_DATA, path, "not UTF-8 at byte 4", "0xdf", DATA_PATH=path)

    def test_a_line_of_more_than_a_gigabyte(self):
        path = self.folder / "endless.jsonl"
        with open(path, "wb") as file:
            file.truncate((1 << 30) + (1 << 22))  # a sparse file
        self.fails(BAD_DATA, path, "too long", DATA_PATH=path)
        path.unlink()

    def test_a_line_that_is_no_json_and_text_without_a_tokenizer(self):
        path = self.folder / "broken.jsonl"
        path.write_text('{"text": "one"}\n{"title": "two"}\n')
        self.fails(BAD_DATA, path, "line 2", "text", DATA_PATH=path)
        self.fails(CONFIG, "TOKENIZER_PATH", DATA_PATH=path, TOKENIZER_PATH="")


class SyntheticTest(RunTest):
    def test_synthetic_tokens_train_in_any_order(self):
        for kind, order in (("zipf", "stream"), ("zipf", "strided"), ("zipf", "documents"), ("documents", "documents")):
            losses = train_losses(self.train(output=order, DATA_PATH=f"synthetic:{kind}", LOADER_ORDER=order,
                                             ITERATIONS=12, WARMDOWN_ITERS=0, VAL_LOSS_EVERY=0))
            self.assertLess(losses[-1], losses[0] - 0.2, (kind, order))

    def test_an_unknown_kind_is_named(self):
        self.fails(64, "synthetic:gauss", "synthetic:zipf", "synthetic:documents", DATA_PATH="synthetic:gauss")


if __name__ == "__main__":
    unittest.main()
