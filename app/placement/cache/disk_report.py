"""What reading experts from the disk came to for one answer: measured, and only where some lie on the disk alone."""

import msgspec

from app.placement.cache.facts import CacheTotals, MemoryFacts
from app.units import format_bytes, format_share


class DiskReport(msgspec.Struct, frozen=True, kw_only=True):
    """The experts of a mapped file during one answer.

    Attributes:
        budget_bytes: At most so much of them is kept in main memory.
        resident_bytes: In memory at the end. total_bytes: of all of them. resident_share: the one by the other, 0 to 1.
        tokens: Tokens decoded, over which the figures below are formed.
        cold_reads_per_token: Ranges of the file that were asked for. cold_bytes_per_token: their bytes.
        read_bytes_per_second: The same by the time that decoding took.
        stall_seconds_per_token: Time waited for them with nothing else to compute.
    """

    budget_bytes: int
    resident_bytes: int
    total_bytes: int
    resident_share: float
    tokens: int
    cold_reads_per_token: float
    cold_bytes_per_token: float
    read_bytes_per_second: float
    stall_seconds_per_token: float


def disk_report(
    memory: MemoryFacts | None, before: CacheTotals, after: CacheTotals, tokens_per_second: float
) -> DiskReport | None:
    """The report of an answer; None where all experts are in memory, the system decides, or nothing was decoded.

    Args:
        memory: What main memory holds at the answer's end.
        before: Sums over decoding at its beginning.
        after: The same at its end.
        tokens_per_second: It was decoded at.
    """
    tokens = after.tokens - before.tokens
    if memory is None or tokens <= 0:
        return None
    cold_bytes = after.cold_bytes - before.cold_bytes
    if not cold_bytes and memory.resident_bytes >= memory.total_bytes:
        return None
    return DiskReport(
        budget_bytes=memory.budget_bytes,
        resident_bytes=memory.resident_bytes,
        total_bytes=memory.total_bytes,
        resident_share=min(memory.resident_bytes / memory.total_bytes, 1.0),
        tokens=tokens,
        cold_reads_per_token=(after.cold_reads - before.cold_reads) / tokens,
        cold_bytes_per_token=cold_bytes / tokens,
        read_bytes_per_second=cold_bytes / tokens * tokens_per_second,
        stall_seconds_per_token=(after.stall_seconds - before.stall_seconds) / tokens,
    )


def disk_words(report: DiskReport) -> str:
    """The report in one line.

    Example: "experts in memory: 53 % of 190.0 MiB; 54.0 reads and 38.1 MiB a token, 80 MB/s, waiting 56.1 ms a token".
    """
    return (
        f"experts in memory: {format_share(report.resident_share)} of {format_bytes(report.total_bytes)}; "
        f"{report.cold_reads_per_token:.1f} reads and {format_bytes(round(report.cold_bytes_per_token))} a token, "
        f"{report.read_bytes_per_second / 1e6:.0f} MB/s, waiting {1000 * report.stall_seconds_per_token:.1f} ms a token"
    )
