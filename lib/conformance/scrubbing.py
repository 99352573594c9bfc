# SPDX-License-Identifier: Apache-2.0
"""Removes texts that look like secrets, so that logs and objects can be passed on.

The rules are the suite's own (docs/decisions): scanners of repositories search for other forms, and
take image digests and UIDs for secrets. Each form has a line in
tests/unit/conformance/secret_forms.py.
"""

import base64
import re

HIDDEN = "(removed)"
_QUOTE = r"(?:\\*(?:[\"']|&(?:#3[49]|#x2[27]|quot|apos);))?"
"""Matches a quotation mark in text, JSON, HTML, and JSON inside these."""
_QUOTED = (
    r"(?P<open>\\*(?:[\"']|&(?:#3[49]|#x2[27]|quot|apos);))(?!\(removed\))"
    r"(?P<secret>(?:(?!(?<!\\)(?P=open))[^\n]){1,2000})(?<!\\)(?P=open)"
)
"""Matches a value up to the next quotation mark of the same form as its first.

No group is repeated possessively (``+`` behind ``}``) here: Python before 3.11.5 matches such
groups wrongly (CPython issue 106052).
"""
_BARE = r"(?P<secret>(?!null|true|false|\(removed\))[^\s\"'\\,;}\])&<{\[(][^\s\"'\\,;}\])&<]*)"
_GAP = r"(?:\s|\\+[nr]|&#1[03];)"
_BEGINS = r"(?:^|(?<=\\n)|(?<=&#10;))"
"""Matches the beginning of a line, also of a text inside JSON or HTML."""
_NAME = (
    r"[acekpstACEKPST](?i:(?<=p)ass(?:word|wd|phrase)|(?<=t)oken|(?<=s)ecret(?:[-_.]?key)?"
    r"|(?<=c)(?:redentials?|aBundle|a[-.](?:data|crt)|ertificate-data|lient-key)"
    r"|(?<=p)r(?:ivate|e[-_.]?shared)[-_.]?key|(?<=a)(?:pi|ccess|ccount)[-_.]?key"
    r"|(?<=s)(?:as|igning|hared)[-_.]?key|(?<=e)ncryption[-_.]?key|(?<=k)ey-data"
    r"|(?<=a)uthority-data|(?<=t)ls\.(?:key|crt))(?:[-_]?\d{1,2})?"
)
"""Matches the end of a name whose value is secret."""
_NAMES = ("pass", "token", "secret", "credential", "key", "-data", "cabundle", ".crt")
"""Every name that :data:`_NAME` matches contains one of these words. Searching for them first is
ten times as fast."""
_PROSE = r"(?!(?-i:[a-z]+) +(?-i:[a-z]))"
"""Matches unless the value is the beginning of a sentence, as in ``token: the node is not ready``.
"""


def _rule(hints: str | tuple[str, ...], pattern: str) -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Return a rule. If a text has none of its hints (in lower case), the rule need not be
    tried."""
    return (hints,) if isinstance(hints, str) else hints, re.compile(pattern, re.MULTILINE)


_RULES = (
    # A value next to its name.
    _rule(
        "name",
        rf"name{_QUOTE}: ?{_QUOTE}[\w.-]{{0,60}}?{_NAME}{_QUOTE},?(?:{_GAP}|-)*{_QUOTE}value"
        rf"{_QUOTE}: ?{_QUOTED}",
    ),
    _rule(
        "name",
        rf"name{_QUOTE}: ?{_QUOTE}[\w.-]{{0,60}}?{_NAME}{_QUOTE},?(?:{_GAP}|-)*{_QUOTE}value"
        rf"{_QUOTE}: ?{_QUOTE}{_BARE}",
    ),
    _rule(
        "name",
        rf"\bvalue{_QUOTE}: ?{_QUOTED},?(?:{_GAP}|-)*{_QUOTE}name{_QUOTE}: ?{_QUOTE}[\w.-]{{0"
        rf",60}}?{_NAME}(?![\w.-])",
    ),
    _rule("name", rf"\bvalue: {_BARE}{_GAP}+name: ?{_QUOTE}[\w.-]{{0,60}}?{_NAME}(?![\w.-])"),
    _rule(_NAMES, rf"{_NAME}{_QUOTE}\s*[:=]\s*{_QUOTED}"),
    _rule(
        _NAMES,
        rf"{_BEGINS}[ \t-]*\w{{0,40}}?{_NAME}: *[|>][-+]?\n(?P<secret>(?:[ \t]+\S[^\n]*\n?)+)",
    ),
    _rule(
        _NAMES,
        rf"{_BEGINS}[ \t]*(?:- )?\w{{0,40}}?{_NAME}: +(?!null$|true$|false$|[\"'|>{{\[(&*])(?"
        rf"P<secret>[^\s#<\\][^\n<\\]*)",
    ),
    _rule(_NAMES, rf"{_NAME}{_QUOTE}\s*[:=]\s*{_QUOTE}{_PROSE}(?=[^\s\"'\\,;}}\])&<]{{6}}){_BARE}"),
    _rule(
        "pass",
        rf"(?i:pass(?:word|wd|phrase))\d?{_QUOTE}\s*[:=] *{_QUOTE}{_BARE}(?=\s*(?:$|[,;}}\])&"
        rf"\"'\\]))",
    ),
    _rule("pwd", rf"(?<![A-Za-z_])[Pp]wd\s*=\s*{_QUOTE}(?!/){_BARE}"),
    _rule("auth", rf"(?<![\w-])_?auth\\*(?:[\"']|&(?:#3[49]|#x2[27]|quot|apos);)\s*:\s*{_QUOTED}"),
    _rule("_auth", rf"(?<!\w)_auth\s*=\s*{_QUOTE}{_BARE}"),
    # Headers.
    _rule("digest", r"(?i:\bdigest) (?P<secret>[a-z]+=[^\n<]{16,})"),
    _rule(
        "authorization",
        rf"(?i:authorization){_QUOTE}\s*[:=]\s*+(?:\[\s*+)?{_QUOTE}(?P<secret>(?:[\w-]{{2,20}} +)?["
        rf"^\s\"'\\&<(]{{8,}}[^\"'\n\\<]*)",
    ),
    _rule(
        "cookie",
        rf"(?i:cookie2?){_QUOTE}\s*:\s*+(?:\[\s*+)?{_QUOTE}(?P<secret>[^\"'\n\\<=]{{0,200}}=[^\"'\n"
        rf"\\<]*)",
    ),
    _rule("bearer", r"(?i:bearer) (?P<secret>[\w.~+/=-]{8,})"),
    _rule("basic", r"(?i:basic) (?P<secret>(?=\S*[\dA-Z=])[A-Za-z0-9+/=]{8,})"),
    _rule("negotiate", r"(?i:negotiate|ntlm) (?P<secret>[A-Za-z0-9+/=]{16,})"),
    # Command lines, addresses, files of passwords.
    _rule("--", rf"(?<![\w-])--[\w-]{{0,40}}?{_NAME}(?:\s+|{_QUOTE},?\s*){_QUOTED}"),
    _rule("--", rf"(?<![\w-])--[\w-]{{0,40}}?{_NAME}\s+(?!-){_BARE}"),
    _rule(
        "curl",
        rf"\bcurl\b[^\n|;]{{0,300}}?\s(?:-u|--user)[ =]?{_QUOTE}[^\s:\"']+:(?P<secret>[^\s\"'"
        rf"\\]+)",
    ),
    _rule("-p", r"\b(?:mysql\w*|mariadb\w*|sshpass)\b[^\n|;]{0,300}? -p(?P<secret>[^\s\"'\\]+)"),
    _rule("://", r"(?<=://)(?P<secret>[^/\s\"'<>:@]*:[^/\s\"'<>]+|[\w.~+-]{20,})(?=@)"),
    _rule(
        "@",
        r"(?<![\w/])[\w.-]{1,100}+:(?P<secret>[^\s:@/\"'<>]+)@(?:(?:tcp|udp|unix)\(|[\w.-]+:\d{2,5}"
        r"\b|[\w.-]+/\w)",
    ),
    _rule(
        ":",
        r"^[ \t]*(?:localhost|\*|[\w-]+(?:\.[\w-]+)+):(?:\d{4,5}|\*):[\w*-]+:[\w.*-]+:(?P<se"
        r"cret>\S+)$",
    ),
    _rule(
        ("sig", "key"),
        r"(?i:[?&;]|&amp;|\\u0026)(?i:sig|signature|x-(?:amz|goog)-(?:signature|credential)|"
        r"key)=(?P<secret>[^&\s\"'\\<]{6,})",
    ),
    _rule("password", rf"(?i:\bpass(?:word|phrase)) +{_QUOTED}"),
    _rule(
        "password",
        r"(?i:\b(?:login|user(?:name)?|neighbor|peer|bgp) +\S+ +(?:\w+ +){0,2}?password) +(?"
        r":\d +)?(?P<secret>[^\s\"'\\;]+)",
    ),
    _rule("password", r"^[ \t]*password +(?P<secret>[^\s\"';]+)[ \t;]*$"),
    _rule(
        "md5",
        r"(?i:message-digest-key|neighbor|authentication)[^\n]{0,40}?\bmd5 +(?:\d +)?(?P<sec"
        r"ret>[^\s\"'\\;]+)",
    ),
    _rule(
        "$",
        r"\$(?:[156]|2[abxy]|y|apr1|argon2\w{1,2}|scrypt|pbkdf2[\w-]*)\$(?P<secret>[^\s:\"'"
        r"\\<]{8,})",
    ),
    # Windows' own commands, and files of tunnels, directories and agents.
    _rule("securestring", rf"(?i:ConvertTo-SecureString)[^\n|;]{{0,80}}? {_QUOTED}"),
    _rule("net", r"(?i:\bnet1?(?:\.exe)? +user +[^\s/:]+) +(?P<secret>[^\s/*\"'<][^\s\"'<]*)"),
    _rule("/user:", r"(?i:/user:[^\s]+) +(?P<secret>[^\s/*\"'<][^\s\"'<]*)"),
    _rule("/pass:", r"(?i:/pass:)(?P<secret>[^\s\"'<]+)"),
    _rule("psk", rf"\bPSK +{_QUOTED}"),
    _rule("bindpw", r"(?i:\bbindpw)(?::| ) *(?P<secret>[^\s\"'\\<]+)"),
    _rule("requirepass", r"\b(?:requirepass|masterauth) +(?P<secret>[^\s\"'\\<]+)"),
    # Secrets that are recognised by their own form, without a name.
    _rule(
        "-----begin",
        (
            r"-----BEGIN [A-Z0-9 ]+-----(?:(?:(?!-----)[^\"'<]){0,8000}-----END [A-Z0-9 ]+-----"
            rf"|(?:{_GAP}+[A-Za-z0-9+/=]{{16,}})*)"
        ),
    ),  # the second alternative matches a key that was cut off
    _rule("ls0tls1crudjti", r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]*"),
    _rule("eyj", r"eyJ[\w-]{8,2000}\.[\w-]{4,}(?:\.[\w-]*)?"),  # a JSON web token
    _rule("zxlk", r"ZXlK[A-Za-z0-9+/=]{20,}"),  # a JSON web token in base64
    _rule("sha256~", r"sha256~[\w-]{20,}"),  # tokens of OpenShift
    _rule(".", r"(?:(?<![a-z0-9])|(?<=\\n))[a-z0-9]{6}\.[a-z0-9]{16}(?![a-z0-9])"),  # of kubeadm
    _rule(("akia", "asia"), r"(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    _rule("k8s-aws-v1.", r"k8s-aws-v1\.[\w-]+"),
    _rule("ya29.", r"\bya29\.[\w.-]{10,}"),
    _rule("aiza", r"\bAIza[\w-]{30,}"),
    _rule("1//0", r"\b1//0[\w-]{20,}"),
    _rule("gocspx-", r"GOCSPX-[\w-]{16,}"),
    _rule("q~", r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{30,36}"),  # secrets of Entra
    _rule(("hvs.", "hvb.", "hvr."), r"\bhv[sbr]\.[\w-]{20,}"),
    _rule("s.", r"(?<![\w.-])s\.(?=\w*\d)(?=\w*[A-Z])[A-Za-z0-9]{24}\b"),  # older tokens of Vault
    _rule(".atlasv1.", r"\w{14}\.atlasv1\.[\w-]{20,}"),
    _rule(("xox", "xapp"), r"\b(?:xox[a-z](?:\.xox[a-z])?|xapp-\d)-[\w-]{10,}"),
    _rule(
        ("hooks.", "webhook"),
        r"(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks|webh"
        r"ook\.office\.com/webhookb2)/(?P<secret>[^\s\"'<\\]+)",
    ),
    _rule(
        ("gh", "gl"),
        r"\b(?:gh[pousr]|github_pat|gl[a-z]{2,7})[_-](?=[\w-]{0,255}\d)\w[\w+/=-]{19,}",
    ),
    _rule("npm_", r"\bnpm_\w{30,}"),
    _rule("pypi-", r"\bpypi-[\w-]{16,}"),
    _rule("dckr_", r"\bdckr_[a-z]{3}_[\w-]{20,}"),
    _rule(
        ("sk", "rk"),
        r"(?<![\w-])(?:[srp]k_(?:live|test)_\w{16,}|sk-(?:[a-z]+\d*-){0,3}[A-Za-z0-9_]{20,}[\w-]"
        r"*|SK[0-9a-f]{32})",
    ),
    _rule("sg.", r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    _rule("_v1_", r"\bdo[opr]_v1_[0-9a-f]{64}"),
    _rule("age-secret-key-", r"AGE-SECRET-KEY-1[A-Z0-9]{20,}"),
    _rule(
        ("hf_", "dapi", "lin_api_", "nrak-", "atatt3", "tskey-", "shp"),
        r"\b(?:hf_\w{30,}|dapi[0-9a-f]{32}|lin_api_\w{20,}|NRAK-\w{20,}|ATATT3[\w=-]{20,}|ts"
        r"key-[a-z]+-[\w-]{10,}|shp[a-z]{2}_[0-9a-f]{32})",
    ),
    _rule(":aa", r"\b\d{8,10}:AA[\w-]{30,}"),  # tokens of Telegram
)
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/]{32,}={0,2}(?![\w+/=-])")


def scrubbed(text: str) -> str:
    """Return a text without everything that looks like a secret, also inside base64."""
    text = _BASE64.sub(_hidden_in_base64, text)
    lower = text.lower()
    for hints, pattern in _RULES:
        if any(hint in lower for hint in hints):
            text = pattern.sub(_hidden, text)
    return text


def _hidden(found: re.Match[str]) -> str:
    begin, end = found.span("secret" if "secret" in found.re.groupindex else 0)
    before = begin - found.start()
    after = end - found.start()
    return f"{found[0][:before]}{HIDDEN}{found[0][after:]}"


def _hidden_in_base64(found: re.Match[str]) -> str:
    """Return base64 text unchanged, unless it encodes a text with a secret."""
    try:
        text = base64.b64decode(found[0] + "=" * (-len(found[0]) % 4), validate=True).decode()
    except ValueError:
        return found[0]
    return found[0] if scrubbed(text) == text else HIDDEN
