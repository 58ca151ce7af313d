"""Starts train_gpt as a fork of a process that has its libraries loaded (tests/runner/preloaded.cpp)."""

import array
import atexit
import ctypes
import functools
import inspect
import itertools
import os
import socket
import struct
import subprocess
import time

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
    """Popen([PRELOADED, ARGUMENT ...], env=..., cwd=...) starts train_gpt with these arguments. With `ranks`, as many as
    mpirun would, and with its variables: the pid is rank 0's, a signal is for all of them, and the return code is the
    first of one that failed."""

    jobs = itertools.count()

    def __init__(self, *given, ranks=1, **named):
        self.ranks, self.other_ranks = ranks, []
        super().__init__(*given, **named)

    def _execute_child(self, *given):
        call = inspect.signature(super()._execute_child).bind(*given).arguments
        program, *words = map(os.fsencode, call["args"])
        streams = [call[name] if call[name] >= 0 else standard
                   for standard, name in enumerate(("p2cread", "c2pwrite", "errwrite"))]
        connection, job = server(os.fsdecode(program)), f"{os.getpid()}-{next(self.jobs)}"
        pids = []
        try:
            for rank in range(self.ranks):
                env = dict(call["env"])
                if self.ranks > 1:
                    env.update(OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE=self.ranks, OMPI_COMM_WORLD_LOCAL_RANK=rank,
                               OMPI_COMM_WORLD_LOCAL_SIZE=self.ranks, PMIX_NAMESPACE=job)
                strings = [str(len(words) + 1).encode(), os.fsencode(call["cwd"]), b"train_gpt", *words,
                           *(os.fsencode(f"{name}={value}") for name, value in env.items())]
                text = b"".join(string + b"\0" for string in strings)
                connection.sendmsg([struct.pack("<Q", len(text))],
                                   [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))])
                connection.sendall(text)
                pids += struct.unpack("<i", connection.recv(4, socket.MSG_WAITALL))
            self.pid, *self.other_ranks = pids
            self._child_created = True
        finally:
            self._close_pipe_fds(*(call[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread",
                                                           "errwrite")))

    def send_signal(self, number):
        for pid in self.other_ranks:
            os.kill(pid, number)  # those that have ended are not waited for yet
        super().send_signal(number)

    def poll(self):
        super().poll()
        self._wait_for_others(os.WNOHANG)
        return None if self.other_ranks else self.returncode

    def wait(self, timeout=None):
        until = None if timeout is None else time.monotonic() + timeout
        super().wait(timeout)
        while self._wait_for_others(0 if until is None else os.WNOHANG):
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(0.01)
        return self.returncode

    def _wait_for_others(self, options):
        """Takes the status of other ranks that have ended once rank 0 has; returns those that have not."""
        for other in list(self.other_ranks) if self.returncode is not None else ():
            pid, status = os.waitpid(other, options)
            if pid == other:
                self.other_ranks.remove(other)
                self.returncode = self.returncode or os.waitstatus_to_exitcode(status)
        return self.other_ranks
