"""Asks the controller of a job over gRPC, and prints its answer as JSON in protobuf's own form.

An ordinary gRPC client, to start from. It needs `pip install grpcio-tools`, and stubs of the package's .proto files:

    cd $(mktemp -d)
    files=$(python -c "import farandole; print(farandole.__path__[0])")
    python -m grpc_tools.protoc -I $files/protos --python_out=. --grpc_python_out=. \\
        farandole/v1/types.proto farandole/v1/status.proto
    python $files/examples/query_controller.py --stubs . /run/user/1000/farandole/JOB

JOB is the file of the job that its launcher keeps; docs/status.md says where, and what there is without a launcher.
"""

from __future__ import annotations

import argparse
import base64
import hmac
import json
import secrets
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format

import farandole


def channel_to(job: dict[str, Any]) -> grpc.Channel:
    """A channel that proves the token by HTTP's CONNECT, before gRPC begins."""
    nonce = secrets.token_hex(16)
    proof = hmac.new(job["token"].encode(), f"door/{nonce}".encode(), "sha256").hexdigest()
    # Of a token that expires, when: it is a part of the token, and no secret.
    end = job["token"][64:]
    credentials = base64.b64encode(f"{job['job']}:{nonce}.{proof}{end}".encode()).decode()
    options = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.http_connect_server", job["controller"]),
        ("grpc.http_connect_headers", f"Proxy-Authorization: Basic {credentials}"),
    ]
    if not job["certificate"]:
        return grpc.insecure_channel(job["controller"], options)
    # The controller of a launcher makes its own certificate, under this name at every address.
    options.append(("grpc.ssl_target_name_override", "farandole-controller"))
    return grpc.secure_channel(job["controller"], grpc.ssl_channel_credentials(job["certificate"].encode()), options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stubs", type=Path, required=True, help="the folder that protoc has written to")
    parser.add_argument(
        "file", type=Path, help="of the job: its name, the controller's address, a token, a certificate"
    )
    arguments = parser.parse_args()
    # The stubs are the package farandole.v1: a part of ours that is not installed.
    farandole.__path__.append(str(arguments.stubs / "farandole"))
    from farandole.v1 import status_pb2, status_pb2_grpc

    job = json.loads(arguments.file.read_text())
    metadata = [("farandole-job", job["job"]), ("authorization", f"Bearer {job['token']}")]
    with channel_to(job) as channel:
        status = status_pb2_grpc.StatusStub(channel).GetJob(status_pb2.GetJobRequest(), metadata=metadata, timeout=20)
    print(json_format.MessageToJson(status))


if __name__ == "__main__":
    main()
