# SPDX-License-Identifier: Apache-2.0
"""Forms of secrets in logs and objects, one per line, and texts that only look like secrets.

None of them was ever valid. They are put together here, so that no scanner of repositories takes
this file for a leak.
"""

from __future__ import annotations

import base64
import json

S = "Zq7" + "Lm2Vx9Rt4Kp1"
"""The part of a secret without a form of its own, which must be removed."""
HEX = "9f86d081884c7d65" + "9a2feaa0c55ad015"
LONG = S + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3cE5gI7kM"
B64 = base64.b64encode(f"robot:{S}".encode()).decode()
DOCKER = json.dumps({"auths": {"registry.example": {"username": "robot", "auth": B64}}})
DOCKER64 = base64.b64encode(DOCKER.encode()).decode()
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJub2RlIn0." + S
PEM = "MIIEpAIBAAKCAQEA7yzQbkMHT" + S

FORMS: dict[str, tuple[str, str]] = {
    # Issued by clouds and services.
    "EKS token": (f"token is k8s-aws-v1.aHR0cHM6Ly9zdHMu{S}", S),
    "AWS access key": ("used AKIA" + "IOSFODNN7EXAMPLE here", "IOSFODNN7EXAMPLE"),
    "AWS temporary key": ("used ASIA" + "IOSFODNN7EXAMPLE here", "IOSFODNN7EXAMPLE"),
    "AWS secret key by name": (f"aws_secret_access_key = {S}/+{S}", S),
    "AWS session token by name": (f"AWS_SESSION_TOKEN={LONG}//{S}", S),
    "AWS signed address": (f"GET /o?X-Amz-Credential=AKIA/x&X-Amz-Signature={HEX} 200", HEX),
    "AWS security token of an address": (f"GET /o?X-Amz-Security-Token={LONG}%2F&x=1", LONG),
    "Google access token": (f"sent ya29.a0Af{LONG}", S),
    "Google API key": (f"key AIza{LONG[:35]} refused", LONG[:35]),
    "Google refresh token": (f"got 1//0{LONG}", S),
    "Google client secret": (f"GOCSPX-{LONG[:28]}", LONG[:28]),
    "Azure storage key": (
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={LONG}==;E=x",
        S,
    ),
    "Azure SAS": (f"GET /c?sv=2022-11-02&sig={S}%2B{S}%3D&se=2026", S),
    "Azure shared access key": (f"SharedAccessKeyName=root;SharedAccessKey={LONG}=", S),
    "Azure client secret": (f"client_secret={S}~{S}", S),
    "Azure client secret by itself": ("azure said abc8Q~" + LONG[:34], LONG[:34]),
    "Vault token": (f"X-Vault-Token sent: hvs.CAES{LONG}", S),
    "Vault batch token": (f"login gave hvb.AAAAAQ{LONG}", S),
    "Vault token of old": (f"VAULT_TOKEN=s.{LONG[:24]}", LONG[:24]),
    "Slack token": ("to xox" + f"b-123456789012-123456789012-{LONG[:24]}", LONG[:24]),
    "Slack hook": ("https://hooks.slack.com/services/" + f"T0000/B0000/{LONG[:24]}", LONG[:24]),
    "GitHub token": (f"cloned with ghp_{LONG[:36]}", LONG[:36]),
    "GitHub fine-grained token": (f"cloned with github_pat_11AA_{LONG}", S),
    "GitLab token": (f"cloned with glpat-{LONG[:20]}", LONG[:20]),
    "GitLab runner": (f"registered glrt-{LONG[:20]}", LONG[:20]),
    "npm token": (f"npm_{LONG[:36]} expired", LONG[:36]),
    "npm configuration": (f"//registry.example/:_authToken={S}", S),
    "PyPI token": (f"pypi-AgEIcHlwaS5vcmc{LONG}", S),
    "Docker Hub token": (f"dckr_pat_{LONG[:27]}", LONG[:27]),
    "OpenShift token": (f"sha256~{LONG[:43]}", LONG[:43]),
    "kubeadm token": ("join with abcdef." + "0123456789abcdef", "0123456789abcdef"),
    "Stripe key": ("sk_" + f"live_{LONG[:24]}", LONG[:24]),
    "SendGrid key": (f"SG.{LONG[:22]}.{LONG[:43]}", LONG[:22]),
    "DigitalOcean token": (f"dop_v1_{HEX}{HEX}", HEX),
    "HashiCorp Cloud token": (f"used {LONG[:14]}.atlasv1.{LONG}", S),
    "Grafana token": (f"glsa_{LONG[:32]}_a1b2c3d4", LONG[:32]),
    "Sentry address": (f"https://{HEX}@o1.ingest.example/1", HEX),
    "age key": (f"AGE-SECRET-KEY-1{LONG.upper()[:58]}", S.upper()),
    "JSON web token": (f"sent {JWT}", S),
    "JSON web token in base64": (f"data {base64.b64encode(JWT.encode()).decode()}", "ZXlKaGJHY2lP"),
    # Headers.
    "bearer": (f"Authorization: Bearer {S}", S),
    "bearer, small letters": (f"authorization: bearer {S}", S),
    "basic": (f"Authorization: Basic {B64}", B64),
    "negotiate": (f"Authorization: Negotiate YII{LONG}", S),
    "other scheme": (f"Authorization: AWS4-HMAC-SHA256 Credential=x, Signature={HEX}", HEX),
    "proxy": (f"Proxy-Authorization: Digest response={S}", S),
    "header as JSON": (json.dumps({"Authorization": [f"Token {S}"]}), S),
    "cookie": (f"Cookie: theme=dark; session={S}", S),
    "cookie that is set": (f"Set-Cookie: sid={S}; Path=/; HttpOnly", S),
    "header with a key": (f"X-Api-Key: {S}", S),
    "header with a token": (f"X-Auth-Token: {S}", S),
    # Objects.
    "pull secret": (DOCKER, B64),
    "pull secret in base64": (f".dockerconfigjson: {DOCKER64}", DOCKER64),
    "pull secret in base64 by itself": (f"data {DOCKER64}", DOCKER64),
    "pull secret in JSON in JSON": (json.dumps({"a": DOCKER}), B64),
    "variable": (json.dumps({"name": "DB_PASSWORD", "value": S}), S),
    "variable, value first": (json.dumps({"value": S, "name": "DB_PASSWORD"}), S),
    "variable, value first, in YAML": (f"- value: {S}\n  name: DB_PASSWORD", S),
    "variable in JSON in JSON": (
        json.dumps({"a": json.dumps({"value": S, "name": "API_TOKEN"})}),
        S,
    ),
    "short password": ("password: pw1!", "pw1!"),
    "short password, quoted": ('"password": "abc"', "abc"),
    "password with blanks": (f'password: "correct horse {S} staple"', "horse"),
    "password with blanks, in JSON in JSON": (
        json.dumps({"a": json.dumps({"password": f"my {S} x"})}),
        S,
    ),
    "password with a quote": (json.dumps({"password": f'a"b{S}'}), S),
    "password in YAML, folded": (f"password: |\n  {S}\nuser: x", S),
    "certificate's key in base64": (
        "tls.key: LS0tLS1CRUdJTi" + base64.b64encode(PEM.encode()).decode(),
        "LS0tLS1CRUdJTi",
    ),
    "BGP password": (f"bgpPassword: {S}", S),
    "BIRD's password": (f'  password "{S}";', S),
    "BGP md5": (f"neighbor 10.0.0.1 password 7 {S}", S),
    "md5 key": (f"ip ospf message-digest-key 1 md5 {S}", S),
    "WireGuard key": (f"PrivateKey = {LONG[:43]}=", S),
    # Command lines and addresses.
    "option": (f"run --password={S} --v=3", S),
    "option, after a blank": (f"run --password {S} --v=3", S),
    "option, after a blank, quoted": (f"run --client-secret 'a {S}' --v=3", S),
    "option in a list": (json.dumps(["run", "--token", S, "--v=3"]), S),
    "short option of curl": (f"curl -u jane:{S} https://x", S),
    "short option of mysql": (f"mysql -uroot -p{S} db", S),
    "user in an address": (f"https://jane:{S}@registry.example/v2", S),
    "user in a DSN": (f"postgres://jane:{S}@db:5432/x", S),
    "address with a blank user": (f"redis://:{S}@cache:6379/0", S),
    "DSN without a scheme": (f"jane:{S}@tcp(10.0.0.5:3306)/db", S),
    "DSN by names": (f"host=db user=jane password={S} dbname=x", S),
    "DSN of .NET": (f"Server=db;User Id=jane;Pwd={S};Encrypt=yes", S),
    "file of passwords": (f"db.example:5432:app:jane:{S}", S),
    "PGPASSWORD": (f"PGPASSWORD={S} psql", S),
    "netrc": (f"machine x.example login jane password {S}", S),
    "query": (f"GET /x?access_token={S}&a=1", S),
    "key in a query": (f"GET /x?api_key={S}&a=1", S),
    # Keys.
    "private key": (f"-----BEGIN RSA PRIVATE KEY-----\n{PEM}\n-----END RSA PRIVATE KEY-----", S),
    "private key in one line": (
        json.dumps(f"-----BEGIN PRIVATE KEY-----\n{PEM}\n-----END PRIVATE KEY-----"),
        S,
    ),
    "private key that was cut": (f"-----BEGIN EC PRIVATE KEY-----\n{PEM}\n{PEM}", S),
    "private key of SSH": (
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PEM}\n-----END OPENSSH PRIVATE KEY-----",
        S,
    ),
    "hash of a password": ("root:$6$" + f"rounds=5000$abc${LONG}:19000:0", S),
    "hash of htpasswd": ("jane:$2y$05$" + LONG[:53], LONG[:53]),
    # Typed on Windows hosts, or in files of tunnels, directories and agents.
    "secure string": (f"ConvertTo-SecureString '{S}' -AsPlainText -Force", S),
    "secure string by name": (f'ConvertTo-SecureString -AsPlainText -Force -String "{S}"', S),
    "net user": (f"net user operator {S} /add", S),
    "net use": (f"net use Z: \\\\files\\share /user:operator {S}", S),
    "cmdkey": (f"cmdkey /add:files /user:operator /pass:{S}", S),
    "digest": (f'Authorization: Digest username="u", nonce="1", response="{S}"', S),
    "IPsec": (f'10.0.0.1 10.0.0.2 : PSK "{S}"', S),
    "LDAP": (f"bindpw {S}", S),
    "Redis": (f"requirepass {S}", S),
    "key of several parts": ("sk-" + f"ant-api03-{LONG}", LONG),
}
"""Map each form to a line that contains it, and the part of the line that must be removed."""

LOOKALIKES: dict[str, str] = {
    "image digest": f"registry.example/calico/node@sha256:{HEX}{HEX}",
    "image by tag": "mcr.microsoft.com/oss/kubernetes/windows-host-process-containers:v1.0.0",
    "container id": f"containerd://{HEX}{HEX}",
    "UID": "uid: 6f9619ff-8b86-d011-b42d-00cf4fc964ff",
    "UID in JSON": '"uid": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"',
    "HNS network": "HNS network 2E3F2F77-8A14-4F5A-9C3A-1B0A5E5B9F11 Calico Overlay",
    "HNS endpoint": '{"ID": "e0f1b2c3-4d5e-6f70-8192-a3b4c5d6e7f8", "State": 2}',
    "HNS policy": '"Type": "ACL", "Id": "API-all-pods-inbound", "Priority": 1000',
    "commit": f"commit {HEX}9f86d081",
    "short commit": "v3.31.2-14-g1d573b1b4c2f",
    "resource version": '"resourceVersion": "184467440737"',
    "ConfigMap in base64": "binaryData:\n  page: "
    + base64.b64encode(b"<html>hello windows</html>").decode(),
    "ConfigMap in base64, long": "page: " + base64.b64encode(b"calico-node " * 12).decode(),
    "pod": "calico-demo-763465-main/linux-client-1-2swln8gdg4-l46js",
    "ReplicaSet's hash": "pod-template-hash: 5d69dc4f9c",
    "checksum annotation": f"checksum/config: {HEX}{HEX}",
    "tigera hash": f"hash.operator.tigera.io/tigera-ca-private: {HEX[:40]}",
    "MAC addresses": "66:b5:4c:00:ff:1a 0E-2A-c0-a8-00-05",
    "addresses": "192.168.1.77:8080 -> 10.96.0.1:443, fd00::5, 10.0.20348.2762",
    "name of a Secret": "secretName: typha-certs",
    "reference to a Secret": '"secretKeyRef": {"name": "db", "key": "password"}',
    "reference to a pull secret": "imagePullSecrets: [{name: pull-me}]",
    "variable by reference": '{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db"}}}',
    "variable that is none": '{"name": "FELIX_LOGSEVERITYSCREEN", "value": "info"}, {"name": "X"}',
    "variable beside a named one": '{"name": "A", "value": ""}, {"name": "TOKEN", "valueFrom": {}}',
    "automount": '"automountServiceAccountToken": false',
    "token's path": "/var/run/secrets/kubernetes.io/serviceaccount/token",
    "token's expiry": "expirationSeconds: 3607",
    "event about a token": "MountVolume.SetUp failed: failed to fetch token: the node is not ready",
    "audit of a token": "tokens: 4 of them were refused, none expired",
    "no token": "token: null",
    "key by name": "key: node.kubernetes.io/not-ready",
    "keys of a label": "matchExpressions: [{key: os, operator: In, values: [windows]}]",
    "toleration": "{effect: NoSchedule, key: os, value: windows}",
    "author": "author: jane, authority: cluster, authorization: none asked",
    "authorization mode": "--authorization-mode=Node,RBAC --secure-port=6443",
    "sentence": "the password is in the vault; a password may be short",
    "passing": "4 passed, 2 skipped; bypass: none; compass: north",
    "Bearer as a word": "no bearer of this name, basic checks passed",
    "Windows path": "C:\\CalicoWindows\\logs\\calico-node.log",
    "test": "suites/policy/test_ports.py::test_range[windows-2019]",
    "date": "2026-11-29T07:09:23.123456789Z",
    "policy": "default/knp.default.allow-dns is active, md5 is not asked",
    "cookie as a word": "session affinity ClientIP keeps no cookie",
    "Calico's expression": "selector: has(projectcalico.org/namespace) && !has(token-free)",
    "signature as a word": "sig=windows is a group, X-Amz is none",
    "e-mail": "maintained by jane@example.org and team@example.org",
    "time in a log": "2026-11-29 07:09:23.123 [INFO][42] felix/int_dataplane.go 123: ready",
    "command": "kubectl -n calico-system logs calico-node-7xk2p -c felix -p",
    "port mapping": "docker run -p 8080:80 -u 1000:1000 nginx",
    "net use without a password": "net use Z: \\\\files\\share /user:operator /persistent:no",
    "net user alone": "net user operator /domain; net user",
    "net as a word": "net user traffic: 5 MB, the net uses /26 blocks",
    "digest as a word": "digest mismatch of layer, digest sha256 of image",
    "psk as a word": "WPA2-PSK is not asked, PSK none",
}
"""Texts that must stay as they are."""
