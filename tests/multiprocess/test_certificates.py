"""Certificates of a controller that many jobs share, as cert-manager exchanges them, and those of its clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import processes
import pytest
from controller_parts import await_steps, controller, training
from pod_parts import KEY, secret

from farandole.base import locate
from farandole.launch.processes import tokens


class Authority:
    """Signs certificates, by openssl."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.certificate = self.folder / "ca.crt"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-keyout", "ca.key", "-out", "ca.crt"),
        )

    def _openssl(self, *words: str) -> None:
        done = subprocess.run(["openssl", *words], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def sign(self, into: Path, names: str) -> None:
        """A certificate for these subject alternative names, as the three files of a Secret; exchanged at once."""
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x"),
            *("-keyout", "tls.key", "-out", "request"),
        )
        (self.folder / "names").write_text(f"subjectAltName={names}\n")
        self._openssl(
            *("x509", "-req", "-in", "request", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1"),
            *("-extfile", "names", "-out", "tls.crt"),
        )
        into.mkdir(exist_ok=True)
        data = into / f"..{os.urandom(4).hex()}"
        data.mkdir()
        for name in ("tls.crt", "tls.key", "ca.crt"):
            shutil.copy(self.folder / name, data / name)
            (data / name).chmod(0o600)
            if not (into / name).is_symlink():
                (into / name).symlink_to(f"..data/{name}")
        (into / "..new").symlink_to(data.name)
        (into / "..new").rename(into / "..data")


def query(folder: Path, address: str, *options: str) -> subprocess.CompletedProcess[str]:
    token = secret(folder / "observer", tokens.observer_token(KEY, "digits"))
    command = [locate.find("farandole-controller"), "query", "--controller", address, "--job", "digits"]
    return subprocess.run(
        [*command, "--token-file", str(token), "--timeout-ms", "4000", *options], capture_output=True, text=True
    )


def mine(folder: Path, name: str) -> list[str]:
    """Options of a client with the certificate in this folder."""
    place = folder / name
    return ["--tls-ca", f"{place}/ca.crt", "--tls-cert", f"{place}/tls.crt", "--tls-key", f"{place}/tls.key"]


def test_a_certificate_is_exchanged_under_a_running_job(tmp_path: Path) -> None:
    """The job goes on; who connects from then on sees the new one, which another authority has signed."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    old.sign(tmp_path / "tls", "IP:127.0.0.1")
    trusted = tmp_path / "trusted"
    trusted.write_text(old.certificate.read_text())
    with controller(tmp_path) as made, ExitStack() as stack:
        job = stack.enter_context(training(tmp_path, made.address, "--tls-ca", str(trusted)))
        await_steps(job)
        new.sign(tmp_path / "tls", "IP:127.0.0.1")
        job.wait_for(lambda: made.has_said("certificate read again from"), "the new certificate")
        await_steps(job)
        assert query(tmp_path, made.address, "--tls-ca", str(old.certificate)).returncode == 3
        assert query(tmp_path, made.address, "--tls-ca", str(new.certificate)).returncode == 0
        # An agent trusts what its file holds when it connects.
        trusted.write_text(new.certificate.read_text())
        os.kill(made.process.pid, 9)
        made.process.wait()
        again = stack.enter_context(controller(tmp_path, "--listen", made.address))
        await_steps(job)
        assert again.address == made.address
        (tmp_path / "enough").touch()
        assert job.wait() == 0, job.report()


def test_clients_need_a_certificate_for_their_job(tmp_path: Path) -> None:
    """A token alone is not enough then, nor is a certificate alone."""
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    authority.sign(tmp_path / "tls", "IP:127.0.0.1")
    authority.sign(tmp_path / "digits", "URI:farandole:job:digits")
    authority.sign(tmp_path / "other", "URI:farandole:job:other,URI:spiffe://cluster/x")
    authority.sign(tmp_path / "all", "URI:farandole:job:*")
    authority.sign(tmp_path / "none", "DNS:digits")
    stranger.sign(tmp_path / "strange", "URI:farandole:job:digits")
    shutil.copy(authority.certificate, tmp_path / "strange" / "authority.crt")
    with controller(tmp_path, "--tls-client-ca", str(authority.certificate)) as made:
        with training(tmp_path, made.address, *mine(tmp_path, "digits")) as job:
            await_steps(job)
            for name in ("digits", "all"):
                asked = query(tmp_path, made.address, *mine(tmp_path, name))
                assert asked.returncode == 0, asked.stderr
            for name in ("other", "none"):
                refused = query(tmp_path, made.address, *mine(tmp_path, name))
                assert refused.returncode == 4 and "the certificate is not for job digits" in refused.stderr, refused
            strange = [*mine(tmp_path, "strange")]
            strange[1] = str(tmp_path / "strange" / "authority.crt")
            for options in (["--tls-ca", str(authority.certificate)], strange):
                nobody = query(tmp_path, made.address, *options)
                assert nobody.returncode == 3, nobody
            words = [sys.executable, "-m", "farandole", "status", "--controller", made.address, "--job", "digits"]
            words += ["--token-file", str(tmp_path / "observer"), *mine(tmp_path, "digits")]
            shown = subprocess.run(words, capture_output=True, text=True, env=processes.environment(), timeout=30)
            assert shown.returncode == 0 and "digits" in shown.stdout, shown
            (tmp_path / "enough").touch()
            assert job.wait() == 0, job.report()
        with training(tmp_path, made.address, *mine(tmp_path, "other")) as job:
            assert job.wait() == 1, job.report()
            assert "the certificate is not for job digits" in job.stderr, job.report()
        with training(tmp_path, made.address, "--tls-ca", str(authority.certificate)) as job:
            assert job.wait() == 1, job.report()
            assert "and whether it wants a certificate of this end (--tls-cert)" in job.stderr, job.report()


def test_a_clients_certificate_is_exchanged(tmp_path: Path) -> None:
    """And its authority: an agent connects with what its files hold at that time."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    old.sign(tmp_path / "tls", "IP:127.0.0.1")
    old.sign(tmp_path / "digits", "URI:farandole:job:digits")
    clients = tmp_path / "clients"
    clients.write_text(old.certificate.read_text())
    with controller(tmp_path, "--tls-client-ca", str(clients)) as made, ExitStack() as stack:
        job = stack.enter_context(training(tmp_path, made.address, *mine(tmp_path, "digits")))
        await_steps(job)
        new.sign(tmp_path / "digits", "URI:farandole:job:digits")
        # What signed the controller's own has not changed.
        shutil.copy(old.certificate, (tmp_path / "digits" / "ca.crt").resolve())
        clients.write_text(new.certificate.read_text())
        job.wait_for(lambda: made.has_said("clients' certificates have to be signed by those in"), "the authority")
        asked = query(tmp_path, made.address, *mine(tmp_path, "digits"))
        assert asked.returncode == 0, asked.stderr
        os.kill(made.process.pid, 9)
        made.process.wait()
        stack.enter_context(controller(tmp_path, "--tls-client-ca", str(clients), "--listen", made.address))
        await_steps(job)
        (tmp_path / "enough").touch()
        assert job.wait() == 0, job.report()


@pytest.mark.parametrize(
    "options, complaint",
    [
        (("--tls-cert", "a.crt", "--tls-key", "b.key"), "b.key is not the key of a.crt"),
        (("--tls-cert", "a.crt", "--tls-key", "no.key"), "no.key cannot be read or holds no private key in PEM"),
        (("--tls-client-ca", "a.crt"), "--tls-client-ca goes with --tls-cert and --tls-key"),
        (
            ("--tls-cert", "a.crt", "--tls-key", "a.key", "--tls-client-ca", "a.key"),
            "a.key cannot be read, or does not hold",
        ),
    ],
)
def test_a_controller_that_cannot_serve_says_why(tmp_path: Path, options: tuple[str, ...], complaint: str) -> None:
    for name in ("a", "b"):
        Authority(tmp_path, name)
        shutil.copy(tmp_path / name / "ca.crt", tmp_path / f"{name}.crt")
        shutil.copy(tmp_path / name / "ca.key", tmp_path / f"{name}.key")
    command = [locate.find("farandole-controller"), "--key-file", str(secret(tmp_path / "key", KEY)), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and complaint in done.stderr, done
