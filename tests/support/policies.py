"""What our manifests promise beyond their schemas. Each policy yields one line for each broken promise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple
from unittest import mock

from pydantic import SecretStr

from backscroll.flows.settings.settings import Settings, SettingsError, load_settings
from support.manifests import Object, name

Objects = Sequence[Object]
Policy = Callable[[Objects], Iterator[str]]
ENGINE = {"app.kubernetes.io/name": "backscroll", "app.kubernetes.io/component": "engine"}
_NOT_SETTINGS = {"BACKSCROLL_PROCESS_ID", "BACKSCROLL_ADDRESSES"}  # of the command line alone
_WRITABLE_ROOT = {"Deployment/kafka"}  # of overlays/dev alone: a broker to play with


def confined(objects: Objects) -> Iterator[str]:
    """Pods keep to the restricted standard, write to no image, and hold no token of the cluster."""
    for owner, pod in pods(objects):
        expected: dict[str, Any] = {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext.runAsNonRoot": True,
            "securityContext.seccompProfile.type": "RuntimeDefault",
        }
        yield from _differences(owner, pod, expected)
        if not _get(pod, "securityContext.runAsUser"):
            yield f"{owner}: securityContext.runAsUser has to be a number above 0"
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(field):
                yield f"{owner}: {field}"
        for volume in pod.get("volumes", ()):
            if "hostPath" in volume:
                yield f"{owner}: volume {volume['name']} is a path of the node"
            if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
                yield f"{owner}: volume {volume['name']} has no sizeLimit"
        for container in _containers(pod):
            expected = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
            if owner not in _WRITABLE_ROOT:
                expected["readOnlyRootFilesystem"] = True
            where = f"{owner}: container {container['name']}"
            yield from _differences(where, container.get("securityContext", {}), expected)
    for found in _of(objects, "ServiceAccount"):
        yield from _differences(name(found), found, {"automountServiceAccountToken": False})
    for found in _of(objects, "Namespace"):
        label = found["metadata"]["labels"].get("pod-security.kubernetes.io/enforce")
        if label != "restricted":
            yield f"{name(found)}: pod security is {label}, not restricted"


def bounded(objects: Objects) -> Iterator[str]:
    """Every container asks for what it needs and has a limit; images have a version; servers have probes."""
    for owner, pod in pods(objects):
        for container in _containers(pod):
            where = f"{owner}: container {container['name']}"
            for kind in ("requests", "limits"):
                missing = {"cpu", "memory"} - container.get("resources", {}).get(kind, {}).keys()
                yield from (f"{where}: no {kind} of {what}" for what in sorted(missing))
            tag = container["image"].rpartition("/")[2].partition(":")[2]
            if tag in ("", "latest"):
                yield f"{where}: image {container['image']} has no version"
        if not owner.startswith(("Job/", "Pod/")):  # those run to their end
            for container in pod["containers"]:
                yield from _probes(f"{owner}: container {container['name']}", container)


def _probes(where: str, container: Object) -> Iterator[str]:
    ports = _ports([container])
    for kind in ("livenessProbe", "readinessProbe"):
        probe = container.get(kind)
        if probe is None:
            yield f"{where}: no {kind}"
        elif next(iter(action["port"] for action in probe.values() if isinstance(action, dict))) not in ports:
            yield f"{where}: {kind} asks a port that the container does not name"


def engine(objects: Objects) -> Iterator[str]:
    """The StatefulSet is what a Bytewax dataflow with its state on a disk needs."""
    (found,) = (one for one in _of(objects, "StatefulSet") if one["metadata"]["name"] == "backscroll")
    spec, pod = found["spec"], found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    expected = {"podManagementPolicy": "Parallel", "updateStrategy.type": "OnDelete"}
    yield from _differences("engine", spec, expected)
    probes = {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    for probe, path in probes.items():
        yield from _differences("engine", container, {f"{probe}.httpGet.path": path})
    (service,) = (one for one in _of(objects, "Service") if one["metadata"]["name"] == spec["serviceName"])
    expected = {"clusterIP": "None", "publishNotReadyAddresses": True}
    yield from _differences(name(service), service["spec"], expected)
    values, _ = environment(objects, container)
    settings = _settings(values)
    if isinstance(settings, str):
        return
    if pod["terminationGracePeriodSeconds"] <= settings.llm_timeout:
        yield f"engine: it may be killed in a call of a language model, {settings.llm_timeout:g} s"
    for variable in values:
        if variable.startswith("BYTEWAX_"):
            yield f"engine: {variable} opens Bytewax's own server, or is read by nothing"
    for scaler in (*_of(objects, "HorizontalPodAutoscaler"), *_of(objects, "ScaledObject")):
        if scaler["spec"]["scaleTargetRef"]["name"] == "backscroll":
            yield f"{name(scaler)}: the dataflow cannot be scaled while it runs"
    if not settings.http_port or settings.http_port not in _numbers(container):
        yield f"engine: it serves on {settings.http_port}, which is no port of its container"
    if settings.http_host != "0.0.0.0":
        yield f"engine: probes cannot reach {settings.http_host}"
    yield from _recovery(spec, container, settings, values)


def _numbers(container: Object) -> set[int]:
    return {port["containerPort"] for port in container.get("ports", ())}


def _recovery(
    spec: Object, container: Object, settings: Settings, values: Mapping[str, str]
) -> Iterator[str]:
    pod, directory = spec["template"]["spec"], str(settings.recovery)
    disks = {
        claim["metadata"]["name"]: claim["spec"]["accessModes"]
        for claim in spec.get("volumeClaimTemplates", ())
    }
    mounts = {
        mount["name"] for mount in container["volumeMounts"] if directory.startswith(mount["mountPath"])
    }
    replicas, workers = spec["replicas"], _workers(container)
    if max(replicas, workers) > settings.recovery_partitions:
        yield f"engine: more processes than the {settings.recovery_partitions} recovery partitions"
    if replicas > 1:
        yield from _cluster(replicas, workers, settings, values)
    if not mounts & disks.keys():
        yield f"engine: {directory} is on no disk of its own"
    makes = [one["args"] for one in pod.get("initContainers", ())]
    wanted = ["recovery", "init", directory, "--parts", str(settings.recovery_partitions)]
    if replicas > 1:  # each pod makes its own
        wanted += ["--process-id", "$(BACKSCROLL_PROCESS_ID)", "--processes", str(replicas)]
    if wanted not in makes:
        yield f"engine: no init container runs `{' '.join(wanted)}`"


def _cluster(replicas: int, workers: int, settings: Settings, values: Mapping[str, str]) -> Iterator[str]:
    if "://" not in (settings.store or ""):
        yield "engine: several pods need a store they share, in an object store"
    if workers > 1:
        yield "engine: --workers and --addresses exclude each other"
    addresses = values.get("BACKSCROLL_ADDRESSES", "").split(",")
    if len(addresses) != replicas:
        yield f"engine: {len(addresses)} addresses for {replicas} pods"
    if [address.partition(".")[0] for address in addresses] != [f"backscroll-{n}" for n in range(replicas)]:
        yield "engine: the addresses are not those of its pods, in their order"
    if values.get("BACKSCROLL_PROCESS_ID") != "metadata.labels['apps.kubernetes.io/pod-index']":
        yield "engine: BACKSCROLL_PROCESS_ID is not the pod's number"


def sized(objects: Objects) -> Iterator[str]:
    """The history that the engine's processes may hold takes at most half of their container's memory."""
    (found,) = (one for one in _of(objects, "StatefulSet") if one["metadata"]["name"] == "backscroll")
    (container,) = found["spec"]["template"]["spec"]["containers"]
    settings = _settings(environment(objects, container)[0])
    limit = _get(container, "resources.limits.memory")
    if isinstance(settings, str) or limit is None:
        return
    workers, room = _workers(container), _mebibytes(limit)
    if workers * settings.history_mb > room // 2:
        yield (
            f"engine: {workers} x {settings.history_mb} MB of history_mb"
            f" is more than half of its memory limit, {room} MB"
        )


def _workers(container: Object) -> int:
    args = container["args"]
    return int(args[args.index("--workers") + 1]) if "--workers" in args else 1


def _mebibytes(quantity: str) -> int:
    return int(quantity[:-2]) * {"Mi": 1, "Gi": 1024}[quantity[-2:]]


def configured(objects: Objects) -> Iterator[str]:
    """The engine's variables are settings that fit together, and no secret stands in plain text."""
    for owner, pod in pods(objects):
        for container in _containers(pod):
            values, secrets = environment(objects, container)
            for variable in sorted(values.keys() - secrets):
                if _is_secret(variable):
                    yield f"{owner}: {variable} is a secret in plain text"
            if owner == "StatefulSet/backscroll" and container in pod["containers"]:
                settings = _settings(values)
                if isinstance(settings, str):
                    yield f"{owner}: {settings}"


def _is_secret(variable: str) -> bool:
    field = Settings.model_fields.get(variable.removeprefix("BACKSCROLL_").lower())
    if field is not None and variable.startswith("BACKSCROLL_"):
        return SecretStr in getattr(field.annotation, "__args__", (field.annotation,))
    return any(word in variable for word in ("TOKEN", "PASSWORD", "SECRET", "ACCESS_KEY"))


def _settings(values: Mapping[str, str]) -> Settings | str:
    ours = {
        variable: value
        for variable, value in values.items()
        if variable.startswith("BACKSCROLL_") and variable not in _NOT_SETTINGS
    }
    with mock.patch.dict(os.environ, ours, clear=True):
        try:
            return load_settings({})
        except SettingsError as err:
            return str(err)


def environment(objects: Objects, container: Object) -> tuple[dict[str, str], set[str]]:
    """The variables of a container, and which of them come from a Secret; a field is its path."""
    maps = {found["metadata"]["name"]: found.get("data", {}) for found in _of(objects, "ConfigMap")}
    values: dict[str, str] = {}
    secrets = set()
    for source in container.get("envFrom", ()):
        values |= maps.get(source.get("configMapRef", {}).get("name"), {})
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {})
        values[variable["name"]] = (
            variable.get("value") or _get(reference, "fieldRef.fieldPath") or "from-secret"
        )
        if "secretKeyRef" in reference:
            secrets.add(variable["name"])
    return values, secrets


def connected(objects: Objects) -> Iterator[str]:
    """What an object names exists: claims, maps, services, ports, what is selected, monitored and scaled."""
    yield from _mounted(objects)
    names = {name(found) for found in objects}
    templates = [template for template in map(_template, objects) if template is not None]
    services = _of(objects, "Service")
    for service in services:
        chosen = [one for one in templates if selects({"matchLabels": service["spec"]["selector"]}, one)]
        ports = {port for one in chosen for port in _ports(one["spec"]["containers"])}
        for port in service["spec"]["ports"]:
            if port["targetPort"] not in ports:
                yield f"{name(service)}: no pod has its port {port['targetPort']}"
    for monitor in _of(objects, "ServiceMonitor"):
        chosen = [service["spec"] for service in services if selects(monitor["spec"]["selector"], service)]
        for endpoint in monitor["spec"]["endpoints"]:
            if endpoint["port"] not in _ports(chosen):
                yield f"{name(monitor)}: no Service has its port {endpoint['port']}"
    for found in _of(objects, "PodDisruptionBudget"):
        yield from _differences(name(found), found["spec"], {"maxUnavailable": 1})
        if not any(selects(found["spec"]["selector"], one) for one in templates):
            yield f"{name(found)}: it protects no pod"
    for found in _of(objects, "ScaledObject"):
        if f"Deployment/{found['spec']['scaleTargetRef']['name']}" not in names:
            yield f"{name(found)}: it scales nothing"


def _mounted(objects: Objects) -> Iterator[str]:
    names = {name(found) for found in objects}
    claimed = {
        name(found): found["spec"].get("volumeClaimTemplates", ()) for found in objects if "spec" in found
    }
    for owner, pod in pods(objects):
        volumes = {claim["metadata"]["name"] for claim in claimed[owner]}
        for volume in pod.get("volumes", ()):
            volumes.add(volume["name"])
            claim = _get(volume, "persistentVolumeClaim.claimName")
            if claim and f"PersistentVolumeClaim/{claim}" not in names:
                yield f"{owner}: no claim {claim}"
        for container in _containers(pod):
            for source in container.get("envFrom", ()):
                if f"ConfigMap/{source['configMapRef']['name']}" not in names:
                    yield f"{owner}: no ConfigMap {source['configMapRef']['name']}"
            for mount in container.get("volumeMounts", ()):
                if mount["name"] not in volumes:
                    yield f"{owner}: no volume {mount['name']}"


def _ports(found: Sequence[Object]) -> set[str]:
    return {port["name"] for one in found for port in one.get("ports", ())}


def labelled(objects: Objects) -> Iterator[str]:
    """Whatever runs, is reached or is stored says by the common labels what it belongs to."""
    needed = {f"app.kubernetes.io/{label}" for label in ("name", "component", "part-of")}
    for found in objects:
        if found["kind"] in ("StatefulSet", "Deployment", "Job", "Pod", "Service", "PersistentVolumeClaim"):
            for one in filter(None, (found, _template(found))):
                missing = needed - one["metadata"].get("labels", {}).keys()
                yield from (f"{name(found)}: no label {label}" for label in sorted(missing))


def walled(objects: Objects) -> Iterator[str]:
    """Nothing is open but what a policy opens, and every policy names ports and peers."""
    rules = [found for found in objects if found["kind"] == "NetworkPolicy"]
    shut = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    if not any(rule["spec"] == shut for rule in rules):
        yield "no policy denies what others do not allow"
    for rule in rules:
        for way, peers in (("ingress", "from"), ("egress", "to")):
            for opened in rule["spec"].get(way, ()):
                if not opened.get("ports"):
                    yield f"{name(rule)}: it opens every port"
                # Where the brokers are, the base alone does not know.
                if not opened.get(peers) and rule["metadata"]["name"] != "engine-to-kafka":
                    yield f"{name(rule)}: it opens a port for everybody"
                for peer in opened.get(peers, ()):
                    outside = peer.get("ipBlock")
                    if outside and "169.254.0.0/16" not in outside.get("except", ()):
                        yield f"{name(rule)}: it opens the node's metadata service"


class Peer(NamedTuple):
    """One end of a connection: a pod with labels in a namespace, or an address outside."""

    namespace: str = ""
    labels: Mapping[str, str] = {}
    address: str = ""


def allows(objects: Objects, source: Peer, target: Peer, port: int, *, home: str) -> bool:
    """Whether the policies of the namespace `home` let a connection through, over TCP."""
    for end, other, way, peers in ((source, target, "Egress", "to"), (target, source, "Ingress", "from")):
        rules = [
            rule["spec"]
            for rule in _of(objects, "NetworkPolicy")
            if end.namespace == home
            and way in rule["spec"]["policyTypes"]
            and selects(rule["spec"]["podSelector"], {"metadata": {"labels": end.labels}})
        ]
        opened = [one for rule in rules for one in rule.get(way.lower(), ())]
        if rules and not any(
            port in [entry["port"] for entry in one["ports"]]
            and any(_meets(peer, other, home) for peer in one.get(peers) or [{}])
            for one in opened
        ):
            return False
    return True


def _meets(peer: Object, end: Peer, home: str) -> bool:
    if "ipBlock" in peer:
        if not end.address:
            return False
        block = peer["ipBlock"]
        nets = [block["cidr"], *block.get("except", ())]
        first, *rest = (ip_address(end.address) in ip_network(net) for net in nets)
        return first and not any(rest)
    if not peer:
        return True
    if end.address:
        return False
    where = {"kubernetes.io/metadata.name": end.namespace}
    spaces = peer.get("namespaceSelector", {"matchLabels": {"kubernetes.io/metadata.name": home}})
    return selects(spaces, {"metadata": {"labels": where}}) and selects(
        peer.get("podSelector", {}), {"metadata": {"labels": end.labels}}
    )


def selects(selector: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether a label selector meets an object."""
    labels = found["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        one["operator"] == "In" and labels.get(one["key"]) in one["values"]
        for one in selector.get("matchExpressions", ())
    )


def pods(objects: Objects) -> Iterator[tuple[str, Object]]:
    """The pods that objects make: who makes each, and its specification."""
    for found in objects:
        template = _template(found)
        if template is not None:
            yield name(found), template["spec"]


def _template(found: Object) -> Object | None:
    if found["kind"] == "Pod":
        return found
    template: Object | None = _get(found, "spec.template")
    return template if found["kind"] in ("StatefulSet", "Deployment", "Job") else None


def _containers(pod: Object) -> list[Object]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def _of(objects: Objects, kind: str) -> list[Object]:
    return [found for found in objects if found["kind"] == kind]


def _get(found: Any, path: str) -> Any:
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _differences(where: str, found: Object, expected: Mapping[str, Any]) -> Iterator[str]:
    for path, value in expected.items():
        if (is_ := _get(found, path)) != value:
            yield f"{where}: {path} is {is_}, not {value}"


ALL: tuple[Policy, ...] = (confined, bounded, engine, sized, configured, connected, labelled, walled)
