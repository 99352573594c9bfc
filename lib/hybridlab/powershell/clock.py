"""System.DateTime and System.TimeSpan: members, text, and the format strings that logs use.  The clock shows UTC."""

from __future__ import annotations

import datetime as dt
import re

from hybridlab.powershell.conversion import to_number
from hybridlab.powershell.numbers import Long
from hybridlab.powershell.objects import NetObject, to_text
from hybridlab.powershell.syntax import NotEmulated

_TICKS = 10_000_000
"""In a second."""
_TOKEN = re.compile(r"yyyy|yy|MMMM|MMM|MM|dddd|ddd|dd|HH|hh|mm|ss|f{1,7}|tt|'[^']*'|.", re.DOTALL)
_STANDARD = {
    "s": "yyyy-MM-ddTHH:mm:ss",
    "o": "yyyy-MM-ddTHH:mm:ss.fffffff",
    "O": "yyyy-MM-ddTHH:mm:ss.fffffff",
    "u": "yyyy-MM-dd HH:mm:ssZ",
}
_POSIX = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "dddd": "%A",
    "ddd": "%a",
    "dd": "%d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "tt": "%p",
}
_PLAIN = frozenset("-/:., _TZ")


class TimeSpan(NetObject):
    """A length of time."""

    def __init__(self, ticks: int) -> None:
        self.ticks = ticks
        total = ticks / _TICKS
        super().__init__("System.TimeSpan", text=_span_text(ticks), Ticks=Long(ticks))
        for name, seconds in (("Seconds", 1), ("Minutes", 60), ("Hours", 3600), ("Days", 86400)):
            self.put(f"Total{name}", total / seconds)
        self.put("TotalMilliseconds", ticks / (_TICKS / 1000))
        whole = abs(ticks) // (_TICKS // 1000) * (1 if ticks >= 0 else -1)
        sign, rest = (1, whole) if whole >= 0 else (-1, -whole)
        parts = (("Milliseconds", 1, 1000), ("Seconds", 1000, 60), ("Minutes", 60_000, 60), ("Hours", 3_600_000, 24))
        for name, size, modulus in parts:
            self.put(name, sign * (rest // size % modulus))
        self.put("Days", sign * (rest // 86_400_000))


def _span_text(ticks: int) -> str:
    seconds, fraction = divmod(abs(ticks), _TICKS)
    days, seconds = divmod(seconds, 86400)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    text = (f"{days}." if days else "") + text + (f".{fraction:07d}" if fraction else "")
    return f"-{text}" if ticks < 0 else text


class DateTime(NetObject):
    """A point in time, in UTC."""

    def __init__(self, ticks: int, *, utc: bool = False) -> None:
        self.ticks = ticks
        """Since year 1, in 100 ns."""
        self.utc = utc
        """Its Kind is Utc instead of Local."""
        moment = self._moment()
        super().__init__("System.DateTime", text=moment.strftime("%m/%d/%Y %H:%M:%S"), Ticks=Long(ticks))
        for name in ("Year", "Month", "Day", "Hour", "Minute", "Second"):
            self.put(name, getattr(moment, name.lower()))
        self.put("Millisecond", moment.microsecond // 1000)
        self.put("DayOfYear", moment.timetuple().tm_yday)
        for unit, size in (
            ("Milliseconds", 1 / 1000),
            ("Seconds", 1),
            ("Minutes", 60),
            ("Hours", 3600),
            ("Days", 86400),
        ):
            self.method(f"Add{unit}", lambda count, size=size: self.later(round(_number(count) * size * _TICKS)))
        self.method("ToString", lambda format_="": self.formatted(to_text(format_)) if format_ else self.default())
        self.method("ToUniversalTime", lambda: DateTime(ticks, utc=True))
        self.method("Subtract", self.minus)

    @classmethod
    def now(cls, *, utc: bool = False) -> DateTime:
        """This moment."""
        passed = dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.datetime(1, 1, 1)
        return cls((passed.days * 86400 + passed.seconds) * _TICKS + passed.microseconds * 10, utc=utc)

    def _moment(self) -> dt.datetime:
        return dt.datetime(1, 1, 1) + dt.timedelta(microseconds=self.ticks // 10)

    def later(self, ticks: int) -> DateTime:
        """So many ticks later."""
        return DateTime(self.ticks + ticks, utc=self.utc)

    def minus(self, other: object) -> NetObject:
        """The time since ``other``, or so much before."""
        if isinstance(other, DateTime):
            return TimeSpan(self.ticks - other.ticks)
        if isinstance(other, TimeSpan):
            return self.later(-other.ticks)
        raise NotEmulated("a date less this value")

    def default(self) -> str:
        """What .ToString() gives under en-US."""
        moment = self._moment()
        return f"{moment.month}/{moment.day}/{moment.year} {self._hour()}:{moment:%M:%S %p}"

    def long(self) -> str:
        """What the host shows under en-US."""
        moment = self._moment()
        return f"{moment:%A, %B} {moment.day}, {moment.year} {self._hour()}:{moment:%M:%S %p}"

    def _hour(self) -> int:
        return self._moment().hour % 12 or 12

    def formatted(self, text: str) -> str:
        """The date by a format string.  Raises NotEmulated for those that are not known."""
        if len(text) == 1 and text not in _STANDARD:
            raise NotEmulated(f"the date format '{text}'")
        moment = self._moment()
        made = ""
        for token in _TOKEN.findall(_STANDARD.get(text, text)):
            if token in _POSIX:
                made += moment.strftime(_POSIX[token])
            elif token[0] == "f":
                made += f"{self.ticks % _TICKS:07d}"[: len(token)]
            elif token[0] == "'" and len(token) > 1:
                made += token[1:-1]
            elif token in _PLAIN:
                made += token
            else:
                raise NotEmulated(f"the date format '{text}'")
        return made + ({True: "Z", False: "+00:00"}[self.utc] if text in ("o", "O") else "")


def _number(value: object) -> float:
    return float(to_number(value))
