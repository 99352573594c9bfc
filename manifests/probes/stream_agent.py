# probe-protocol: 1
"""Stream agent for Linux pods: keeps TCP connections up and says how they fare, as docs/probe-protocol.md section 8 says.

Runs in the pod under Python 3.8 or later, standard library only.  Both ends of a stream send numbered heartbeats; each
end says what its own system told it.  It judges nothing.
"""

import errno
import hashlib
import ipaddress
import json
import os
import re
import selectors
import socket
import struct
import sys
import time

PROTOCOL = 1
MARK = "@@PROBE@@ "
NAME = re.compile(r"[A-Za-z0-9.-]{1,64}")
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
EVENTS_KEPT = 200
LINE_LIMIT = 4096

OPENING = {
    errno.ECONNREFUSED: "REFUSED", errno.ECONNRESET: "RESET", errno.ETIMEDOUT: "TIMED_OUT",
    errno.EHOSTUNREACH: "UNREACHABLE", errno.ENETUNREACH: "UNREACHABLE", errno.ENETDOWN: "UNREACHABLE",
    errno.EHOSTDOWN: "UNREACHABLE", errno.EACCES: "PROHIBITED", errno.EPERM: "PROHIBITED",
    errno.ECONNABORTED: "ABORTED",
}
OPEN = {
    errno.ECONNRESET: "RESET", errno.EPIPE: "RESET", errno.ETIMEDOUT: "ABORTED", errno.ECONNABORTED: "ABORTED",
    errno.EHOSTUNREACH: "ABORTED", errno.ENETUNREACH: "ABORTED", errno.ENETDOWN: "ABORTED", errno.EPERM: "ABORTED",
}
"""Once it is open, only the own system's giving up can end a connection that nobody reset or closed."""


def wording(code):
    return "%s: %s" % (errno.errorcode.get(code, "errno %s" % code), os.strerror(code))


def place(address):
    return "%s:%s" % (address[0], address[1])


class Connection:
    """One socket that speaks in lines; whoever owns it hears of what happens by ``line``, ``ready`` and ``ended``."""

    def __init__(self, agent, sock, owner, connecting):
        self.agent, self.sock, self.owner, self.connecting = agent, sock, owner, connecting
        self.text, self.waiting = b"", b""
        sock.setblocking(False)
        agent.selector.register(sock, WRITE if connecting else READ, self)
        if not connecting:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def step(self, events):
        """Something can be read or written."""
        if self.connecting:
            code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self.fail(code, OPENING)
                return
            self.connecting = False
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.agent.selector.modify(self.sock, READ, self)
            self.owner.ready(self)
            return
        if events & READ:
            self.read()
        if self.sock is not None and events & WRITE:
            self.push()

    def read(self):
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(error.errno, OPEN)
            return
        if not data:
            self.close()
            self.owner.ended(self, "CLOSED", "the peer closed in order")
            return
        lines = (self.text + data).split(b"\n")
        self.text = lines.pop()
        for line in lines:
            if self.sock is not None:
                self.owner.line(self, line.decode("latin-1"))
        if len(self.text) > LINE_LIMIT and self.sock is not None:
            self.close()
            self.owner.ended(self, "BROKEN", "the peer speaks no stream protocol")

    def say(self, text):
        self.waiting += text.encode("ascii") + b"\n"
        self.push()

    def push(self):
        try:
            self.waiting = self.waiting[self.sock.send(self.waiting) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self.fail(error.errno, OPEN)
            return
        self.agent.selector.modify(self.sock, READ | WRITE if self.waiting else READ, self)

    def fail(self, code, words):
        self.close()
        self.owner.ended(self, words.get(code, "BROKEN"), wording(code))

    def close(self, reset=False):
        if self.sock is not None:
            self.agent.selector.unregister(self.sock)
            if reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()
            self.sock = None


def connect(agent, host, port, owner):
    """A connection under way.  Raises OSError when it cannot even begin."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    code = sock.connect_ex((host, port))
    if code not in (0, errno.EINPROGRESS):
        sock.close()
        raise OSError(code, os.strerror(code))
    return Connection(agent, sock, owner, True)


class End:
    """One end of a stream: what was sent and heard, what happened, and how it is."""

    def __init__(self, agent, side, every, stall):
        self.agent, self.side, self.every, self.stall = agent, side, every, stall
        self.stream, self.verdict, self.detail = "", "", ""
        self.connection, self.local, self.remote = None, "", ""
        self.sent = self.heard = 0
        self.heard_at = self.next_send = time.monotonic()
        self.open = self.stalled = False
        self.events = []

    def note(self, event, detail=""):
        self.events.append({"at_ms": self.agent.up_ms(), "event": event, "detail": detail})
        del self.events[EVENTS_KEPT // 2 : max(EVENTS_KEPT // 2, len(self.events) - EVENTS_KEPT // 2)]

    def places(self):
        self.local = place(self.connection.sock.getsockname())
        self.remote = place(self.connection.sock.getpeername())

    def opened(self):
        self.open = True
        self.heard_at = self.next_send = time.monotonic()
        self.note("opened", "%s to %s" % (self.local, self.remote))

    def beat(self, connection, text):
        """A heartbeat came."""
        now = time.monotonic()
        if not text.isdigit() or int(text) != self.heard + 1:
            connection.close()
            self.ended(connection, "BROKEN", "heartbeat %r after %d" % (text[:40], self.heard))
            return
        if self.stalled:
            self.stalled = False
            self.note("resumed", "after %d ms" % round((now - self.heard_at) * 1000))
        self.heard, self.heard_at = self.heard + 1, now

    def ended(self, connection, verdict, detail):
        self.open, self.verdict, self.detail = False, verdict, detail
        self.note("ended", "%s %s" % (verdict, detail))

    def tick(self, now):
        """Carry out what is due, and say when something is due next."""
        if not self.open:
            return now + 60
        if now >= self.next_send:
            if not self.connection.waiting:
                self.sent += 1
                self.connection.say(str(self.sent))
            self.next_send = max(self.next_send + self.every, now)
        if self.open and not self.stalled and now - self.heard_at >= self.stall:
            self.stalled = True
            self.note("stalled", "no heartbeat for %d ms" % round((now - self.heard_at) * 1000))
        return min(self.next_send, now + 60 if self.stalled else self.heard_at + self.stall)

    def report(self):
        verdict = self.verdict or ("STALLED" if self.stalled else "SURVIVED" if self.open else "OPENING")
        return {
            "stream": self.stream, "side": self.side, "verdict": verdict, "detail": self.detail, "local": self.local,
            "remote": self.remote, "sent": self.sent, "heard": self.heard, "events": self.events,
            "quiet_ms": round((time.monotonic() - self.heard_at) * 1000) if self.open else None,
        }


class Opened(End):
    """The end that connected; after trouble it tries new connections until one works."""

    def __init__(self, agent, job):
        super().__init__(agent, "opened", job["every_ms"] / 1000.0, job["stall_ms"] / 1000.0)
        self.stream, self.host, self.port = job["stream"], job["host"], job["port"]
        self.give_up, self.batch = job["give_up_ms"] / 1000.0, job["batch"]
        self.deadline = time.monotonic() + self.give_up
        self.trouble = self.again = None
        self.tries, self.recovered, self.next_try = 0, None, 0.0
        try:
            self.connection = connect(agent, self.host, self.port, self)
        except OSError as error:
            self.ended(None, OPENING.get(error.errno, "BROKEN"), wording(error.errno))

    def ready(self, connection):
        self.places()
        self.deadline = time.monotonic() + self.give_up
        connection.say("stream " + self.stream)

    def line(self, connection, text):
        if not self.open:
            self.opened()
            self.beat(connection, text)
            self.agent.answer_open(self)
        else:
            self.beat(connection, text)

    def ended(self, connection, verdict, detail):
        began = self.open
        super().ended(connection, verdict, detail)
        if not began:
            self.agent.answer_open(self)
        elif self.trouble is None:
            self.trouble = time.monotonic()

    def tick(self, now):
        if not self.open and not self.verdict:
            if now < self.deadline:
                return self.deadline
            phase = self.connection.connecting
            self.connection.close()
            word, detail = ("TIMED_OUT", "no answer to the first packet") if phase else ("NO_ANSWER", "no heartbeat")
            self.ended(None, word, detail)
        due = super().tick(now)
        if self.stalled and self.trouble is None:
            self.trouble = now
        if self.open and not self.stalled and self.recovered is None:
            self.trouble = None
            self.drop_again()
        if self.trouble is None or self.recovered is not None:
            return due
        if self.again is None and now >= self.next_try:
            self.tries += 1
            again = Again(self, now + self.give_up)
            self.again = again if again.connection is not None else None
        if self.again is not None and now >= self.again.deadline:
            self.again.fail("TIMED_OUT", "no heartbeat of a new connection")
        return min(due, self.next_try if self.again is None else self.again.deadline)

    def drop_again(self):
        if self.again is not None:
            self.again.connection.close()
            self.again = None

    def report(self):
        out = super().report()
        recovered = None if self.recovered is None else round((self.recovered - self.trouble) * 1000)
        out.update(recovered_ms=recovered, recovery_tries=self.tries)
        return out


class Again:
    """One try of a new connection after trouble."""

    def __init__(self, end, deadline):
        self.end, self.deadline, self.connection = end, deadline, None
        try:
            self.connection = connect(end.agent, end.host, end.port, self)
        except OSError as error:
            self.fail(OPENING.get(error.errno, "BROKEN"), wording(error.errno))

    def ready(self, connection):
        connection.say("again " + self.end.stream)

    def line(self, connection, text):
        connection.close()
        end = self.end
        end.again, end.recovered = None, time.monotonic()
        end.note("recovered", "a new connection works, try %d" % end.tries)

    def ended(self, connection, verdict, detail):
        self.fail(verdict, detail)

    def fail(self, verdict, detail):
        if self.connection is not None:
            self.connection.close()
        self.end.note("tried", "%s %s" % (verdict, detail))
        self.end.next_try = time.monotonic() + self.end.every
        self.end.again = None


class Accepted(End):
    """The end that was connected to; what it is the peer says in its first line."""

    def __init__(self, agent, sock, every, stall):
        super().__init__(agent, "accepted", every, stall)
        self.connection = Connection(agent, sock, self, False)
        self.places()

    def line(self, connection, text):
        if self.stream:
            self.beat(connection, text)
            return
        word, _, name = text.partition(" ")
        if word == "again" and NAME.fullmatch(name):
            connection.say("1")
        elif word == "stream" and NAME.fullmatch(name):
            self.stream = name
            self.opened()
            self.agent.ends.append(self)
        else:
            connection.close()
            self.agent.strangers.discard(self)

    def ended(self, connection, verdict, detail):
        self.agent.strangers.discard(self)
        if self.stream:
            super().ended(connection, verdict, detail)


class Listener:
    """A port on which streams are accepted."""

    def __init__(self, agent, port, every, stall):
        self.agent, self.every, self.stall = agent, every, stall
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.sock.bind(("0.0.0.0", port))
            self.sock.listen(64)
        except OSError:
            self.sock.close()
            raise
        self.sock.setblocking(False)
        self.port = self.sock.getsockname()[1]
        agent.selector.register(self.sock, READ, self)

    def step(self, events):
        try:
            sock = self.sock.accept()[0]
        except OSError:
            return  # gone again
        try:
            self.agent.strangers.add(Accepted(self.agent, sock, self.every, self.stall))
        except OSError:
            sock.close()


class Agent:
    """Reads lines, drives streams, answers."""

    def __init__(self, beat, idle):
        self.beat, self.idle = beat, idle
        self.selector = selectors.DefaultSelector()
        self.begin = self.heard = self.beaten = time.monotonic()
        self.ends, self.listeners = [], {}
        self.strangers = set()  # accepted, and perhaps not streams
        self.text, self.over = b"", ""

    def up_ms(self):
        return round((time.monotonic() - self.begin) * 1000, 1)

    def write(self, document):
        sys.stdout.write(MARK + json.dumps(document) + "\n")
        sys.stdout.flush()

    def hello(self):
        with open(os.path.abspath(__file__), "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        self.write({
            "type": "hello", "protocol": PROTOCOL, "program": "stream_agent.py", "sha256": digest, "os": "linux",
            "runtime": "Python " + sys.version.split()[0], "hostname": socket.gethostname(), "pid": os.getpid(),
        })

    def run(self):
        self.hello()
        os.set_blocking(0, False)
        self.selector.register(0, READ, None)
        due = 0.0
        while not self.over:
            now = time.monotonic()
            next_time = min(due, self.beaten + self.beat, self.heard + self.idle)
            self.go_on(max(0.0, next_time - now))
            now = time.monotonic()
            if now >= due:
                self.go_on(0.0)  # what came while this program waited for a processor did come in time
            due = min([now + 60] + [end.tick(now) for end in list(self.ends)])
            if now - self.beaten >= self.beat:
                self.say_beat(now)
            if now - self.heard >= self.idle:
                self.over = self.over or "idle"
        self.write({"type": "bye", "reason": self.over})

    def go_on(self, patience):
        """Whatever is ready, or becomes so within ``patience`` seconds."""
        for key, events in self.selector.select(patience):
            if key.data is None:
                self.listen()
            elif key.fileobj.fileno() >= 0:  # not closed by one before it
                try:
                    key.data.step(events)
                except OSError as error:  # gone between two calls
                    key.data.fail(error.errno, OPEN)

    def say_beat(self, now):
        self.beaten = now
        still = sum(end.open for end in self.ends)
        self.write({"type": "beat", "up_ms": int((now - self.begin) * 1000), "open": still})

    def listen(self):
        data = os.read(0, 65536)
        self.heard = time.monotonic()
        if not data:
            self.over = self.over or "end of input"
            return
        lines = (self.text + data).split(b"\n")
        self.text = lines.pop()
        for line in lines:
            if line.strip():
                self.take(line)

    def take(self, line):
        batch = None
        try:
            job = json.loads(line.decode("utf-8"))
            batch = job.get("batch")
            kind = job["type"]
            if kind == "quit":
                self.over = "quit"
            elif kind == "ping":
                self.say_beat(time.monotonic())
            elif kind == "stream-listen":
                self.answer(batch, port=self.listen_on(job))
            elif kind == "stream-open":
                check(job)
                if any(end.stream == job["stream"] and end.side == "opened" for end in self.ends):
                    raise ValueError("there is a stream %r already" % job["stream"])
                end = Opened(self, job)
                self.ends.append(end)
            elif kind == "stream-report":
                self.answer(batch, ends=[end.report() for end in self.named(job)])
            elif kind == "stream-close":
                how = job.get("how") or "fin"
                if how not in ("fin", "rst"):
                    raise ValueError("how must be fin or rst")
                self.answer(batch, ends=[self.close(end, how) for end in self.named(job)])
            else:
                raise ValueError("type %r is not known" % kind)
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            self.write({"type": "error", "batch": batch, "message": "%s: %s" % (type(error).__name__, error)})

    def answer(self, batch, **fields):
        document = {"type": "result", "batch": batch, "up_ms": self.up_ms()}
        document.update(fields)
        self.write(document)

    def answer_open(self, end):
        """Once for each stream that was to be opened, when it is open or has failed."""
        batch, end.batch = end.batch, None
        if batch is not None:
            self.answer(batch, ends=[end.report()])

    def listen_on(self, job):
        port, every, stall = job["port"], job["every_ms"] / 1000.0, job["stall_ms"] / 1000.0
        if every <= 0 or stall <= 0:
            raise ValueError("every_ms and stall_ms must be more than 0")
        if port in self.listeners:
            self.listeners[port].every, self.listeners[port].stall = every, stall
        else:
            listener = Listener(self, port, every, stall)
            port = listener.port
            self.listeners[port] = listener
        return port

    def named(self, job):
        name = job.get("stream")
        return [end for end in self.ends if name is None or end.stream == name]

    def close(self, end, how):
        if how == "rst" and end.open:
            end.connection.close(reset=True)
            end.ended(None, "ABORTED", "as told")
        out = end.report()
        if end.connection is not None:
            end.connection.close()
        if end.side == "opened":
            end.drop_again()
            self.answer_open(end)
        self.ends.remove(end)
        return out


def check(job):
    """Raises when a stream is not one that this program can open."""
    ipaddress.ip_address(job["host"])
    if not NAME.fullmatch(job["stream"]):
        raise ValueError("%r is no name for a stream" % job["stream"])
    for field in ("every_ms", "stall_ms", "give_up_ms"):
        if not job[field] > 0:
            raise ValueError("%s must be more than 0" % field)
    job["port"], job["batch"]


def main(arguments):
    options = {"--beat": 5.0, "--idle": 120.0}
    for name, value in zip(arguments[::2], arguments[1::2]):
        if name not in options:
            raise SystemExit("stream_agent.py: unknown option %s" % name)
        options[name] = float(value)
    try:
        Agent(options["--beat"], options["--idle"]).run()
    except BrokenPipeError:
        os._exit(3)  # nobody reads any more
    except Exception as error:
        sys.stderr.write("stream_agent.py: %s: %s\n" % (type(error).__name__, error))
        sys.exit(3)


if __name__ == "__main__":
    main(sys.argv[1:])
