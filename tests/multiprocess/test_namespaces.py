"""A controller that several teams share: tokens and limits for a namespace, and the audit log of who came."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import processes
from controller_parts import Controller, await_steps, controller, training
from pod_parts import KEY, secret
from streams import Stream, url_of

from farandole.base import locate
from farandole.launch.processes import tokens
from farandole.launch.status.query import REFUSED

NO_ROOM = "has no room for this agent: namespace team has 1 of the 1 jobs that this controller's limits allow it"


def write(path: Path, text: str) -> None:
    """Exchanges it as a whole."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def ask(folder: Path, address: str, job: str, subject: str) -> subprocess.CompletedProcess[str]:
    token = secret(folder / f"observer-{subject}", tokens.observer_token(KEY, subject))
    command = [locate.find("farandole-controller"), "query", "--controller", address, "--job", job]
    return subprocess.run(
        [*command, "--token-file", str(token), "--timeout-ms", "4000"], capture_output=True, text=True, timeout=60
    )


def test_a_token_for_a_namespace_and_limits_that_others_do_not_feel(tmp_path: Path) -> None:
    limits = tmp_path / "limits"
    write(limits, "team jobs=1\n")
    with controller(tmp_path, "--limits-file", str(limits)) as made, ExitStack() as stack:
        first = stack.enter_context(training(tmp_path, made.address, job="team.first", token_for="team.*"))
        await_steps(first)
        second = stack.enter_context(
            training(tmp_path, made.address, job="team.second", token_for="team.*", start_timeout_s=90)
        )
        second.wait_for(lambda: NO_ROOM in second.stderr, "the reason why it waits")
        other = stack.enter_context(training(tmp_path, made.address, job="other.first"))
        await_steps(other)
        assert not second.lines("at ")
        assert ask(tmp_path, made.address, "team.first", "team.*").returncode == 0
        refused = ask(tmp_path, made.address, "other.first", "team.*")
        assert refused.returncode == REFUSED and "the token is missing or wrong for this job" in refused.stderr
        # More room, and then less than is used: what runs is not touched.
        write(limits, "team jobs=2\n")
        await_steps(second)
        write(limits, "* jobs=1 agents=1\n")
        second.wait_for(lambda: made.log.read_text().count("limits read again") == 2, "the limits")
        for job in (first, second, other):
            await_steps(job)
        (tmp_path / "enough").touch()
        for job in (first, second, other):
            assert job.wait() == 0, job.report()


def test_the_jobs_of_a_namespace_are_listed_and_shown(tmp_path: Path) -> None:
    token = secret(tmp_path / "observer", tokens.observer_token(KEY, "team.*"))
    with controller(tmp_path) as made, ExitStack() as stack:
        where = ["--controller", made.address, "--job", "team.*", "--token-file", str(token)]

        def farandole(subcommand: str, *more: str) -> processes.Job:
            command = [sys.executable, "-m", "farandole", subcommand, *where, *more]
            return stack.enter_context(processes.running(command, tmp_path))

        def asked(*more: str) -> str:
            done = farandole("status", *more)
            assert done.wait() == 0 and not done.stderr, done.report()
            return done.stdout

        assert asked() == f"the controller at {made.address} has no job of namespace team\n" and asked("--json") == ""
        listing = Stream(url_of(dashboard := farandole("dashboard")))
        assert listing.news()["jobs"] == []
        trained = {
            name: stack.enter_context(training(tmp_path, made.address, job=name, token_for=name.replace("first", "*")))
            for name in ("team.first", "team.second", "other.first")
        }
        for job in trained.values():
            await_steps(job)
        listing.until(lambda told: [row["job"] for row in told["jobs"] or []] == ["team.first", "team.second"])
        page = Stream(f"{url_of(dashboard)}team.second/")
        assert page.until(lambda told: told["status"])["status"]["size"] == 1
        lines = asked().splitlines()
        assert [line.split()[:2] for line in lines] == [["team.first", "negotiating,"], ["team.second", "negotiating,"]]
        assert [json.loads(line)["job"] for line in asked("--json").splitlines()] == ["team.first", "team.second"]
        watch = farandole("status", "--watch")
        assert watch.wait() == 2 and "2 jobs run there; name one of them: team.first, team.second" in watch.stderr
        (tmp_path / "enough").touch()
        for job in trained.values():
            assert job.wait() == 0, job.report()
        listing.until(lambda told: told["jobs"] == [])
        made.process.kill()
        assert "does not answer" in listing.until(lambda told: told["outage"])["outage"]["text"]
        dashboard.process.send_signal(signal.SIGTERM)
        assert dashboard.wait() == 130, dashboard.report()
        listing.close()
        page.close()


def test_who_waits_for_room_gets_it_when_another_job_ends(tmp_path: Path) -> None:
    limits = tmp_path / "limits"
    write(limits, "* jobs=1\n")
    with controller(tmp_path, "--limits-file", str(limits)) as made, ExitStack() as stack:
        with training(tmp_path, made.address, job="team.first") as first:
            await_steps(first)
            second = stack.enter_context(training(tmp_path, made.address, job="team.second", start_timeout_s=90))
            second.wait_for(lambda: NO_ROOM in second.stderr, "the reason why it waits")
            first.process.terminate()
            assert first.wait() != 0, first.report()
        await_steps(second)
        (tmp_path / "enough").touch()
        assert second.wait() == 0, second.report()


def test_who_has_got_no_room_may_try_again(tmp_path: Path) -> None:
    limits = tmp_path / "limits"
    write(limits, "* jobs=1\n")
    with (
        controller(tmp_path, "--limits-file", str(limits)) as made,
        training(tmp_path, made.address, job="team.first") as first,
    ):
        await_steps(first)
        with training(
            tmp_path, made.address, "--pod", "--local-size", "1", job="team.second", start_timeout_s=6
        ) as second:
            assert second.wait() == 75, second.report()
        assert f"the job has failed: the controller at {made.address} {NO_ROOM}\n" in second.stderr
        (tmp_path / "enough").touch()
        assert first.wait() == 0, first.report()


def test_who_waits_says_why_now_and_not_why_at_first(tmp_path: Path) -> None:
    limits = tmp_path / "limits"
    write(limits, "* jobs=1\n")
    with socket.create_server(("127.0.0.1", 0)) as door, ExitStack() as stack:
        door.settimeout(60)
        address = f"127.0.0.1:{door.getsockname()[1]}"
        both = [
            stack.enter_context(training(tmp_path, address, job=f"team.{name}", start_timeout_s=90))
            for name in ("first", "second")
        ]
        # Each is at the door, where nobody answers: so both are there when the controller begins.
        knocks = [door.accept()[0] for _ in both]
        # An agent says first, 5 s after it has begun, what it knows by then. The reason may be another one 4.5 s after
        # the controller has begun.
        until = time.monotonic() + 1
        both[0].wait_for(lambda: time.monotonic() > until, "some of these 5 s")
        for each in knocks:
            each.close()
        door.close()
        stack.enter_context(controller(tmp_path, "--limits-file", str(limits), "--listen", address))
        (waits,) = both[0].wait_for(
            lambda: [job for job in both if NO_ROOM in job.stderr], "the reason why one of them waits"
        )
        assert "this controller has just begun" in waits.stderr[: waits.stderr.index(NO_ROOM)], waits.report()
        (tmp_path / "enough").touch()
        for job in both:
            assert job.wait() == 0, job.report()


def test_a_restarted_controller_gives_nobodys_place_away(tmp_path: Path) -> None:
    limits = tmp_path / "limits"
    write(limits, "team jobs=1\n")
    with ExitStack() as stack:
        old = stack.enter_context(controller(tmp_path, "--limits-file", str(limits)))
        first = stack.enter_context(training(tmp_path, old.address, job="team.first"))
        await_steps(first)
        waiting = [
            stack.enter_context(training(tmp_path, old.address, job=f"team.{name}", start_timeout_s=20))
            for name in ("second", "third")
        ]
        first.wait_for(lambda: all(NO_ROOM in job.stderr for job in waiting), "the reason why they wait")
        old.process.kill()
        old.process.wait(10)
        # So long that those who wait knock as often as the one that trains.
        until = time.monotonic() + 2
        first.wait_for(lambda: time.monotonic() > until, "their attempts")
        stack.enter_context(controller(tmp_path, "--limits-file", str(limits), "--listen", old.address))
        await_steps(first)
        for job in waiting:
            assert job.wait() != 0 and not job.lines("at "), job.report()
        await_steps(first)
        (tmp_path / "enough").touch()
        assert first.wait() == 0, first.report()


def events(audit: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in audit.read_text().splitlines()]


def told(audit: Path, **wanted: str) -> bool:
    return any(all(event.get(name) == value for name, value in wanted.items()) for event in events(audit))


def test_the_audit_log_says_who_came_and_who_was_refused(tmp_path: Path) -> None:
    limits, audit = tmp_path / "limits", tmp_path / "audit"
    write(limits, "team jobs=1\n")
    options = ("--limits-file", str(limits), "--audit-log", str(audit))
    with controller(tmp_path, *options) as made, ExitStack() as stack:
        first = stack.enter_context(training(tmp_path, made.address, "--host-name", "h1", job="team.first"))
        await_steps(first)
        ask(tmp_path, made.address, "team.first", "another")
        assert ask(tmp_path, made.address, "team.first", "team.*").returncode == 0
        second = stack.enter_context(training(tmp_path, made.address, job="team.second"))
        second.wait_for(lambda: NO_ROOM in second.stderr, "the reason why it waits")
        # An observer's token may enter, but takes part in nothing.
        token = secret(tmp_path / "observer", tokens.observer_token(KEY, "team.first"))
        stranger = stack.enter_context(
            training(tmp_path, made.address, "--token-file", str(token), job="team.first", token_for="team.first")
        )
        assert stranger.wait() != 0 and "an observer's token may not take part" in stranger.stderr, stranger.report()
        assert second.wait() != 0, "there was no room within its start timeout"
        (tmp_path / "enough").touch()
        assert first.wait() == 0, first.report()
        first.wait_for(lambda: told(audit, event="job_ended", job="team.first"), "its end")
        made.process.terminate()
        made.process.wait(10)
    of_first = {"job": "team.first", "namespace": "team"}
    for wanted in (
        {"event": "controller_started"},
        {"event": "connection_admitted", "peer": "127.0.0.1", **of_first},
        {"event": "call_began", "method": "/farandole.v1.Coordination/Session", **of_first},
        {"event": "job_began", **of_first},
        {"event": "agent_connected", "host": "h1", "peer": "127.0.0.1", **of_first},
        {"event": "connection_refused", "claimed_job": "team.first", "peer": "127.0.0.1"},
        {"event": "call_began", "method": "/farandole.v1.Status/GetJob", **of_first},
        {"event": "agent_refused", "job": "team.second"},
        {"event": "call_refused", "claimed_job": "team.first", "method": "/farandole.v1.Coordination/Session"},
        {"event": "agent_disconnected", **of_first},
        {"event": "controller_ended"},
    ):
        assert told(audit, **wanted), (wanted, audit.read_text())
    assert audit.stat().st_mode & 0o777 == 0o600
    assert KEY not in audit.read_text()


def test_a_file_that_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    limits = tmp_path / "limits"
    limits.write_text("team jobs=none\n")
    for options, complaint in (
        (("--limits-file", str(limits)), f"line 1 of {limits}: 'jobs=none' is none of jobs=N and agents=N"),
        (("--limits-file", str(tmp_path / "no")), f"{tmp_path / 'no'} cannot be read, or is no regular file"),
        (("--audit-log", str(tmp_path / "no" / "file")), "--audit-log: cannot open "),
    ):
        try:
            Controller(tmp_path, *options)
        except AssertionError as error:
            assert complaint in str(error)
        else:
            raise AssertionError(options)
