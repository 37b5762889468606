"""An alert is emitted at the third error of a service in a second, and again at each further one."""

from random import Random

from headrace import SECOND, Computation, Context, Pipeline, Record
from headrace_properties.promises import Moment, always
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("one_alert_a_second", "told again")


class Alerts(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        second = record.timestamp // SECOND
        errors = context.state.get(str(second), 0) + 1
        context.state[str(second)] = errors
        if errors >= 3:
            context.produce(
                "alerts", {"service": context.key, "second": second}, timestamp=(second + 1) * SECOND
            )


class MendedAlerts(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        second = record.timestamp // SECOND
        errors = context.state.get(str(second), 0) + 1
        context.state[str(second)] = errors
        if errors == 3:
            context.produce(
                "alerts", {"service": context.key, "second": second}, timestamp=(second + 1) * SECOND
            )


def build(alerts: Computation) -> Pipeline:
    built = Pipeline("monitoring")
    built.injector("errors")
    built.add(alerts, name="alerts", inputs={"errors": lambda record: record.value}, outputs=["alerts"])
    return built


pipeline, mended = build(Alerts()), build(MendedAlerts())


def draw(random: Random, number: int) -> str:
    return random.choice(["login", "search", "search"])


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)


@always(stream="alerts")
def one_alert_a_second(moment: Moment) -> None:
    """A service gives at most one alert in each second."""
    alert = (moment.changed.value["service"], moment.changed.value["second"])
    assert alert not in moment.memory, f"{alert} is told again"
    moment.memory[alert] = True


promises = [one_alert_a_second]
