#ifndef FARANDOLE_PROTO_CODEC_CODEC_H_
#define FARANDOLE_PROTO_CODEC_CODEC_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/codec/schema.h"
#include "proto/messages.h"
#include "proto/rules/hosted_view.h"

// The structs of proto/messages.h as protobuf bytes, without a protobuf runtime. A test holds them against the
// generated classes, field by field and in both directions.
//
// Encode never fails. Decode checks everything that a hostile peer could send (truncation, nesting, negative
// dimensions, lengths and counts above the bounds of schema.h, text that is not UTF-8) and answers INVALID_ARGUMENT
// with the name of the message and field. Unknown fields are skipped, and unknown values of an enum become kUnspecified
// or kUnknownValue, so that a newer patch release may add some.
namespace farandole {

std::string Encode(const AgentUp& message);
std::string Encode(const AgentDown& message);
std::string Encode(const LocalUp& message);
// By itself it is no message of a stream; behind its head it is an AgentDown, the same for all agents.
std::string Encode(const WorkerDown& body);
// What stands before an encoded WorkerDown of so many bytes: the two together are AgentDown(ToWorkers{workers, body}).
std::string EncodeToWorkersHead(const std::vector<Incarnation>& workers, size_t body_bytes);
std::string Encode(const LocalDown& message);
// A view whose two parts are shared by different agents: the head, then both, in this order, are
// AgentDown(ToWorkers{workers, WorkerDown(view)}).
std::string EncodeViewHead(const std::vector<Incarnation>& workers, size_t view_bytes);
std::string EncodeViewHosts(const std::vector<ViewHost>& hosts);
std::string EncodeViewRest(const HostedView& view);

absl::StatusOr<AgentUp> DecodeAgentUp(absl::string_view bytes);
absl::StatusOr<AgentDown> DecodeAgentDown(absl::string_view bytes);
absl::StatusOr<LocalUp> DecodeLocalUp(absl::string_view bytes);
absl::StatusOr<LocalDown> DecodeLocalDown(absl::string_view bytes);

}  // namespace farandole

#endif  // FARANDOLE_PROTO_CODEC_CODEC_H_
