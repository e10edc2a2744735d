#include "proto/codec/codec.h"

#include "proto/codec/codec_reader.h"
#include "proto/codec/codec_writer.h"
#include "proto/codec/schema_messages.h"

namespace farandole {
namespace {

// Of View in schema_types.h.
constexpr uint32_t kHosts = 2;

// What stands before a field of so many bytes.
void AddHead(uint32_t field, size_t bytes, std::string* out) {
  *out += static_cast<char>(field << 3 | 2);
  protozero::add_varint_to_buffer(out, bytes);
}

template <typename M>
absl::StatusOr<M> Decode(absl::string_view bytes) {
  M message;
  Reading reading(bytes.size());
  if (!ReadMessage(protozero::data_view(bytes.data(), bytes.size()), message, &reading)) {
    return absl::InvalidArgumentError(reading.error);
  }
  return message;
}

}  // namespace

std::string Encode(const AgentUp& message) { return WriteMessage(message); }
std::string Encode(const AgentDown& message) { return WriteMessage(message); }
std::string Encode(const WorkerDown& body) { return WriteMessage(body); }

std::string EncodeToWorkersHead(const std::vector<Incarnation>& workers, size_t body_bytes) {
  // The fields of ToWorkers in schema_messages.h, both with a length.
  constexpr uint32_t kToWorkers = 2, kIncarnations = 1, kMessage = 2;
  std::string inner;
  inner.reserve(16 + workers.size() * protozero::max_varint_length);
  FieldWriter(&inner).Repeated(kIncarnations, "", workers, 0);
  AddHead(kMessage, body_bytes, &inner);
  std::string head;
  AddHead(kToWorkers, inner.size() + body_bytes, &head);
  return head += inner;
}

std::string EncodeViewHead(const std::vector<Incarnation>& workers, size_t view_bytes) {
  constexpr uint32_t kView = 2;
  std::string inner;
  AddHead(kView, view_bytes, &inner);
  return EncodeToWorkersHead(workers, inner.size() + view_bytes) += inner;
}

std::string EncodeViewHosts(const std::vector<ViewHost>& hosts) {
  std::string out;
  FieldWriter(&out).Repeated(kHosts, "", hosts, 0);
  return out;
}

std::string EncodeViewRest(const HostedView& view) {
  HostedView rest;
  rest.generation = view.generation;
  rest.data_key = view.data_key;
  rest.runs = view.runs;
  return WriteMessage(rest);
}

std::string Encode(const LocalUp& message) { return WriteMessage(message); }
std::string Encode(const LocalDown& message) { return WriteMessage(message); }

absl::StatusOr<AgentUp> DecodeAgentUp(absl::string_view bytes) { return Decode<AgentUp>(bytes); }
absl::StatusOr<AgentDown> DecodeAgentDown(absl::string_view bytes) { return Decode<AgentDown>(bytes); }
absl::StatusOr<LocalUp> DecodeLocalUp(absl::string_view bytes) { return Decode<LocalUp>(bytes); }
absl::StatusOr<LocalDown> DecodeLocalDown(absl::string_view bytes) { return Decode<LocalDown>(bytes); }

}  // namespace farandole
