"""Numba's threads start without leaving anything behind, on every Python."""

import subprocess
import sys

STARTED = """
import multiprocessing
from multiprocessing import resource_tracker
multiprocessing.set_start_method("forkserver")  # the default of Python 3.14
from numba.np.ufunc import parallel
import gpu.base.host
parallel._launch_threads()
print(resource_tracker._resource_tracker._pid)
"""


def test_threads_start_without_a_process_that_keeps_names_of_locks():
    """It would say on stderr that a killed process left a name, in place of why the process ended."""
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
