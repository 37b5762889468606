"""Promises of records with an ``id``, most of them about ids above 10 only. Here, since pytest rewrites assertions in tests."""

from typing import Any

from headrace_properties.promises import Broken, Moment, Unexercised


def amount_of(moment: Moment) -> int:
    return int(moment.changed.value["id"])


def plain(moment: Moment) -> None:
    if amount_of(moment) > 10:
        assert moment.changed.value["ok"]


def early(moment: Moment) -> bool:
    if amount_of(moment) <= 10:
        return True
    return bool(moment.changed.value["ok"])


def filtered(moment: Moment) -> None:
    assert all(view.value["ok"] for view in moment.outputs("told") if view.value["id"] > 10)


def none_of_them(moment: Moment) -> bool:
    return not [view for view in moment.outputs("told") if view.value["id"] > 10 and not view.value["ok"]]


def none_in_a_variable(moment: Moment) -> None:
    wrong = [view.key for view in moment.outputs("told") if view.value["id"] > 10 and not view.value["ok"]]
    assert not wrong


def none_by_any(moment: Moment) -> bool:
    return not any(not view.value["ok"] for view in moment.outputs("told") if view.value["id"] > 10)


def implied(moment: Moment) -> bool:
    return amount_of(moment) <= 10 or bool(moment.changed.value["ok"])


def guarded(moment: Moment) -> None:
    if amount_of(moment) > 10 and not moment.changed.value["ok"]:
        raise Broken("not told", moment.changed)


def nested(moment: Moment) -> None:
    if amount_of(moment) > 10:
        wrong = not moment.changed.value["ok"]
        if wrong:
            raise Broken("not told", moment.changed)


def in_a_loop(moment: Moment) -> bool:
    for view in moment.outputs("told"):
        if view.value["id"] > 10:
            if view.value["ok"]:
                continue
            return False
    return True


def by_a_helper(moment: Moment) -> None:
    if amount_of(moment) > 10:
        must_be_ok(moment.changed.value)


def must_be_ok(value: Any) -> None:
    assert value["ok"]


def both(moment: Moment) -> bool:
    return amount_of(moment) > 10 and not moment.changed.value["ok"]


def simple(moment: Moment) -> bool:
    return moment.changed.value["ok"] is True


def one_of(moment: Moment) -> None:
    assert moment.changed.value["id"] == 3 or moment.changed.value["id"] == 5


def range_of(moment: Moment) -> bool:
    return amount_of(moment) >= 0 and bool(moment.changed.value["ok"])


def raised(moment: Moment) -> None:
    if amount_of(moment) < 0:
        raise Broken("negative", moment.changed)


def sums_up(moment: Moment) -> None:
    views = moment.outputs("told")
    if not views:
        raise Unexercised("nothing came out")
    assert sum(view.value["id"] for view in views if view.value["ok"]) >= 0


def one_of_several(moment: Moment) -> None:
    assert amount_of(moment) >= 0
    if amount_of(moment) > 10:
        assert moment.changed.value["ok"]


def in_a_try(moment: Moment) -> bool:
    try:
        return bool(moment.changed.value["id"] <= 10 or moment.changed.value["ok"])
    except KeyError:
        return False
