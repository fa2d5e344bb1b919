# SPDX-License-Identifier: Apache-2.0
"""Calls by grpcio, without generated code."""

import os
import sys

from lib import ROOT

sys.path.insert(0, os.path.join(ROOT, "build", "python"))
import grpc  # noqa: E402, F401 - it is found there
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402

DESCRIPTORS = os.path.join(ROOT, "build", "gen", "descriptors.pb")


class Stub:
    """The methods of a service, made of the descriptors: Stub(channel, "package.Service").Method(member=..)"""

    pool = descriptor_pool.DescriptorPool()
    with open(DESCRIPTORS, "rb") as file:
        for described in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
            pool.Add(described)

    def __init__(self, channel, service):
        self.channel = channel
        self.service = self.pool.FindServiceByName(service)

    @classmethod
    def message(cls, name, **members):
        return message_factory.GetMessageClass(cls.pool.FindMessageTypeByName(name))(**members)

    def __getattr__(self, name):
        method = self.service.methods_by_name[name]
        request, response = (message_factory.GetMessageClass(kind)
                             for kind in (method.input_type, method.output_type))
        described = descriptor_pb2.MethodDescriptorProto()
        method.CopyToProto(described)
        kinds = {(False, False): "unary_unary", (False, True): "unary_stream", (True, True): "stream_stream"}
        kind = kinds[described.client_streaming, described.server_streaming]
        made = getattr(self.channel, kind)(f"/{self.service.full_name}/{name}",
                                           request_serializer=request.SerializeToString,
                                           response_deserializer=response.FromString)
        if kind == "stream_stream":
            return made
        return lambda timeout=20, **members: made(request(**members), timeout=timeout)
