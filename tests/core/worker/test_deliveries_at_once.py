"""Deliveries that a host hands over at once are as many deliveries, one after the other (MillWheel 6.1.1)."""

from headrace.wire.effects import Deliveries
from tests.core.driver import Rig, click, counter


def test_many_at_once_have_the_same_result_as_one_by_one() -> None:
    clicks = [click("r1"), click("r2"), click("r1"), click("r3")]
    singly, at_once = Rig(counter()), Rig(counter())
    effects = [effect for deliver in clicks for effect in singly.feed(deliver)]
    assert at_once.feed(Deliveries([deliver.production for deliver in clicks], clicks[0].sender)) == effects
    while singly.open:
        assert at_once.answer() == singly.answer()
    row = singly.shop.row("dog")
    assert row is not None
    assert row.state == b'{"n":3}'
    assert at_once.shop.row("dog") == row
