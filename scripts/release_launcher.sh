#!/bin/sh
# Starts libexec/ of a release's program of this name, with the libraries of lib/ beside it and the LibTorch of a Python
# that has torch 2.11: PYTHON, or python3. TRAIN_GPT_LIBRARIES, if set, names LibTorch's folders instead.
set -eu
self=$(readlink -f "$0")
here=${self%/*} name=${self##*/}
if [ -z "${TRAIN_GPT_LIBRARIES+set}" ]; then
  python=${PYTHON:-python3}
  # Folders of LibTorch, of the CUDA libraries that it loads, and of Arrow, for Parquet.
  TRAIN_GPT_LIBRARIES=$("$python" - <<'PYTHON'
import pathlib
import sys
from importlib.util import find_spec

torch = find_spec("torch")
if not torch or not torch.submodule_search_locations:
    sys.exit("it has no torch")
torch = pathlib.Path(torch.submodule_search_locations[0])
version = (torch / "version.py").read_text().split("__version__ = ")[1].split("'")[1]
if not version.startswith("2.11."):
    sys.exit(f"it has torch {version}")
folders = [torch / "lib", *sorted((torch.parent / "nvidia").glob("*/lib")), torch.parent / "pyarrow"]
print(":".join(str(folder) for folder in folders if folder.is_dir()))
PYTHON
  ) || {
    echo "ERROR $name: no LibTorch in $python (expected torch 2.11); install it: $python -m pip install torch==2.11.0" >&2
    exit 69
  }
fi
LD_LIBRARY_PATH=$here/lib:$TRAIN_GPT_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$here/libexec/$name" "$@"
