#ifndef FARANDOLE_PROTO_CODEC_CODEC_WRITER_H_
#define FARANDOLE_PROTO_CODEC_CODEC_WRITER_H_

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/cut_text.h"
#include "proto/codec/schema.h"
#include "proto/types.h"

namespace farandole {

// Visitor of schema.h that appends every field that is not zero.
class FieldWriter {
 public:
  explicit FieldWriter(std::string* out) : out_(out), writer_(*out) {}

  void Value(uint32_t tag, const char*, uint32_t value) {
    if (value != 0) writer_.add_uint32(tag, value);
  }
  void Value(uint32_t tag, const char*, uint64_t value) {
    if (value != 0) writer_.add_uint64(tag, value);
  }
  void Value(uint32_t tag, const char*, int32_t value) {
    if (value != 0) writer_.add_int32(tag, value);
  }
  void Value(uint32_t tag, const char*, int64_t value) {
    if (value != 0) writer_.add_int64(tag, value);
  }
  void Value(uint32_t tag, const char*, bool value) {
    if (value) writer_.add_bool(tag, value);
  }
  // Also when zero: there are two zeros.
  void Value(uint32_t tag, const char*, double value) { writer_.add_double(tag, value); }
  void Value(uint32_t tag, const char* field, Rank value) { Value(tag, field, value.value()); }
  void Value(uint32_t tag, const char* field, Incarnation value) { Value(tag, field, value.value()); }

  template <typename E>
  void Enum(uint32_t tag, const char*, E value, E, E = E()) {
    if (value != E()) writer_.add_enum(tag, static_cast<int32_t>(value));
  }
  void Bytes(uint32_t tag, const char*, const std::string& value, size_t) {
    if (!value.empty()) writer_.add_bytes(tag, value);
  }
  // Whole: a part of a name is another name. Who makes one keeps to the bound; otherwise the peer refuses the message.
  void Name(uint32_t tag, const char* field, const std::string& value, size_t bytes_max) {
    Bytes(tag, field, value, bytes_max);
  }
  // For people: cut to the bound, above which the peer would refuse the message.
  void Text(uint32_t tag, const char*, const std::string& value, size_t bytes_max) {
    const absl::string_view text = CutText(value, bytes_max);
    if (!text.empty()) writer_.add_bytes(tag, text.data(), text.size());
  }

  // Also when all its fields are zero: that an entry or a case is there is information.
  template <typename M>
  void Message(uint32_t tag, const char* field, const M& message) {
    if constexpr (WireForm<M>::kOther) {
      Body(tag, WireForm<M>::To(message));
    } else {
      Body(tag, message);
    }
  }
  template <typename M>
  void Body(uint32_t tag, const M& message) {
    const size_t before = out_->size();
    {
      protozero::pbf_writer sub(writer_, tag);
      FieldWriter fields(out_, std::move(sub));
      Schema<M>::Fields(fields, message);
    }
    // protozero takes an empty message back.
    if (out_->size() == before) writer_.add_message(tag, "", 0);
  }

  // Only if it is there.
  template <typename M>
  void Optional(uint32_t tag, const char* field, const M& message, bool present) {
    if (present) Message(tag, field, message);
  }

  template <typename M>
  void Repeated(uint32_t tag, const char* field, const std::vector<M>& messages, size_t) {
    for (const M& message : messages) Message(tag, field, message);
  }
  void Repeated(uint32_t tag, const char*, const std::vector<std::string>& texts, size_t) {
    for (const std::string& text : texts) writer_.add_string(tag, text);
  }
  void Repeated(uint32_t tag, const char*, const std::vector<int64_t>& values, size_t) {
    writer_.add_packed_int64(tag, values.begin(), values.end());
  }
  void Repeated(uint32_t tag, const char*, const std::vector<uint64_t>& values, size_t) {
    writer_.add_packed_uint64(tag, values.begin(), values.end());
  }
  void Repeated(uint32_t tag, const char*, const std::vector<uint32_t>& values, size_t) {
    writer_.add_packed_uint32(tag, values.begin(), values.end());
  }
  void Repeated(uint32_t tag, const char*, const std::vector<Rank>& values, size_t) {
    if (values.empty()) return;
    protozero::packed_field_int32 field(writer_, tag);
    for (Rank value : values) field.add_element(value.value());
  }
  void Repeated(uint32_t tag, const char*, const std::vector<Incarnation>& values, size_t) {
    if (values.empty()) return;
    protozero::packed_field_uint64 field(writer_, tag);
    for (Incarnation value : values) field.add_element(value.value());
  }

  template <typename T, typename V>
  void Case(uint32_t tag, const char* field, Alternative<T>, const V& variant) {
    if (const T* message = std::get_if<T>(&variant)) Message(tag, field, *message);
  }

 private:
  FieldWriter(std::string* out, protozero::pbf_writer writer) : out_(out), writer_(std::move(writer)) {}

  std::string* const out_;
  protozero::pbf_writer writer_;
};

template <typename M>
std::string WriteMessage(const M& message) {
  std::string out;
  FieldWriter writer(&out);
  Schema<M>::Fields(writer, message);
  return out;
}

}  // namespace farandole

#endif  // FARANDOLE_PROTO_CODEC_CODEC_WRITER_H_
