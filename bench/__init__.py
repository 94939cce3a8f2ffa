"""Measure gpudist beside the machine's ceilings and beside other libraries.

``python -m bench SUITE`` runs a suite, from a checkout of the repository; an installed package does
not have it. A result is one JSON line that names the revision, the device, the libraries, the case,
the kernel, the time with its spread, the fraction of the ceiling that binds (measured in the same
run), every rival's time, and the largest relative error against float64 on a sample of rows. The
suite ``accuracy`` times nothing: it holds every metric, and the rivals that know it, against exact
distances on data that is hard to get right. The suite ``sweep`` holds what ``kernel="auto"`` takes
against every kernel that can do it.
"""
