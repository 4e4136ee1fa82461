"""Services of Kubernetes: which pods stand behind them, where they are reached, and whom pods call (M5.2). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from bridgehead.discovery.kube import Resource, inner, listed, quantity
from bridgehead.discovery.parsing import Statements
from bridgehead.discovery.tables import path_part

_NAME: Final = r"[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?"
# What stands before the @ of an address may be a password: it is left out.
_URL: Final = re.compile(rf"[a-z][a-z0-9+.-]{{0,20}}://(?:[^@/\s\"']{{0,500}}@)?({_NAME})(?::(\d{{1,5}}))?(?![\w.-])", re.I | re.A)
_INSIDE: Final = re.compile(r"(?<![\w.-])([a-z0-9-]{1,63}\.[a-z0-9-]{1,63}\.svc)(?:\.[a-z0-9.-]{1,100})?(?::(\d{1,5}))?", re.I | re.A)
_MOST_CHARS: Final = 4096
_MOST_CALLS: Final = 64
_MOST_TEXTS: Final = 500


def state_labels(say: Statements, subject: str, meta: dict[str, Any], *, line: int) -> None:
    """The labels by which services choose pods; of a template, or of a pod itself."""
    if labels := _pairs(inner(meta, "labels")):
        say.known(subject, "pod-labels", labels, line=line)


def state_calls(say: Statements, subject: str, containers: Sequence[dict[str, Any]], *, line: int) -> None:
    """Hosts that stand in addresses (``http://NAME``) and in names of services (``NAME.NAMESPACE.svc``) of settings and arguments.

    What settings from config maps and secrets say is not in the pod, so that this is no complete list.
    """
    found: set[str] = set()
    texts: list[str] = []
    for container in containers:
        texts += [one["value"] for one in listed(container, "env") if isinstance(one.get("value"), str)]
        for key in ("command", "args"):
            words = container.get(key)
            texts += [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
    for text in texts[:_MOST_TEXTS]:
        for pattern in (_URL, _INSIDE):
            for one in pattern.finditer(text[:_MOST_CHARS]):
                host = one[1].lower()
                inside = _INSIDE.fullmatch(host)
                found.add((inside[1] if inside else host) + (f":{one[2]}" if one[2] else ""))
    calls = sorted(one for one in found if one.partition(":")[0] not in ("localhost", "127.0.0.1"))
    if calls:
        say.known(subject, "calls", tuple(calls[:_MOST_CALLS]), line=line)


def state_service(say: Statements, resource: Resource) -> None:
    """One service."""
    subject = _subject(say, resource, "Service")
    if subject is None:
        return
    spec = inner(resource.values, "spec")
    line = resource.place("spec")
    kind = spec.get("type")
    say.known(subject, "service-type", kind if isinstance(kind, str) else "ClusterIP", line=resource.place("spec", "type"))
    if selector := _pairs(inner(spec, "selector")):
        say.known(subject, "selector", selector, line=resource.place("spec", "selector"))
    address = spec.get("clusterIP")
    if isinstance(address, str) and address and address != "None":
        say.known(subject, "cluster-address", address, line=resource.place("spec", "clusterIP"))
    if isinstance(name := spec.get("externalName"), str) and name:
        say.known(subject, "external-name", name, line=resource.place("spec", "externalName"))
    ports = [(quantity(one.get("port")), one.get("protocol", "TCP")) for one in listed(spec, "ports")]
    numbers = [number for number, _ in ports if isinstance(number, int)]
    if ports and len(numbers) == len(ports):
        say.known(subject, "ports", tuple(f"{number}/{protocol}" for number, protocol in ports), line=resource.place("spec", "ports"))
    outside = [one.get("ip") or one.get("hostname") for one in listed(resource.values, "status", "loadBalancer", "ingress")]
    addresses = spec.get("externalIPs")
    outside += addresses if isinstance(addresses, list) else []
    hosts = sorted({one for one in outside if isinstance(one, str) and one})
    if hosts:
        ends = [f"[{host}]:{number}" if ":" in host else f"{host}:{number}" for host in hosts for number in numbers]
        say.known(subject, "endpoints", tuple(ends or hosts), line=line)
    elif kind == "LoadBalancer":
        say.unknown(subject, "endpoints", line=line, note="its load balancer has no address yet")


def state_ingress(say: Statements, resource: Resource) -> None:
    """Addresses that lead to services, by the name of the ingress."""
    own = _subject(say, resource, "Ingress")
    if own is None:
        return
    space, _, name = own.removeprefix("service:").partition("/")
    spec = inner(resource.values, "spec")
    secure = {host for one in listed(spec, "tls") for host in (one.get("hosts") or [] if isinstance(one.get("hosts"), list) else [])}
    found: dict[str, set[str]] = {}
    for rule in listed(spec, "rules"):
        host = rule.get("host")
        for path in listed(rule, "http", "paths"):
            backend = inner(path, "backend")
            to = inner(backend, "service").get("name") or backend.get("serviceName")  # the latter before networking.k8s.io/v1
            if isinstance(host, str) and host and isinstance(to, str) and to:
                way = path.get("path") if isinstance(path.get("path"), str) else ""
                found.setdefault(to, set()).add(f"{'https' if host in secure else 'http'}://{host}{'' if way == '/' else way}")
    line = resource.place("spec", "rules")
    for to, addresses in found.items():
        say.known(f"service:{space}/{path_part(to)}", f"ingress:{name}", tuple(sorted(addresses)), line=line)
    if not found:
        say.skip(line, f"ingress {name} names no host and service together")


def _subject(say: Statements, resource: Resource, kind: str) -> str | None:
    meta = inner(resource.values, "metadata")
    name, space = meta.get("name"), meta.get("namespace") or "default"
    if not isinstance(name, str) or not name or not isinstance(space, str):
        say.skip(resource.place("metadata"), f"a {kind} without a name")
        return None
    return f"service:{path_part(space)}/{path_part(name)}"


def _pairs(labels: dict[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(f"{key}={value}" for key, value in labels.items() if isinstance(value, str)))


SERVICE: Final = (
    ("service-type", "", "ClusterIP, NodePort, LoadBalancer or ExternalName"),
    ("selector", "", "labels of the pods behind it, as KEY=VALUE"),
    ("cluster-address", "", "address within the cluster"),
    ("external-name", "", "name elsewhere that it stands for"),
    ("ports", "", "port and protocol"),
    ("endpoints", "", "addresses outside of the cluster, with ports"),
    ("ingress:*", "", "addresses that lead to it, by the name of the ingress"),
)
"""What is said of services."""
