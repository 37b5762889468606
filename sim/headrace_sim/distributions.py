"""How long things take: distributions of microseconds, as values."""

import random
from collections.abc import Callable

import msgspec

from headrace import OptionsError

Sampler = Callable[[], int]


class Constant(msgspec.Struct, frozen=True, tag=True):
    """Always the same time.

    Attributes:
        us: the time, microseconds.
    """

    us: int

    def sampler(self, _source: random.Random) -> Sampler:
        """Return the function that draws."""
        us = self.us
        return lambda: us

    def __post_init__(self) -> None:
        """Refuse a negative time."""
        if self.us < 0:
            raise OptionsError("us", self.us, "at least 0")


class Uniform(msgspec.Struct, frozen=True, tag=True):
    """Uniform between two times.

    Attributes:
        low_us: least time, microseconds.
        high_us: longest time, inclusive, microseconds.
    """

    low_us: int
    high_us: int

    def sampler(self, source: random.Random) -> Sampler:
        """Return the function that draws."""
        draw, low, width = source.random, self.low_us, self.high_us - self.low_us + 1
        return lambda: low + int(draw() * width)

    def __post_init__(self) -> None:
        """Refuse an empty or negative range."""
        if not 0 <= self.low_us <= self.high_us:
            raise OptionsError("low_us", self.low_us, f"between 0 and high_us ({self.high_us})")


class Exponential(msgspec.Struct, frozen=True, tag=True):
    """A fixed time plus an exponentially distributed one.

    Attributes:
        least_us: the fixed time, microseconds.
        mean_us: mean of the exponential part, microseconds.
    """

    least_us: int
    mean_us: int

    def sampler(self, source: random.Random) -> Sampler:
        """Return the function that draws."""
        draw, least, rate = source.expovariate, self.least_us, 1 / max(self.mean_us, 1)
        return lambda: least + int(draw(rate))


class LogNormal(msgspec.Struct, frozen=True, tag=True):
    """Log-normal: skewed to the right, as service times are.

    Attributes:
        median_us: median, microseconds.
        sigma: standard deviation of the natural logarithm of the time.
    """

    median_us: int
    sigma: float

    def sampler(self, source: random.Random) -> Sampler:
        """Return the function that draws."""
        draw, median, sigma = source.lognormvariate, self.median_us, self.sigma
        return lambda: int(median * draw(0.0, sigma))


Distribution = Constant | Uniform | Exponential | LogNormal
