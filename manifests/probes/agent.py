# probe-protocol: 1
"""Probe agent for Linux pods: JSON lines in, JSON lines out, as docs/probe-protocol.md says.

Runs in the pod under Python 3.8 or later, standard library only.  Every attempt is a generator that yields what it
waits for; one selector drives them all, so that hundreds of sockets cost one thread.  It judges nothing: it says what
its own system calls answered, or BROKEN when it could not try.
"""

import base64
import errno
import hashlib
import ipaddress
import json
import os
import random
import selectors
import socket
import struct
import sys
import time

PROTOCOL = 1
MARK = "@@PROBE@@ "
BODY_LIMIT = 65536
OPEN_LIMIT = 400
"""Attempts with an open socket at a time; the others wait for their turn (their clocks start when they begin)."""
PATIENCE = 10
"""An attempt that makes progress still ends after so many times its give-up time."""
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "TXT": 16, "AAAA": 28, "SRV": 33}
CODES = {1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}

CONNECTING = {
    errno.ECONNREFUSED: "REFUSED", errno.ECONNRESET: "RESET", errno.ETIMEDOUT: "TIMED_OUT",
    errno.EHOSTUNREACH: "UNREACHABLE", errno.ENETUNREACH: "UNREACHABLE", errno.ENETDOWN: "UNREACHABLE",
    errno.EHOSTDOWN: "UNREACHABLE", errno.EACCES: "PROHIBITED", errno.EPERM: "PROHIBITED",
    errno.EMSGSIZE: "PROHIBITED", errno.ECONNABORTED: "ABORTED",
}
CONNECTED = dict(CONNECTING)
CONNECTED.update({errno.EPIPE: "RESET", errno.ETIMEDOUT: "ABORTED"})


class Ended(Exception):
    """An attempt's verdict."""

    def __init__(self, verdict, detail="", **fields):
        super().__init__(verdict)
        self.verdict, self.detail, self.fields = verdict, detail, fields


class Expired(Exception):
    """Nothing happened for the give-up time; thrown into an attempt where it waits."""


def failed(error, words):
    """The verdict of a system call that failed."""
    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return Ended(words.get(error.errno or 0, "BROKEN"), "%s: %s" % (name, error.strerror or error))


def place(address):
    return "%s:%s" % (address[0], address[1]) if address else ""


class Attempt:
    """One attempt under way."""

    def __init__(self, batch, spec, now):
        self.batch, self.spec = batch, spec
        self.give_up = spec["give_up_ms"] / 1000.0
        self.begin, self.limit = now, now + PATIENCE * self.give_up
        self.deadline = now + self.give_up
        self.sock = None
        self.out = {"id": spec["id"]}
        self.steps = KINDS[spec["kind"]](self)

    # each of these is used with "yield from" by the generators below

    def wait(self, events):
        """Until the socket is ready; raises Expired after the give-up time without progress."""
        self.deadline = min(time.monotonic() + self.give_up, self.limit)
        yield events

    def open(self, kind, host, port):
        """A connected socket (UDP: with its peer fixed)."""
        self.drop()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self.sock = socket.socket(family, kind)
            self.sock.setblocking(False)
            code = self.sock.connect_ex((host, port))
        except OSError as error:
            raise failed(error, {})
        if code not in (0, errno.EINPROGRESS):
            raise failed(OSError(code, os.strerror(code)), CONNECTING)
        if code:
            try:
                yield from self.wait(WRITE)
            except Expired:
                raise Ended("TIMED_OUT", "no answer to the first packet")
            code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise failed(OSError(code, os.strerror(code)), CONNECTING)
        self.out["connect_ms"] = self.elapsed()
        self.out["local"], self.out["remote"] = place(self.sock.getsockname()), place((host, port))

    def push(self, data):
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                yield from self.wait(WRITE)
            except OSError as error:
                raise failed(error, CONNECTED)

    def pull(self, size=65536):
        while True:
            try:
                return self.sock.recv(size)
            except BlockingIOError:
                yield from self.wait(READ)
            except OSError as error:
                raise failed(error, CONNECTED)

    def drop(self):
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def elapsed(self):
        return round((time.monotonic() - self.begin) * 1000, 3)


# --- kinds ------------------------------------------------------------------------------------------------------------


def pattern(size):
    """Payload bytes: a to z, again and again."""
    return (b"abcdefghijklmnopqrstuvwxyz" * (size // 26 + 1))[:size]


def address_of(attempt):
    """The target's address: as given, or the first A record of its name."""
    host = attempt.spec["host"]
    try:
        ipaddress.ip_address(host)
        return host
    except ValueError:
        pass
    answers = yield from resolve(attempt, host, "A", False, None)
    return answers[0]


def try_tcp(attempt):
    host = yield from address_of(attempt)
    yield from attempt.open(socket.SOCK_STREAM, host, attempt.spec["port"])
    raise Ended("CONNECTED")


def try_http(attempt):
    spec = attempt.spec
    host = yield from address_of(attempt)
    yield from attempt.open(socket.SOCK_STREAM, host, spec["port"])
    size = spec.get("payload") or 0
    head = "%s %s HTTP/1.0\r\nHost: %s\r\nUser-Agent: probe\r\nConnection: close\r\n" % (
        "POST" if size else "GET", spec.get("path") or "/", spec["host"])
    if size:
        head += "Content-Type: application/octet-stream\r\nContent-Length: %d\r\n" % size
    data = bytearray()
    try:
        yield from attempt.push(head.encode("ascii") + b"\r\n" + pattern(size))
        while True:
            more = yield from attempt.pull()
            if not more:
                break
            data += more
            if time.monotonic() > attempt.limit:
                raise Expired
    except Expired:
        read_http(attempt, data)
        raise Ended("NO_ANSWER", "connected, then silence after %d bytes" % len(data))
    except Ended:
        read_http(attempt, data)
        raise
    expected = read_http(attempt, data)
    if not data:
        raise Ended("CLOSED", "the peer closed without answering")
    if expected is not None and attempt.out["body_bytes"] < expected:
        raise Ended("CLOSED", "answer cut short: %d of %d bytes" % (attempt.out["body_bytes"], expected))
    raise Ended("CONNECTED", attempt.out.get("status_line", ""))


def read_http(attempt, data):
    """Status, identity headers and body into the result; returns the Content-Length, if any."""
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    expected = None
    if words[0].startswith("HTTP/") and len(words) > 1 and words[1].isdigit():
        attempt.out["status"], attempt.out["status_line"] = int(words[1]), lines[0]
        fields = {}
        for line in lines[1:]:
            key, _, value = line.partition(":")
            fields[key.strip().lower()] = value.strip()
        attempt.out["headers"] = {key: value for key, value in fields.items() if key.startswith("x-probe-")}
        if fields.get("content-length", "").isdigit():
            expected = int(fields["content-length"])
    else:
        body = bytes(data)
    keep_body(attempt, body)
    return expected


def keep_body(attempt, body):
    attempt.out["body_bytes"] = len(body)
    attempt.out["body_b64"] = base64.b64encode(body[:BODY_LIMIT]).decode("ascii")


def try_udp(attempt):
    spec = attempt.spec
    host = yield from address_of(attempt)
    yield from attempt.open(socket.SOCK_DGRAM, host, spec["port"])
    if spec.get("whole") and attempt.sock.family == socket.AF_INET:
        attempt.sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: never fragmented
    size = spec.get("payload") or 0
    try:
        yield from attempt.push(pattern(size) if size else (spec.get("send") or "probe").encode("utf-8"))
        answer = yield from attempt.pull()
    except Expired:
        raise Ended("TIMED_OUT", "no datagram came back")
    keep_body(attempt, answer)
    raise Ended("CONNECTED")


def try_dns(attempt):
    spec = attempt.spec
    server = (spec["host"], spec.get("port") or 53) if spec.get("host") else None
    answers = yield from resolve(attempt, spec["query"], spec.get("record") or "A", spec.get("over") == "tcp", server)
    raise Ended("RESOLVED", answers=answers)


KINDS = {"tcp": try_tcp, "http": try_http, "udp": try_udp, "dns": try_dns}

# --- resolver ---------------------------------------------------------------------------------------------------------


def resolver_settings(path="/etc/resolv.conf"):
    """(nameservers, search list, ndots) as the pod's resolv.conf says."""
    servers, search, ndots = [], [], 1
    try:
        with open(path) as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise Ended("BROKEN", "%s cannot be read: %s" % (path, error.strerror))
    for line in lines:
        words = line.split("#")[0].split(";")[0].split()
        if len(words) < 2:
            continue
        if words[0] == "nameserver":
            servers.append(words[1])
        elif words[0] in ("search", "domain"):
            search = words[1:]
        elif words[0] == "options":
            for word in words[1:]:
                if word.startswith("ndots:") and word[6:].isdigit():
                    ndots = int(word[6:])
    return servers or ["127.0.0.1"], search, ndots


def candidates(query, record, search, ndots):
    """The names that a resolver library asks for, in its order."""
    if record == "PTR":
        try:
            return [ipaddress.ip_address(query).reverse_pointer]
        except ValueError:
            return [query.rstrip(".")]
    if query.endswith("."):
        return [query.rstrip(".")]
    longer = [query + "." + suffix.rstrip(".") for suffix in search]
    return [query] + longer if query.count(".") >= ndots else longer + [query]


def resolve(attempt, query, record, tcp, server):
    """Answers of a query, by resolv.conf or at ``server``; ends the attempt when there are none."""
    servers, search, ndots = ([server], [], 0) if server else resolver_settings()
    servers = [one if isinstance(one, tuple) else (one, 53) for one in servers]
    asked, trouble = [], ""
    for name in candidates(query, record, search, ndots):
        asked.append(name)
        for where in servers:
            try:
                code, answers = yield from ask(attempt, where, name, record, tcp)
            except Ended as ended:
                if ended.verdict == "BROKEN":
                    raise
                trouble = "%s from %s for %s" % (ended.detail or ended.verdict, place(where), name)
                continue
            if code == 0 and answers:
                attempt.out["name"] = name
                return answers
            if code not in (0, 3):
                trouble = "%s from %s for %s" % (CODES.get(code, "code %d" % code), place(where), name)
                continue
            break  # this server knows that there is nothing: the others are not asked
    if trouble:
        raise Ended("DNS_FAILED", trouble)
    raise Ended("NO_SUCH_NAME", "no %s record for %s" % (record, ", ".join(asked)))


def ask(attempt, where, name, record, tcp):
    """(response code, answers of that record type) of one query to one server."""
    if record not in TYPES:
        raise Ended("BROKEN", "record type %r is not known" % record)
    number = random.getrandbits(16)
    try:
        labels = b"".join(bytes([len(part)]) + part for part in name.encode("ascii").split(b"."))
        if any(not part or len(part) > 63 for part in name.split(".")):
            raise ValueError(name)
    except (UnicodeEncodeError, ValueError):
        raise Ended("BROKEN", "%r is no DNS name" % name)
    question = labels + b"\0" + struct.pack(">HH", TYPES[record], 1)
    packet = struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + question
    try:
        yield from attempt.open(socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM, where[0], where[1])
        yield from attempt.push(struct.pack(">H", len(packet)) + packet if tcp else packet)
        while True:
            answer = yield from (whole_answer(attempt) if tcp else attempt.pull(4096))
            if len(answer) >= 12 and struct.unpack(">H", answer[:2])[0] == number and answer[2] & 0x80:
                break
    except Expired:
        raise Ended("DNS_FAILED", "no answer")
    if answer[2] & 0x02 and not tcp:  # truncated: the whole answer comes over TCP
        return (yield from ask(attempt, where, name, record, True))
    try:
        return answer[3] & 0x0F, read_answers(answer, TYPES[record])
    except (IndexError, struct.error):
        raise Ended("DNS_FAILED", "garbled answer")


def whole_answer(attempt):
    data = b""
    while len(data) < 2 or len(data) < 2 + struct.unpack(">H", data[:2])[0]:
        more = yield from attempt.pull()
        if not more:
            raise Ended("DNS_FAILED", "the server closed before its answer was whole")
        data += more
    return data[2:]


def read_answers(packet, kind):
    questions, records = struct.unpack(">HH", packet[4:8])
    at = 12
    for _ in range(questions):
        at = read_name(packet, at)[1] + 4
    found = []
    for _ in range(records):
        at = read_name(packet, at)[1]
        this, _, _, size = struct.unpack(">HHIH", packet[at : at + 10])
        at += 10
        data = packet[at : at + size]
        if this == kind:
            if kind in (TYPES["A"], TYPES["AAAA"]):
                found.append(str(ipaddress.ip_address(data)))
            elif kind == TYPES["SRV"]:
                found.append("%d %d %d " % struct.unpack(">HHH", data[:6]) + read_name(packet, at + 6)[0])
            elif kind == TYPES["TXT"]:
                found.append(data[1 : 1 + data[0]].decode("latin-1"))
            else:
                found.append(read_name(packet, at)[0])
        at += size
    return found


def read_name(packet, at):
    """(name with its final dot, offset after it)."""
    parts, end, jumps = [], None, 0
    while True:
        size = packet[at]
        if size & 0xC0 == 0xC0:
            end = at + 2 if end is None else end
            at = struct.unpack(">H", packet[at : at + 2])[0] & 0x3FFF
            jumps += 1
            if jumps > 32:
                raise IndexError("compression loop")
            continue
        at += 1
        if size == 0:
            return ".".join(parts) + ".", at if end is None else end
        parts.append(packet[at : at + size].decode("latin-1"))
        at += size


# --- the agent --------------------------------------------------------------------------------------------------------


class Agent:
    """Reads batches, drives attempts, writes results."""

    def __init__(self, beat, idle):
        self.beat, self.idle = beat, idle
        self.selector = selectors.DefaultSelector()
        self.begin = self.heard = self.beaten = time.monotonic()
        self.waiting, self.running, self.batches = [], set(), {}
        self.text, self.over = b"", ""

    def write(self, document):
        sys.stdout.write(MARK + json.dumps(document) + "\n")
        sys.stdout.flush()

    def hello(self):
        with open(os.path.abspath(__file__), "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        self.write({
            "type": "hello", "protocol": PROTOCOL, "program": "agent.py", "sha256": digest, "os": "linux",
            "runtime": "Python " + sys.version.split()[0], "hostname": socket.gethostname(), "pid": os.getpid(),
        })

    def run(self):
        self.hello()
        os.set_blocking(0, False)
        try:
            self.selector.register(0, READ, None)
        except PermissionError:  # a plain file as standard input is always readable
            self.over = "standard input is neither a pipe nor a socket"
        while not self.over or self.batches:
            now = time.monotonic()
            if now - self.beaten >= self.beat:
                self.say_beat(now)
            if not self.batches and now - self.heard >= self.idle:
                self.over = "idle"
                break
            next_time = min([self.beaten + self.beat] + [one.deadline for one in self.running])
            if not self.batches:
                next_time = min(next_time, self.heard + self.idle)
            self.go_on(max(0.0, next_time - now))
            now = time.monotonic()
            if any(one.deadline <= now for one in self.running):
                self.go_on(0.0)  # what came while this program waited for a processor did come in time
                for one in [one for one in self.running if one.deadline <= now]:
                    self.step(one, Expired())
            self.start()
        self.write({"type": "bye", "reason": self.over})

    def go_on(self, patience):
        """Whatever is ready, or becomes so within ``patience`` seconds."""
        for key, _ in self.selector.select(patience):
            if key.data is None:
                self.listen()
            else:
                self.step(key.data, None)

    def say_beat(self, now):
        self.beaten = now
        self.write({"type": "beat", "up_ms": int((now - self.begin) * 1000), "open": len(self.running)})

    def listen(self):
        data = os.read(0, 65536)
        self.heard = time.monotonic()
        if not data:
            self.selector.unregister(0)
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
            if job["type"] == "quit":
                self.over = "quit"
            elif job["type"] == "ping":
                self.say_beat(time.monotonic())
            elif job["type"] == "batch":
                if batch in self.batches:
                    raise ValueError("batch %r is still under way" % batch)
                specs = job["attempts"]
                for spec in specs:
                    check(spec)
                if len({spec["id"] for spec in specs}) < len(specs):
                    raise ValueError("two attempts of a batch have the same id")
                self.batches[batch] = {"left": len(specs), "begin": time.monotonic(), "results": {}, "order": specs}
                self.waiting += [(batch, spec) for spec in specs]
                if not specs:
                    self.finish(batch)
                self.start()
            else:
                raise ValueError("type %r is not known" % job["type"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.write({"type": "error", "batch": batch, "message": "%s: %s" % (type(error).__name__, error)})

    def start(self):
        while self.waiting and len(self.running) < OPEN_LIMIT:
            batch, spec = self.waiting.pop(0)
            one = Attempt(batch, spec, time.monotonic())
            self.running.add(one)
            self.step(one, None)

    def step(self, one, error):
        """Let an attempt go on until it waits again or ends."""
        if one.sock is not None:
            try:
                self.selector.unregister(one.sock)
            except KeyError:
                pass
        try:
            events = one.steps.throw(error) if error else next(one.steps)
            self.selector.register(one.sock, events, one)
            return
        except Ended as ended:
            one.out.update(ended.fields, verdict=ended.verdict, detail=ended.detail)
        except Exception as trouble:  # whatever it is, it is no verdict
            one.out.update(verdict="BROKEN", detail="%s: %s" % (type(trouble).__name__, trouble))
        one.out["ms"] = one.elapsed()
        one.drop()
        self.running.discard(one)
        job = self.batches[one.batch]
        job["results"][one.spec["id"]] = one.out
        job["left"] -= 1
        if not job["left"]:
            self.finish(one.batch)

    def finish(self, batch):
        job = self.batches.pop(batch)
        self.write({
            "type": "result", "batch": batch, "ms": round((time.monotonic() - job["begin"]) * 1000, 3),
            "results": [job["results"][spec["id"]] for spec in job["order"]],
        })
        self.heard = time.monotonic()


def check(spec):
    """Raises when an attempt is not one that this program can carry out."""
    if spec["kind"] not in KINDS:
        raise ValueError("kind %r is not known" % spec["kind"])
    if not spec["give_up_ms"] > 0:
        raise ValueError("give_up_ms must be more than 0")
    for field in {"dns": ["id", "query"]}.get(spec["kind"], ["id", "host", "port"]):
        spec[field]


def main(arguments):
    options = {"--beat": 5.0, "--idle": 120.0}
    for name, value in zip(arguments[::2], arguments[1::2]):
        if name not in options:
            raise SystemExit("agent.py: unknown option %s" % name)
        options[name] = float(value)
    try:
        Agent(options["--beat"], options["--idle"]).run()
    except BrokenPipeError:
        os._exit(3)  # nobody reads any more
    except Exception as error:
        sys.stderr.write("agent.py: %s: %s\n" % (type(error).__name__, error))
        sys.exit(3)


if __name__ == "__main__":
    main(sys.argv[1:])
