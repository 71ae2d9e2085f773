"""What "more memory is never slower" means of two plans."""

from app.placement.plan import DISK_LANE

# Where two plans are the same speed but for rounding, another order of adding up may put either first; and where a
# pool is best smaller than there is room for, its size is searched, not computed.
NEARLY = 1 - 1e-4


def seconds_of_an_answer(plan):
    """A prompt of 512 tokens and an answer of 256."""
    return 512 / plan.speed.prompt.likely + 256 / plan.speed.decode.likely


def is_no_slower(after, before):
    """It decodes no slower, or it reads no more experts from disk and so answers sooner, for prompts need them all."""
    if after.speed.decode.likely >= before.speed.decode.likely * NEARLY:
        return True
    left_disk = DISK_LANE in before.expert_lanes.values() and DISK_LANE not in after.expert_lanes.values()
    return left_disk and seconds_of_an_answer(after) <= seconds_of_an_answer(before)
