"""torch_python.py ANSWERS: runs program.py in each folder that standard input names, as a fork of this process, which
has torch loaded; writes a byte for each to the descriptor ANSWERS, 0 where the program ended well."""
import os
import runpy
import sys

import torch  # noqa: F401


def end():
    """Without Python's own end, which takes half a second where torch is loaded."""
    sys.stdout.flush()
    os._exit(0)


for folder in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.chdir(folder.removesuffix("\n"))
        runpy.run_path("program.py", run_name="__main__")
        end()
    _, status = os.waitpid(pid, 0)
    os.write(int(sys.argv[1]), bytes([status != 0]))
end()
