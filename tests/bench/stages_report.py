"""usage: stages_report.py FOLDER

Prints the table of scripts/score_stages.sh from FOLDER's {train,quantised,adapted}.log: bits per byte (nats per token
if bytes are not counted) of the last record's model at each stage, and the seconds of the stage.
"""
import pathlib
import re
import sys

NUMBER = r"(\d+(?:\.\d+)?|none)"


def last(pattern, text):
    found = re.findall(pattern, text, re.M)
    if not found:
        sys.exit(f"no line '{pattern}'")
    return found[-1]


def score(line, text):
    """Returns bits per byte, or else the loss, and the name of the unit."""
    loss, bpb = last(rf"^.*{line}.* val_loss: ?{NUMBER}(?: val_bpb: ?{NUMBER})?", text)
    return (float(bpb), "val_bpb") if bpb not in ("", "none") else (float(loss), "val_loss")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    train, quantised, adapted = ((pathlib.Path(sys.argv[1]) / f"{name}.log").read_text()
                                 for name in ("train", "quantised", "adapted"))
    seconds = [int(s) for s in re.findall(r"^stage_seconds:(\d+)", adapted, re.M)]
    hessians = float(last(r"Hessians in ([\d.]+)", train))
    packing = re.search(r"artifact_time.*quantize:(\d+).*compress:(\d+)", train)
    file_seconds = hessians + sum(int(ms) for ms in packing.groups()) / 1000
    quantised_ms = float(last(rf"^.*diagnostic quantized .*eval_time:{NUMBER}ms", quantised))
    train_ms = float(last(rf"^.*train_time:{NUMBER}ms", train))
    averaged_ms = float(last(rf"^.*post-ema .*eval_time:{NUMBER}ms", train))
    rows = [
        ("as trained", *score(r"^\S*step:\d+/\d+", train), f"training {train_ms / 1000:.0f} s"),
        ("averaged", *score("post-ema", train), f"scored in {averaged_ms / 1000:.1f} s"),
        ("quantised", *score("diagnostic quantized", train), f"Hessians, GPTQ and packing {file_seconds:.1f} s"),
        ("read back by eval", *score("diagnostic quantized", quantised), f"scored in {quantised_ms / 1000:.1f} s"),
    ]
    ended = "quantized_ttt_phased val_loss" in adapted
    if ended:
        rows.append(("adapted", *score("quantized_ttt_phased", adapted), f"{' + '.join(map(str, seconds))} s"))
    stopped = re.search(r"stopped with (\d+) of (\d+) batches", adapted)
    print(f"{'':20}{rows[0][2]:>10}")
    for name, value, _, note in rows:
        print(f"{name:20}{value:10.4f}  {note}")
    print(last(r"(Serialized model .* bytes)", train))
    print(f"stopped after {stopped[1]} of {stopped[2]} batches" if stopped else "not stopped between two batches")
    if not ended:
        sys.exit("adapted has no score: its log says why")


if __name__ == "__main__":
    main()
