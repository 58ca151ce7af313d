"""Power and clock of a GPU during a run, as scripts/bench.sh samples them."""
import datetime
import statistics


class PowerLog:
    """Reads NAME.power: the program's launch in seconds since the epoch, then nvidia-smi's lines of local time, W and
    MHz."""

    def __init__(self, path):
        launch, *lines = path.read_text().splitlines()
        self.samples = []
        for line in lines:
            try:
                time, watts, mhz = line.split(",")
                moment = datetime.datetime.strptime(time.strip(), "%Y/%m/%d %H:%M:%S.%f").timestamp()
                self.samples.append((moment - float(launch), float(watts), float(mhz)))
            except ValueError:  # the last line may be incomplete, and a GPU may not report its power
                continue

    def between(self, begin_s, end_s):
        """Returns the means of watts and MHz between two times in seconds from the launch; None without samples."""
        inside = [(watts, mhz) for moment, watts, mhz in self.samples if begin_s <= moment <= end_s]
        return tuple(map(statistics.mean, zip(*inside))) if inside else None
