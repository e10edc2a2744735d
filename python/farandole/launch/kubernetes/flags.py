"""The flags of ``farandole kubernetes``: they stand here so that other commands import nothing else of it."""

from __future__ import annotations

import argparse

from farandole.launch.kubernetes.manifests import CONTROLLER_IMAGE
from farandole.launch.settings.flags import add_listen, count, number

Parsers = argparse._SubParsersAction


def _add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", default="", help="of the job (that of the cluster's configuration)")
    parser.add_argument("--context", default="", help="of the cluster's configuration (the current one)")


def _add_job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-np", "--num-proc", dest="processes", type=count, required=True, metavar="N", help="number of processes"
    )
    parser.add_argument("--image", default="", help="of the script; Python, Farandole and the script are in it")
    parser.add_argument("--name", default="", help="of the job (a new one)")
    parser.add_argument("--slots", type=count, default=1, metavar="N", help="processes in a pod (1)")
    parser.add_argument(
        "--min-np",
        type=count,
        metavar="N",
        help="the job is elastic: pods may come and go, and it goes on with as few processes",
    )
    parser.add_argument("--max-np", type=count, metavar="N", help="the most that an elastic job may have (any number)")
    parser.add_argument(
        "--gpus", type=number("a number of GPUs", 0, 1024), default=0, metavar="N", help="GPUs of each process (0)"
    )
    parser.add_argument("--cpu", default="", metavar="QUANTITY", help="processors that each process asks for")
    parser.add_argument(
        "--memory", default="", metavar="QUANTITY", help="memory that each process asks for and may use"
    )
    parser.add_argument(
        "--shared-memory",
        default="2Gi",
        metavar="QUANTITY",
        help="the most of /dev/shm in a pod; it counts as memory (2Gi)",
    )
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the script")
    parser.add_argument(
        "--attempts",
        type=number("a number of attempts", 0, 1000),
        metavar="N",
        help="how often all pods are started again after one was evicted or lost, not after the script failed (0); of "
        "an elastic job how many pods may fail, not counting those that were evicted (6)",
    )
    parser.add_argument(
        "--start-timeout",
        type=number("a number of seconds", 1, 10**6),
        default=600,
        metavar="SECONDS",
        help="how long pods may take until all run, or as many as --min-np needs, and then until they have found each "
        "other (600)",
    )
    parser.add_argument(
        "--pull", default="", choices=("Always", "IfNotPresent", "Never"), help="when images are pulled"
    )
    parser.add_argument("--pull-secret", default="", metavar="NAME", help="the Secret of the images' registry")
    parser.add_argument(
        "--service-account", default="", metavar="NAME", help="of the script's pods; they get its token"
    )
    parser.add_argument(
        "--user",
        type=number("a number of a user", 0, 2**31),
        metavar="N",
        help="number of the user of the script (that of the image)",
    )
    parser.add_argument(
        "--controller-image", default=CONTROLLER_IMAGE, metavar="IMAGE", help=f"of the controller ({CONTROLLER_IMAGE})"
    )
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- command [arguments ...]", help="what the pods run"
    )


def add(commands: Parsers[argparse.ArgumentParser]) -> None:
    """`farandole kubernetes` and its commands."""
    kubernetes = commands.add_parser(
        "kubernetes",
        help="runs a command as N processes in pods of a Kubernetes cluster",
        description="Runs a command in pods of the cluster that kubectl uses. Each job has a controller of its own; "
        "nothing has to be installed in the cluster. Needed are the rights to create, get and delete Secrets, "
        "Services, NetworkPolicies, Deployments and Jobs in a namespace, to list Jobs, pods and events, and to get "
        "logs; to patch Jobs for `scale`.",
    )
    actions = kubernetes.add_subparsers(dest="action", metavar="action", required=True)
    run = actions.add_parser(
        "run",
        usage="farandole kubernetes run -np N --image IMAGE [options] -- command [arguments ...]",
        help="starts a job, shows what it prints, and returns its exit code",
        description="Starts a job, says why its pods do not run, prints what its processes print, and ends with its "
        "exit code. Whatever it has made is deleted at the end, also by Ctrl-C.",
    )
    _add_where(run)
    run.add_argument("--detach", action="store_true", help="do not wait for its end, and delete nothing")
    run.add_argument("--keep", action="store_true", help="delete nothing at the end")
    _add_job(run)
    render = actions.add_parser(
        "render",
        usage="farandole kubernetes render -np N --image IMAGE [options] -- command [arguments ...]",
        help="prints the objects of a job, for kubectl apply; they hold its secrets",
    )
    _add_job(render)
    logs = actions.add_parser("logs", help="prints what the processes of a job have printed")
    _add_where(logs)
    logs.add_argument("name", metavar="JOB")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until its pods have ended")
    scale = actions.add_parser("scale", help="changes how many processes an elastic job has")
    _add_where(scale)
    scale.add_argument("name", metavar="JOB")
    scale.add_argument(
        "-np", "--num-proc", dest="processes", type=count, required=True, metavar="N", help="number of processes"
    )
    for name, text in (
        ("status", "shows the pods of a job, and who waits for whom"),
        ("dashboard", "shows a page about a job on this machine"),
        ("delete", "ends a job and deletes what it consists of"),
    ):
        parser = actions.add_parser(name, help=text)
        _add_where(parser)
        parser.add_argument("name", metavar="JOB")
        if name == "dashboard":
            add_listen(parser)
            parser.add_argument("--insecure", action="store_true", help="the network of --listen can be trusted")
