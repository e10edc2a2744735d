"""A rank that shares its process with grpcio, PyPI's protobuf and an old C++ protobuf in the global scope.

argv: which come before our library, comma-separated, out of grpc and old; the others come after it. OLD_PROTOBUF names
the library that uses the old protobuf.
"""

from __future__ import annotations

import ctypes
import os
import sys
from concurrent import futures

import torch


class GrpcUser:
    """A gRPC server and client of the script's own, with protobuf messages."""

    def __init__(self) -> None:
        import grpc
        from google.protobuf import struct_pb2

        self.message = struct_pb2.Struct
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(
            self.answer,
            request_deserializer=self.message.FromString,
            response_serializer=self.message.SerializeToString,
        )
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", {"Say": handler}),))
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)])
        self.call = self.channel.unary_unary(
            "/test.Echo/Say",
            request_serializer=self.message.SerializeToString,
            response_deserializer=self.message.FromString,
        )

    @staticmethod
    def answer(request: object, context: object) -> object:
        request.update({"answered": True})
        return request

    def check(self) -> None:
        request = self.message()
        request.update({"name": "x" * 1000})
        reply = self.call(request, timeout=20)
        assert reply["answered"] and reply["name"] == "x" * 1000

    def close(self) -> None:
        self.channel.close()
        self.server.stop(None).wait()


class OldProtobuf:
    """libprotobuf of the system, its symbols visible to every library that comes later."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["OLD_PROTOBUF"], mode=ctypes.RTLD_GLOBAL)

    def check(self) -> None:
        assert self.library.protobuf_user_works() == 1

    def close(self) -> None:
        self.check()


def main() -> None:
    kinds = {"grpc": GrpcUser, "old": OldProtobuf}
    first = sys.argv[1].split(",") if sys.argv[1] else []
    neighbours = [kinds[name]() for name in first]

    import farandole.torch as hvd

    hvd.init()
    neighbours += [kind() for name, kind in kinds.items() if name not in first]
    for i in range(20):
        for neighbour in neighbours:
            neighbour.check()
        total = hvd.allreduce(torch.full((1000,), float(hvd.rank() + i)), op=hvd.Sum, name="t")
        assert (total == sum(r + i for r in range(hvd.size()))).all()
        assert hvd.allgather(torch.tensor([hvd.rank()])).tolist() == list(range(hvd.size()))
    hvd.shutdown()
    for neighbour in neighbours:
        neighbour.check()
        neighbour.close()
    print("neighbours and we are well")


if __name__ == "__main__":
    main()
