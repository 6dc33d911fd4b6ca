"""The data types that the modules of the runner share."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    """One test: it is started, counted and reported separately from the others."""

    name: str  # GROUP/NAME of a program, GROUP/FILE::ITEM of a pytest item
    group: str  # unit, comm, oracle, ...
    program: object = None  # of table.py; None: a pytest item
    fixtures: tuple = ()  # those of its file that it shares with other cases

    @property
    def file(self):
        return self.name.split("::")[0]


@dataclasses.dataclass
class Result:
    """What became of a case."""

    case: Case
    outcome: str  # passed, failed, skipped
    text: str = ""  # the output of a failed case, or the reason of a skip
    cpu_s: float = 0.0  # processor time of the case and of all processes that it waited for
    wall_s: float = 0.0
    commands: int = 0  # how many processes it started, itself
    skips: tuple = ()  # lines about parts of a program that could not run here


@dataclasses.dataclass(frozen=True)
class Cost:
    """The expected cost of a case."""

    cpu_s: float
    wall_s: float
    commands: int = 0


def fixture_name(case, fixture):
    """The name of a shared fixture in the file of costs."""
    return f"{case.file}::@{fixture}"
