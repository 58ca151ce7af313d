"""Times make_shards with each kind of tokenizer beside the Python package for it: scripts/bench.sh tokenizers."""
import argparse
import base64
import importlib.util
import json
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from bench_text import write_lines
from machine import BUILD, ROOT

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = CL100K.replace("{1,3}", "")
WIDE_STEP = 8  # between the ids of the same pieces in a vocabulary above 65,536
# name: package, pattern, normalizer NFC, distance of ids
KINDS = {
    "SentencePiece BPE": ("sentencepiece", "", False, 1),
    "tokenizer.json, GPT-2's": ("tokenizers", "", False, 1),
    "tokenizer.json, Llama 3's": ("tokenizers", CL100K, False, 1),
    "tokenizer.json, Qwen's, NFC": ("tokenizers", QWEN2, True, 1),
    "tokenizer.json, 32-bit ids": ("tokenizers", CL100K, False, WIDE_STEP),
    ".tiktoken, Llama 3's": ("tiktoken", CL100K, False, 1),
}


def documents(lines):
    with open(lines) as file:
        return [json.loads(line)["text"] for line in file]


def train(texts, pattern, nfc, pieces):
    """Returns a byte-level BPE of Python's tokenizers."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not pattern)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = byte_level
    if pattern:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level])
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=pieces, special_tokens=["<|endoftext|>"], initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False))
    return tokenizer


def write_table(model, path):
    """Writes the pieces of a tokenizer.json's model as a table of ranks."""
    usual = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in usual]
    bytes_of = {chr(byte): byte for byte in usual} | {chr(256 + i): byte for i, byte in enumerate(others)}
    ranked = sorted((number, bytes(map(bytes_of.get, piece))) for piece, number in model["vocab"].items()
                    if piece != "<|endoftext|>")
    path.write_bytes(b"".join(base64.b64encode(piece) + b" %d\n" % rank for rank, (_, piece) in enumerate(ranked)))


def make_tokenizers(lines, folder, pieces):
    """Returns the tokenizer's file of each kind."""
    paths, trained = {}, {}
    texts = documents(lines)
    for name, (package, pattern, nfc, step) in KINDS.items():
        path = folder / f"{len(paths)}.json"
        if package == "sentencepiece":
            paths[name] = ROOT / "tests" / "fixtures" / "data_exact.model"
            continue
        if (pattern, nfc) not in trained:
            trained[pattern, nfc] = json.loads(train(texts, pattern, nfc, pieces).to_str())
        file = json.loads(json.dumps(trained[pattern, nfc]))
        if package == "tiktoken":
            path = path.with_suffix(".tiktoken")
            write_table(file["model"], path)
        else:
            file["model"]["vocab"] = {piece: number * step for piece, number in file["model"]["vocab"].items()}
            for token in file["added_tokens"]:
                token["id"] *= step
            path.write_text(json.dumps(file))
        paths[name] = path
    return paths


def encoder(package, path, pattern):
    """Returns a function that encodes texts on all cores, without special tokens."""
    cores = len(os.sched_getaffinity(0))
    if package == "sentencepiece":
        import sentencepiece
        processor = sentencepiece.SentencePieceProcessor(model_file=path)
        return lambda texts: processor.encode(texts, num_threads=cores)
    if package == "tokenizers":
        import tokenizers
        tokenizer = tokenizers.Tokenizer.from_file(path)
        return lambda texts: [encoded.ids for encoded in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    import tiktoken
    ranks = {base64.b64decode(piece): int(rank) for piece, rank in map(str.split, open(path))}
    encoding = tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda texts: encoding.encode_ordinary_batch(texts, num_threads=cores)


def peer(package, path, pattern, lines):
    """Prints the seconds in which the package encodes documents that are in memory, and the number of tokens."""
    texts, encode = documents(lines), encoder(package, path, pattern)
    encode(texts[:10])
    began = time.monotonic()
    tokens = 0
    for begin in range(0, len(texts), 1000):  # bounds memory; larger batches are no faster
        tokens += sum(map(len, encode(texts[begin:begin + 1000])))
    print(json.dumps({"seconds": time.monotonic() - began, "tokens": tokens}))


def ours(path, pattern, lines, out):
    """Returns the seconds of make_shards, and the number of tokens without the one before each document."""
    shutil.rmtree(out, ignore_errors=True)
    words = ["--pattern", pattern] if str(path).endswith(".tiktoken") else []
    began = time.monotonic()
    subprocess.run([BUILD / "make_shards", "--tokenizer", path, "--document-start", "none", "--val-fraction", "0",
                    "--out", out, *words, lines], check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    tokens = 0
    for shard in out.glob("*.bin"):
        with open(shard, "rb") as file:
            tokens += struct.unpack("<3i", file.read(12))[2]
    return {"seconds": seconds, "tokens": tokens}


def main(arguments, _):
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh tokenizers", allow_abbrev=False,
        description="Tokens per second of make_shards with each kind of tokenizer, whole program from JSON lines to shards,"
        " beside the Python package for it, which encodes the same documents in memory; in turn, on the same cores. Both"
        " must find as many tokens. Requires tokenizers and sentencepiece in PYTHON; tiktoken's row is left out without it."
        " The exit status does not depend on the figures.")
    parser.add_argument("--megabytes", type=int, default=50, help="(50)")
    parser.add_argument("--pieces", type=int, default=16384, help="of the vocabularies that are trained (16384)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-tokenizers-") as work:
        compare(args, pathlib.Path(work))
    return 0


def compare(args, folder):
    lines = folder / "text.jsonl"
    write_lines(lines, args.megabytes)
    paths = make_tokenizers(lines, folder, args.pieces)
    megabytes = sum(len(text.encode()) for text in documents(lines)) / 1e6
    print(f"{'tokenizer':29} {'M tokens/s':>10} {'MB/s':>7} {'package':>14} {'M tokens/s':>10} {'times':>6}")
    for name, path in paths.items():
        package, pattern, *_ = KINDS[name]
        if not importlib.util.find_spec(package):
            print(f"{name:29} (no {package})")
            continue
        command = [sys.executable, __file__, package, path, pattern, lines]
        found = {"ours": [], "theirs": []}
        for number in range(args.rounds):
            for side in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
                if side == "ours":
                    found[side].append(ours(path, pattern, lines, folder / "shards"))
                else:
                    done = subprocess.run(command, check=True, capture_output=True, text=True)
                    found[side].append(json.loads(done.stdout))
        counts = {figure["tokens"] for figures in found.values() for figure in figures}
        if len(counts) > 1:
            sys.exit(f"ERROR bench: {name}: the programs found {sorted(counts)} tokens")
        seconds = {side: statistics.median(figure["seconds"] for figure in figures) for side, figures in found.items()}
        speed = {side: counts.copy().pop() / value / 1e6 for side, value in seconds.items()}
        print(f"{name:29} {speed['ours']:10.2f} {megabytes / seconds['ours']:7.1f} {package:>14} "
              f"{speed['theirs']:10.2f} {speed['ours'] / speed['theirs']:6.2f}", flush=True)


if __name__ == "__main__":
    peer(*sys.argv[1:])
