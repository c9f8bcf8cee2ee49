"""Figures of a study and of trained models."""

import contextlib
import os

with contextlib.chdir(os.sep):  # Matplotlib before 3.11 reads a matplotlibrc of the current folder, which may run code
    import matplotlib as matplotlib
