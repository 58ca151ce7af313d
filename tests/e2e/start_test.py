"""What a process sets before its second thread starts: the environment, and the number of compute threads."""

import os
import re
import subprocess
import unittest

from harness import RunTest, mpirun

NO_STEPS = dict(ITERATIONS=0, WARMUP_STEPS=0, VAL_LOSS_EVERY=0, GRAD_ACCUM_STEPS=None)
# Logs the number of threads at every change of the environment and then calls the C library. Also logs when exit()
# runs the destructors of libraries.
SHIM = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int setenv(const char* name, const char* value, int overwrite) {
  int threads = 0;
  DIR* tasks = opendir("/proc/self/task");
  for (struct dirent* task; (task = readdir(tasks)) != NULL;) threads += task->d_name[0] != '.';
  closedir(tasks);
  FILE* file = fopen(getenv("SETENV_LOG"), "a");
  fprintf(file, "%s=%s threads:%d\n", name, value, threads);
  fclose(file);
  int (*next)(const char*, const char*, int) = (int (*)(const char*, const char*, int))dlsym(RTLD_NEXT, "setenv");
  return next(name, value, overwrite);
}

__attribute__((destructor)) static void destroyed(void) {
  FILE* file = fopen(getenv("SETENV_LOG"), "a");
  fputs("destructors\n", file);
  fclose(file);
}
"""


@unittest.skipIf("ASAN_OPTIONS" in os.environ, "the sanitizer must be loaded first")
class EnvironmentTest(RunTest):
    preloaded = False

    def setUp(self):
        source, shim, self.log = (self.folder / name for name in ("shim.c", "shim.so", "setenv.log"))
        source.write_text(SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
        self.log.write_text("")
        self.shimmed = ["env", f"LD_PRELOAD={shim}", f"SETENV_LOG={self.log}"]

    def changes(self, *through, **settings):
        """Returns the shim's lines, one for each change that the run makes itself."""
        self.train(through=[*through, *self.shimmed], ITERATIONS=2, **settings)
        return self.log.read_text().splitlines()

    # LibTorch's destructors take a quarter of the time of a short command.
    def test_a_command_ends_without_the_destructors_of_libraries(self):
        done = self.run_gpt("--version", through=self.shimmed)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("LibTorch 2.", done.stdout)
        self.assertEqual(self.log.read_text(), "")

    def test_is_complete_before_the_first_thread(self):
        changes = self.changes(*mpirun(2), DETERMINISTIC=1, PROFILE=1, PROFILE_START=0, PROFILE_STEPS=1)
        for line in ("KINETO_LOG_LEVEL=5", "CUBLAS_WORKSPACE_CONFIG=:4096:8", "TORCH_CPP_LOG_LEVEL=FATAL",
                     "TORCH_FR_BUFFER_SIZE=20000", "NCCL_NVLS_ENABLE=0", "NCCL_SOCKET_IFNAME=lo"):
            self.assertEqual([change for change in changes if change.startswith(line)], [line + " threads:1"] * 2)
        self.assertEqual([change for change in changes if not change.endswith(" threads:1")], [])


class ThreadsTest(RunTest):
    preloaded = False

    def threads(self, *through, **settings):
        """Returns the log's line about threads."""
        self.train(through=through, **NO_STEPS, **settings)
        lines = [line for line in self.lines if line.startswith("threads:")]
        self.assertEqual(len(lines), 1, self.lines)
        return lines[0]

    def share(self, line):
        """Returns the threads, cores and ranks of that line."""
        match = re.fullmatch(r"threads:(\d+) of (\d+) cores, (\d+) ranks? on this machine", line)
        self.assertIsNotNone(match, line)
        return tuple(map(int, match.groups()))

    def test_are_the_ranks_share_of_the_cores(self):
        threads, cores, ranks = self.share(self.threads(OMP_NUM_THREADS=None))
        self.assertEqual((threads, ranks), (cores, 1))
        self.assertLessEqual(cores, len(os.sched_getaffinity(0)))
        for number in (2, 3):
            self.assertEqual(self.share(self.threads(*mpirun(number), OMP_NUM_THREADS=None)),
                             (max(1, cores // number), cores, number))

    def test_are_those_that_the_user_asks_for(self):
        self.assertEqual(self.threads(OMP_NUM_THREADS=1), "threads:1 (environment)")
        self.assertEqual(self.threads(*mpirun(2), OMP_NUM_THREADS=1), "threads:1 (environment)")

    def test_stay_on_the_cores_that_a_process_is_bound_to(self):
        core = str(min(os.sched_getaffinity(0)))
        self.assertEqual(self.share(self.threads("taskset", "-c", core, OMP_NUM_THREADS=None)), (1, 1, 1))


class WaitingTest(RunTest):
    preloaded = False

    def wait_policy(self, **settings):
        """Returns libgomp's settings for idle threads, as it prints them when it is loaded."""
        done = self.run_gpt("--version", OMP_DISPLAY_ENV="verbose", **settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        says = done.stderr.rpartition("OPENMP DISPLAY ENVIRONMENT BEGIN")[2]
        return (re.search(r"OMP_WAIT_POLICY = '(\w+)'", says).group(1),
                re.search(r"GOMP_SPINCOUNT = '(\w+)'", says).group(1))

    def test_idle_threads_soon_sleep(self):
        self.assertEqual(self.wait_policy()[1], "30000")

    def test_unless_the_user_says_how_they_wait(self):
        self.assertEqual(self.wait_policy(OMP_WAIT_POLICY="ACTIVE")[0], "ACTIVE")
        self.assertEqual(self.wait_policy(GOMP_SPINCOUNT=123)[1], "123")

    def test_the_second_start_is_the_same_process_with_the_same_arguments(self):
        with self.start_gpt("--seed", "it's", through=["sh", "-c", 'echo $$; exec "$@"', "sh"]) as process:
            output, errors = process.communicate(timeout=60)
        self.assertIn("SEED='it's' (--seed)", errors)
        self.assertEqual(output.strip(), str(process.pid))


if __name__ == "__main__":
    unittest.main()
