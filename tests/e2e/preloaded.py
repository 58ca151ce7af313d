"""Starts train_gpt as a fork of a process that has its libraries loaded (tests/runner/preloaded.cpp)."""

import array
import atexit
import ctypes
import functools
import inspect
import os
import socket
import struct
import subprocess

PR_SET_CHILD_SUBREAPER = 36
# Variables that libraries read when they are loaded; a process with other values cannot be forked from the server.
LOADED_WITH = {"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "30000"}


@functools.cache
def server(program):
    """Returns the socket to the process that loads the libraries once for this one."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([program, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                               env=dict(os.environ, **LOADED_WITH))
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def can_start(env):
    """Returns whether the environment agrees with the server's in everything that libraries read when they are
    loaded."""
    return all(env.get(name, value) == value for name, value in LOADED_WITH.items()) and "OMP_NUM_THREADS" in env and (
        not any(name.startswith(("LD_", "MALLOC_", "OMP_WAIT")) or name.endswith("SAN_OPTIONS") for name in env))


class Preloaded(subprocess.Popen):
    """Popen([PRELOADED, ARGUMENT ...], env=..., cwd=...) starts train_gpt with these arguments."""

    def _execute_child(self, *given):
        call = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments
        program, *words = map(os.fsencode, call["args"])
        strings = [str(len(words) + 1).encode(), os.fsencode(call["cwd"]), b"train_gpt", *words,
                   *(os.fsencode(f"{name}={value}") for name, value in call["env"].items())]
        text = b"".join(string + b"\0" for string in strings)
        streams = [call[name] if call[name] >= 0 else standard
                   for standard, name in enumerate(("p2cread", "c2pwrite", "errwrite"))]
        connection = server(os.fsdecode(program))
        try:
            connection.sendmsg([struct.pack("<Q", len(text))],
                               [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))])
            connection.sendall(text)
            self.pid, = struct.unpack("<i", connection.recv(4, socket.MSG_WAITALL))
            self._child_created = True
        finally:
            self._close_pipe_fds(*(call[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread",
                                                           "errwrite")))
