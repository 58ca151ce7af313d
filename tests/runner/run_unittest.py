"""Runs a file of Python's unittest as ctest does: run_unittest.py FILE [ARGUMENT of unittest ...]

Exit status: 0; 1 where a test failed, or there was none; 77, which ctest calls skipped, where tests were skipped and
nothing ran. Each skipped test is a line "SKIPPED NAME: REASON", which skips.py reads.
"""

import pathlib
import sys
import unittest

NOTHING_RAN = 77


class Result(unittest.TextTestResult):
    ran = False  # whether a test, or a part of one, got to its end

    def addSuccess(self, test):
        super().addSuccess(test)
        self.ran = True

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.ran = True

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        self.ran = self.ran or err is None


class Runner(unittest.TextTestRunner):
    resultclass = Result


def exit_status(result):
    if not result.wasSuccessful():
        return 1
    if result.ran:
        return 0
    return NOTHING_RAN if result.skipped else 1


def main(file, *arguments):
    path = pathlib.Path(file).resolve()
    sys.path.insert(0, str(path.parent))
    result = unittest.main(path.stem, argv=[path.name, *arguments], testRunner=Runner, exit=False).result
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id()}: {' '.join(str(reason).split())}")
    return exit_status(result)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
