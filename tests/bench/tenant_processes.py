"""A tenant of a controller that misbehaves, for bench_agents: tenant_processes.py KIND HOST:PORT JOB TOKEN_FILE
CERTIFICATE SECONDS.

KIND `knocking`: connects with tokens that are wrong, again and again. `streams`: opens as many streams as it
can get, and keeps them. `spinning`: computes, and speaks to nobody. Prints what it has done.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
import socket
import sys
import time
from pathlib import Path

STREAMS_EACH = 100
CONNECTIONS_MAX = 400


def credentials(job: str, token: str) -> str:
    """What the front door wants (docs/status.md)."""
    nonce = secrets.token_hex(16)
    proof = hmac.new(token.encode(), f"door/{nonce}".encode(), "sha256").hexdigest()
    return base64.b64encode(f"{job}:{nonce}.{proof}".encode()).decode()


def knocking(address: str, job: str, end: float) -> str:
    """One connection after the other, refused after its first request."""
    host, _, port = address.rpartition(":")
    refused = 0
    while time.monotonic() < end:
        with socket.create_connection((host, int(port)), timeout=5.0) as door:
            wrong = credentials(job, "0" * 64)
            door.sendall(f"CONNECT {address} HTTP/1.1\r\nProxy-Authorization: Basic {wrong}\r\n\r\n".encode())
            answer = door.recv(64)
        if b" 407 " not in answer:
            raise SystemExit(f"a wrong token was answered by {answer!r}")
        refused += 1
    return f"{refused} connections"


async def streams(address: str, job: str, token: str, certificate: bytes, end: float) -> str:
    """A hundred on each connection, as HTTP/2 servers take; none says who it is."""
    import grpc

    metadata = [("farandole-job", job), ("authorization", f"Bearer {token}")]
    channels, calls = [], []
    while time.monotonic() < end and len(channels) < CONNECTIONS_MAX:
        options = [
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.http_connect_server", address),
            ("grpc.http_connect_headers", f"Proxy-Authorization: Basic {credentials(job, token)}"),
        ]
        channels.append(grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(certificate), options))
        session = channels[-1].stream_stream("/farandole.v1.Coordination/Session")
        calls += [session(metadata=metadata) for _ in range(STREAMS_EACH)]
        await channels[-1].channel_ready()
    await asyncio.sleep(max(0.0, end - time.monotonic()))
    kept = sum(not call.done() for call in calls)
    for channel in channels:
        await channel.close()
    return f"{kept} of {len(calls)} streams"


def main(kind: str, address: str, job: str, token_file: str, certificate: str, seconds: str) -> None:
    """Begins at once, and ends by itself."""
    end = time.monotonic() + float(seconds)
    if kind == "knocking":
        print(knocking(address, job, end))
    elif kind == "streams":
        token = Path(token_file).read_text().strip()
        print(asyncio.run(streams(address, job, token, Path(certificate).read_bytes(), end)))
    else:
        count = 0
        while time.monotonic() < end:
            count += 1
        print(count, "rounds")


if __name__ == "__main__":
    main(*sys.argv[1:])
