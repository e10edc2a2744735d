#include "proto/codec.h"

#include "proto/codec_reader.h"
#include "proto/codec_writer.h"
#include "proto/schema_messages.h"

namespace farandole {
namespace {

template <typename M>
absl::StatusOr<M> Decode(absl::string_view bytes) {
  M message;
  std::string error;
  if (!ReadMessage(protozero::data_view(bytes.data(), bytes.size()), message, &error)) {
    return absl::InvalidArgumentError(error);
  }
  return message;
}

}  // namespace

std::string Encode(const AgentUp& message) { return WriteMessage(message); }
std::string Encode(const AgentDown& message) { return WriteMessage(message); }
std::string Encode(const LocalUp& message) { return WriteMessage(message); }
std::string Encode(const LocalDown& message) { return WriteMessage(message); }

absl::StatusOr<AgentUp> DecodeAgentUp(absl::string_view bytes) { return Decode<AgentUp>(bytes); }
absl::StatusOr<AgentDown> DecodeAgentDown(absl::string_view bytes) { return Decode<AgentDown>(bytes); }
absl::StatusOr<LocalUp> DecodeLocalUp(absl::string_view bytes) { return Decode<LocalUp>(bytes); }
absl::StatusOr<LocalDown> DecodeLocalDown(absl::string_view bytes) { return Decode<LocalDown>(bytes); }

}  // namespace farandole
