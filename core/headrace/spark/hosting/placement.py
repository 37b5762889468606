"""Names of groups that put key intervals evenly on Spark's partitions (MillWheel 6.2: an interval is a unit of work).

Rules of this file: Spark puts a group on the partition that its hash of the name says. With plain names 16 intervals left 4 to 6
of 16 partitions idle. So a name carries a tail that is chosen until the hash gives the wanted partition: ``counter/3.17``. Names
are where state is stored, so they depend on nothing but computation, number, what it was split from, and partitions.
"""

from collections.abc import Sequence
from itertools import count
from zlib import crc32

_MASK = 0xFFFFFFFF
_SEED = 42


def placed_groups(
    computation: str, intervals: int, partitions: int, splits: Sequence[int] = ()
) -> tuple[str, ...]:
    """Return names of a computation's groups, one for each interval, that Spark spreads evenly over partitions.

    Args:
        computation: name of the computation; computations begin on different partitions.
        intervals: number of key intervals, but for those that splits have added.
        partitions: number of Spark's shuffle partitions; 0: unknown, so the names are plain.
        splits: numbers of the intervals that were split: the half that moves is on another partition than the one that stays.
    """
    plain = [f"{computation}/{number}" for number in range(intervals + len(splits))]
    if partitions < 2:
        return tuple(plain)
    first = crc32(computation.encode())
    places = [(first + number) % partitions for number in range(intervals)]
    for number, split in enumerate(splits, intervals):
        place = (first + number) % partitions
        places.append(place if place != places[split] else (place + 1) % partitions)
    return tuple(_placed(name, place, partitions) for name, place in zip(plain, places, strict=True))


def _placed(name: str, wanted: int, partitions: int) -> str:
    return next(
        tailed
        for tail in count()
        if partition_of(tailed := f"{name}.{tail}" if tail else name, partitions) == wanted
    )


def partition_of(group: str, partitions: int) -> int:
    """Return the partition on which Spark puts a group: Spark's ``pmod(hash(group), partitions)``.

    >>> partition_of("Spark", 200)
    165
    """
    hashed = _murmur3(group.encode())
    return (hashed - (1 << 32) if hashed >> 31 else hashed) % partitions


def _murmur3(data: bytes) -> int:
    """Return Spark's variant of MurmurHash3 (x86, 32 bits), which mixes each byte of the tail as if it were a whole word."""
    whole = len(data) - len(data) % 4
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, whole, 4)]
    words += [(byte - 256 if byte > 127 else byte) & _MASK for byte in data[whole:]]
    hashed = _SEED
    for word in words:
        mixed = _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
        hashed = (_rotated(hashed ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK


def partitions_for(intervals: int, most: int) -> int:
    """Return how many partitions a job needs: as few as give its intervals no more rounds than the most that can run at once.

    >>> partitions_for(16, 200), partitions_for(16, 10), partitions_for(16, 3), partitions_for(1, 8)
    (16, 8, 3, 1)
    """
    rounds = -(-intervals // most)
    return -(-intervals // rounds)
