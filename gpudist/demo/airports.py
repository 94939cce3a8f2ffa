"""The world's airports: reading them, finding one by its code, and choosing some."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpudist.demo.errors import DemoError, missing
from gpudist.demo.sphere import Array


@dataclass(frozen=True, slots=True)
class Airports:
    """Airports and where they are.

    Parameters
    ----------
    codes : tuple of str
        The code that each goes by: IATA's, or ICAO's where all airports are taken.
    other_codes : tuple of str
        The other of the two codes, empty where there is none.
    names, cities, countries : tuple of str
        The airport's name, its city, and its country's ISO code.
    points : ndarray of float64, shape (n, 2)
        Latitude and longitude in radians.
    """

    codes: tuple[str, ...]
    other_codes: tuple[str, ...]
    names: tuple[str, ...]
    cities: tuple[str, ...]
    countries: tuple[str, ...]
    points: Array

    def __len__(self) -> int:
        """Give the number of airports."""
        return len(self.codes)

    def label(self, i: int) -> str:
        """Name one airport.

        Parameters
        ----------
        i : int
            Its number.

        Returns
        -------
        str
            Like ``ANC Anchorage, US``.
        """
        return f"{self.codes[i]} {self.cities[i] or self.names[i]}, {self.countries[i]}"

    def find(self, code: str) -> int:
        """Find an airport by its IATA or ICAO code.

        Parameters
        ----------
        code : str
            In either case of letters.

        Returns
        -------
        int
            Its number.

        Raises
        ------
        DemoError
            If there is none; the message offers near matches.
        """
        wanted = code.strip().upper()
        for codes in (self.codes, self.other_codes):
            if wanted and wanted in codes:
                return codes.index(wanted)
        near = [i for i, city in enumerate(self.cities) if wanted and city.upper() == wanted]
        if not near:
            close = difflib.get_close_matches(wanted, self.codes, n=5, cutoff=0.6)
            near = [self.codes.index(match) for match in close]
        offer = "; ".join(self.label(i) for i in near[:5])
        raise DemoError(
            f"no airport has the code {code!r}" + (f"; did you mean {offer}?" if offer else "")
        )

    def take(self, rows: npt.NDArray[np.intp]) -> Airports:
        """Choose some of the airports.

        Parameters
        ----------
        rows : ndarray of intp
            Their numbers.

        Returns
        -------
        Airports
            Those, in that order.
        """
        codes, other_codes, names, cities, countries = (
            tuple(column[i] for i in rows)
            for column in (self.codes, self.other_codes, self.names, self.cities, self.countries)
        )
        return Airports(codes, other_codes, names, cities, countries, self.points[rows])


def load_airports(*, every: bool = False) -> Airports:
    """Read the airports that the package ``airportsdata`` carries.

    Parameters
    ----------
    every : bool, default False
        Whether to take all of them, by ICAO code; else those with an IATA code.

    Returns
    -------
    Airports
        In the order of their codes.

    Raises
    ------
    DemoError
        If ``airportsdata`` is not installed.
    """
    try:
        import airportsdata
    except ImportError as error:
        raise missing(error) from None
    key, other = ("icao", "iata") if every else ("iata", "icao")
    found = airportsdata.load(key.upper())
    rows = [found[code] for code in sorted(found)]
    degrees = np.array([(row["lat"], row["lon"]) for row in rows], dtype=np.float64)
    return Airports(
        codes=tuple(row[key] for row in rows),
        other_codes=tuple(row[other] for row in rows),
        names=tuple(row["name"] for row in rows),
        cities=tuple(row["city"] for row in rows),
        countries=tuple(row["country"] for row in rows),
        points=np.radians(degrees),
    )


def spread(n: int, count: int, keep: Sequence[int] = ()) -> npt.NDArray[np.intp]:
    """Choose `count` of `n` numbers, evenly, and those in `keep`.

    Airports are sorted by code, and neighbouring codes lie far apart, so an even choice is spread
    over the world.

    Parameters
    ----------
    n, count : int
        How many there are, and how many to choose; at least ``len(keep)``.
    keep : sequence of int, optional
        Numbers that must be among them.

    Returns
    -------
    ndarray of intp
        Ascending; the same for the same arguments.
    """
    count = min(n, max(count, len(set(keep))))
    others = np.setdiff1d(np.arange(n), np.asarray(keep, dtype=np.intp))
    places = np.linspace(0, max(len(others) - 1, 0), count - len(set(keep))).astype(np.intp)
    return np.union1d(others[places], np.asarray(keep, dtype=np.intp)).astype(np.intp)
