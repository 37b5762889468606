"""The user's promises: what a pipeline means to do, as code, checked in every run.

::

    from headrace_properties.promises import always, at_end, conserved, sometimes

    @always(of="accounts")
    def no_overdraft(moment):
        "No account is ever below zero."
        assert moment.changed.after["balance"] >= 0

    @sometimes
    def somebody_is_broke(moment):
        return any(account["balance"] == 0 for account in moment.states("accounts").values())

    promises = [no_overdraft, somebody_is_broke,
                conserved("money", held={"accounts": lambda state: state["balance"]}, carried={"deposits": amount})]

Put ``promises`` beside the pipeline, in the same module, or pass it to ``headrace_verify(pipeline, feed, promises=...)``.

A promise is a function of a `Moment` of the run. It returns a bool or ``None`` (nothing to object), or raises ``AssertionError``,
whose message is reported. `Broken` is an ``AssertionError`` that names the records or rows to blame; `Unexercised` says that
this run does not tell. `sometimes`, `never` and `eventually` must return a bool.

============================ ============================================================================================
`always`, `never`            After each durable change of a row and each record that goes outside. ``of=`` restricts it to
                             the rows of some computations, ``stream=`` to records that leave on some streams.
`eventually`                 At some moment within ``within_us`` after all faults have healed and all input is in.
`at_end`                     When the run has come to rest.
`sometimes`                  In at least one run; otherwise its verdict is unknown.
`expected`                   The records that leave on a stream are those that a function makes of the input; with ``of=``,
                             those of a sequential model, stepped by each record in the order in which they took effect.
`conserved`                  Nothing is lost or doubled between accounts: what came in is held or has left.
`answered_once`              Each request has exactly one answer.
`in_order`                   Records of a key leave in order.
`linearizable`               Requests and answers of each key fit some sequential order that respects real time.
`bounded_state`              No row is left that nothing will ever clean up.
`unique`                     No two rows of a table have one key.
`newest_wins`                A table has the newest version of each key that came.
`no_gap`                     The numbers in a column follow each other.
`same_total`                 Amounts add up to the same in several tables.
============================ ============================================================================================

What a moment shows is durable or has left: `Moment.states`, `Moment.state`, `Moment.timers` of rows, `Moment.inputs`,
`Moment.outputs`, `Moment.low_watermark`, `Moment.at_us`, and what changed since the last moment (`Moment.changed`), decoded by
the pipeline's own codecs. `Moment.memory` is a dict that the promise has for itself during one run.

Of a Spark job, a promise with ``table=`` reads what its sink leaves: ``moment.table(name)`` is a list of ``Row`` values of an SQL
table, of a file, or of what a server was told; ``"input"`` and ``"output"`` are the rows of the query, ``""`` is the only table.
A name may be the last part of a longer one (``orders`` of ``shop.db: orders``), or a pattern (``done/*.json``). `always` is
asked of what is committed wherever a driver dies, `at_end` of what each run leaves in the end, also the undisturbed one. Of a
pipeline and of a History, ``moment.table(stream)`` has the values of the records on a stream.
"""

from headrace_properties.promises.linearizability import linearizable
from headrace_properties.promises.moment import Moment, RecordView, RowChange
from headrace_properties.promises.promise import (
    Promise,
    PromiseKind,
    always,
    at_end,
    eventually,
    never,
    sometimes,
)
from headrace_properties.promises.promise_errors import Broken, PromiseError, Unexercised
from headrace_properties.promises.promise_judge import check_promises, judge_promises, promise_checkers
from headrace_properties.promises.ready_made import (
    answered_once,
    bounded_state,
    conserved,
    expected,
    in_order,
)
from headrace_properties.promises.table_promises import newest_wins, no_gap, same_total, unique

__all__ = [
    "Broken",
    "Moment",
    "Promise",
    "PromiseError",
    "PromiseKind",
    "RecordView",
    "RowChange",
    "Unexercised",
    "always",
    "answered_once",
    "at_end",
    "bounded_state",
    "check_promises",
    "conserved",
    "eventually",
    "expected",
    "in_order",
    "judge_promises",
    "linearizable",
    "never",
    "newest_wins",
    "no_gap",
    "promise_checkers",
    "same_total",
    "sometimes",
    "unique",
]
