"""What code this build has for GPUs, in words."""

from __future__ import annotations

import gpudist
from gpudist import _core


def lines() -> list[tuple[str, str]]:
    """Tell what the build is for, and how its code gets to run on each GPU of this machine.

    Returns
    -------
    list of tuple of str
        What a line is about, and the line: "GPU code", then "code for cuda:N" for each device;
        nothing of a build without CUDA, which `gpudist.cuda.why_not` says.
    """
    targets = _core.cuda()["targets"]
    if not targets:
        return []
    driver, runtime = gpudist.cuda.versions()
    found = [("GPU code", f"made by CUDA {runtime} for {_in_words(targets)}")]
    for card in gpudist.cuda.devices():
        how = how_it_runs(targets, card.compute_capability, driver, runtime)
        found.append((f"code for cuda:{card.index}", how))
    return found


def _in_words(targets: str) -> str:
    """Spell out "80;100f+PTX": compute capability 8.0 and the family 10.0, PTX for newer ones."""
    listed, _, ptx = targets.partition("+")
    numbers = [target.rstrip("af") for target in listed.split(";")]
    names = [
        f"{number[:-1]}.{number[-1]}{target[len(number) :]}"
        for number, target in zip(numbers, listed.split(";"), strict=True)
    ]
    return f"compute capability {', '.join(names)}" + (", and PTX for newer ones" if ptx else "")


def how_it_runs(targets: str, capability: str, driver: str, runtime: str) -> str:
    """Tell how code for `targets` gets to run on a device, or what has to be done.

    Parameters
    ----------
    targets : str
        What the build is for, for example "80;90+PTX".
    capability, driver, runtime : str
        The device's compute capability, the CUDA version that the driver supports, and the one that
        built the code.

    Returns
    -------
    str
        One sentence without a full stop.
    """
    digits = capability.replace(".", "")
    generation = _core.generation(int(digits))
    code = _core.code_for(targets, int(digits))
    again = f"build gpudist again with GPUDIST_CUDA_ARCHS={digits}"
    if generation is None:
        return f"compute capability {capability} is older than all that gpudist supports"
    if code == "machine code":
        return f"machine code, generation {generation['name']}"
    if code == "none":
        return f"none: {again}"
    if _number(driver) < _number(runtime):
        return (
            f"none: the driver supports CUDA {driver} and compiles no PTX of CUDA {runtime}; "
            f"{again}, or update the driver"
        )
    return (
        "PTX, which the driver compiles when a kernel is first called and then keeps; "
        f"{again} to be spared that"
    )


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))
