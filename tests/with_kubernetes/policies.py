"""NetworkPolicies on a node of the tests' cluster, whose network enforces none: stands in for a network that does, by
rules of the kernel, until it is killed.

Knows what our manifests use: pods by their labels, namespaces, TCP ports. Anything else ends it, so that no test passes
beside a policy that has no effect. What a node itself sends to its pods is let through, as everywhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import kubernetes

CHAINS = {"Ingress": "POLICY-INGRESS", "Egress": "POLICY-EGRESS"}
# Packets to pods and to other nodes, and those of pods to their own node.
HOOKS = (("FORWARD", "Ingress"), ("FORWARD", "Egress"), ("INPUT", "Egress"))
LOOK_S = 0.2


class UnknownPolicyError(Exception):
    """A policy uses what is not enforced here."""


def only(part: dict[str, Any], *known: str) -> dict[str, Any]:
    """The part. Raises UnknownPolicyError if there is more in it than that."""
    if unknown := set(part) - set(known):
        raise UnknownPolicyError(f"not enforced here: {', '.join(sorted(unknown))} in {json.dumps(part)}")
    return part


def selects(selector: dict[str, Any], thing: dict[str, Any]) -> bool:
    """Whether an object has the labels."""
    labels = thing["metadata"].get("labels") or {}
    wanted = only(selector, "matchLabels").get("matchLabels") or {}
    return all(labels.get(name) == value for name, value in wanted.items())


class Rules:
    """What follows from the objects that a cluster has."""

    def __init__(self, policies: list[Any], pods: list[Any], namespaces: list[Any]) -> None:
        self._policies = policies
        self._pods = [
            pod
            for pod in pods
            # An address may have been given to another pod since.
            if pod["status"].get("podIP") and pod["status"]["phase"] in ("Pending", "Running")
        ]
        self._namespaces = {namespace["metadata"]["name"]: namespace for namespace in namespaces}

    def text(self) -> str:
        """For iptables-restore."""
        lines = ["*filter", *(f":{chain} - [0:0]" for chain in CHAINS.values())]
        for direction, chain in CHAINS.items():
            lines.append(f"-A {chain} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN")
            for pod in self._pods:
                lines += [f"-A {chain} {rule}" for rule in self._of(pod, direction)]
        return "\n".join([*lines, "COMMIT", ""])

    def _of(self, pod: Any, direction: str) -> Iterator[str]:
        policies = [policy for policy in self._policies if self._applies(policy, pod, direction)]
        own, other = ("-d", "-s") if direction == "Ingress" else ("-s", "-d")
        address = f"{own} {pod['status']['podIP']}"
        for policy in policies:
            for rule in policy["spec"].get(direction.lower()) or ():
                only(rule, "from" if direction == "Ingress" else "to", "ports")
                peers = rule.get("from") or rule.get("to")
                names = policy["metadata"]["namespace"]
                addresses = [""] if not peers else [f" {other} {a}" for p in peers for a in self._peers(p, names)]
                for port in self._ports(rule, pod, direction):
                    yield from (f"{address}{peer}{port} -j RETURN" for peer in addresses)
        if policies:
            yield f"{address} -j DROP"

    @staticmethod
    def _applies(policy: Any, pod: Any, direction: str) -> bool:
        spec = only(policy["spec"], "podSelector", "policyTypes", "ingress", "egress")
        same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
        return same and direction in spec["policyTypes"] and selects(spec["podSelector"], pod)

    def _peers(self, peer: dict[str, Any], own: str) -> Iterator[str]:
        only(peer, "podSelector", "namespaceSelector")
        for pod in self._pods:
            place = pod["metadata"]["namespace"]
            if "namespaceSelector" in peer:
                there = selects(peer["namespaceSelector"], self._namespaces[place])
            else:
                there = place == own
            if there and selects(peer.get("podSelector", {}), pod):
                yield pod["status"]["podIP"]

    @staticmethod
    def _ports(rule: dict[str, Any], pod: Any, direction: str) -> Iterator[str]:
        if not rule.get("ports"):
            yield ""
        for port in rule.get("ports") or ():
            number = only(port, "port", "protocol").get("port")
            if port.get("protocol", "TCP") != "TCP" or number is None:
                raise UnknownPolicyError(f"not enforced here: {json.dumps(port)}")
            if isinstance(number, str):
                if direction == "Egress":
                    raise UnknownPolicyError(f"not enforced here: a port's name among those to go to, {number}")
                named = [p for c in pod["spec"]["containers"] for p in c.get("ports", ()) if p.get("name") == number]
                yield from (f" -p tcp --dport {p['containerPort']}" for p in named)
            else:
                yield f" -p tcp --dport {number}"


class Network:
    """Looks at the cluster, again and again, and changes the node's rules."""

    def __init__(self) -> None:
        kubernetes.config.load_kube_config(os.environ["KUBECONFIG"])
        self._core, self._networking = kubernetes.client.CoreV1Api(), kubernetes.client.NetworkingV1Api()
        self._last = ""
        self._restore(Rules([], [], []).text())
        for hook, direction in HOOKS:
            subprocess.run(["iptables", "-w", "5", "-I", hook, "-j", CHAINS[direction]], check=True)

    def look(self) -> None:
        """Raises UnknownPolicyError."""
        policies = self._items(self._networking.list_network_policy_for_all_namespaces)
        pods = self._items(self._core.list_pod_for_all_namespaces)
        text = Rules(policies, pods, self._items(self._core.list_namespace)).text()
        if text != self._last:
            self._restore(text)

    @staticmethod
    def _items(question: Any) -> list[Any]:
        # As text, because the client's own objects take a hundred times as long.
        return json.loads(question(_preload_content=False, _request_timeout=5).data)["items"]

    def _restore(self, text: str) -> None:
        subprocess.run(["iptables-restore", "-w", "5", "--noflush"], input=text, text=True, check=True)
        self._last = text


def main() -> None:
    """A question that fails, as while the node's network is cut, is asked again."""
    network = Network()
    print("ready", flush=True)
    while True:
        try:
            network.look()
        except (kubernetes.client.ApiException, kubernetes.client.rest.urllib3.exceptions.HTTPError) as error:
            print(" ".join(str(error).split()), flush=True)
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
