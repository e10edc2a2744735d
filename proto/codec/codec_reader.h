#ifndef FARANDOLE_PROTO_CODEC_CODEC_READER_H_
#define FARANDOLE_PROTO_CODEC_CODEC_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/codec/schema.h"
#include "proto/codec/utf8.h"
#include "proto/types.h"

namespace farandole {

// What the parts of one message have in common while it is read.
struct Reading {
  // An entry that has two bytes on the wire can have two hundred in memory. A message may take 16 MiB, for most of what
  // there is, and 8 bytes for each that came, but never more than 256 MiB. A vector that grows may hold twice its part.
  explicit Reading(size_t wire_bytes)
      : budget_bytes(std::min(size_t{256} << 20, (size_t{16} << 20) + 8 * std::min(wire_bytes, size_t{1} << 32))) {}

  size_t budget_bytes;  // what may still be allocated
  std::string error;    // "Message.field: problem"; "" = none so far
};

// Fills `message` from `bytes`. False if they are not what a peer may send; `reading` then has the error.
template <typename M>
bool ReadMessage(protozero::data_view bytes, M& message, Reading* reading);

// Visitor of schema.h that sets every field to protobuf's default, zero. Structs have kinder ones (a scale of 1).
class FieldZeroer {
 public:
  template <typename T>
  void Value(uint32_t, const char*, T& value) {
    value = T();
  }
  void Value(uint32_t, const char*, Rank& value) { value = Rank(0); }
  template <typename M>
  void Message(uint32_t, const char*, M& message) {
    message = M();
    if constexpr (!WireForm<M>::kOther) Schema<M>::Fields(*this, message);
  }
  template <typename E>
  void Enum(uint32_t, const char*, E& value, E, E = E()) {
    value = E();
  }
  template <typename M>
  void Optional(uint32_t tag, const char* field, M& message, bool) {
    Message(tag, field, message);
  }
  // Empty in every new struct.
  void Name(uint32_t, const char*, std::string&, size_t) {}
  void Text(uint32_t, const char*, std::string&, size_t) {}
  void Bytes(uint32_t, const char*, std::string&, size_t) {}
  template <typename T>
  void Repeated(uint32_t, const char*, std::vector<T>&, size_t) {}
  template <typename T, typename V>
  void Case(uint32_t, const char*, Alternative<T>, V&) {}
};

// Visitor of schema.h that reads the field at which it stands and passes over all others. After the first error it
// reads nothing more.
class FieldReader {
 public:
  // `reading` has no error and outlives the reader.
  FieldReader(const char* message, protozero::data_view bytes, Reading* reading)
      : message_(message), reader_(bytes), reading_(reading) {}

  // Moves to the next field; false at the end and after an error.
  bool Next() {
    taken_ = false;
    bool more = false;
    Guard("next field", [&] { more = reader_.next(); });
    return more && !failed();
  }
  // Skips a field that no visit has taken.
  void Finish() {
    if (!taken_) Guard("unknown field", [&] { reader_.skip(); });
  }
  void Fail(const char* field, absl::string_view problem) {
    if (!failed()) reading_->error = absl::StrCat(message_, ".", field, ": ", problem);
  }
  bool failed() const { return !reading_->error.empty(); }

  template <typename T>
  void Value(uint32_t tag, const char* field, T& value) {
    if (Take(tag, field, WireType<T>())) Guard(field, [&] { Get(value); });
  }
  // -1: not known.
  void Value(uint32_t tag, const char* field, Rank& value) {
    int32_t number = -1;
    if (!Take(tag, field, protozero::pbf_wire_type::varint)) return;
    Guard(field, [&] { number = reader_.get_int32(); });
    if (number < -1 || number >= kMembersMax) return Fail(field, absl::StrCat("there is no rank ", number));
    value = Rank(number);
  }

  template <typename E>
  void Enum(uint32_t tag, const char* field, E& value, E greatest, E unknown = kUnknownValue<E>) {
    if (!Take(tag, field, protozero::pbf_wire_type::varint)) return;
    int32_t number = 0;
    Guard(field, [&] { number = reader_.get_enum(); });
    const bool known = number >= 0 && number <= static_cast<int32_t>(greatest);
    value = known ? static_cast<E>(number) : unknown;
  }

  void Bytes(uint32_t tag, const char* field, std::string& value, size_t bytes_max) {
    if (!Take(tag, field, protozero::pbf_wire_type::length_delimited)) return;
    const protozero::data_view view = View(field);
    if (view.size() > bytes_max) {
      return Fail(field, absl::StrCat(view.size(), " bytes, at most ", bytes_max, " are allowed"));
    }
    if (Spend(field, view.size())) value.assign(view.data(), view.size());
  }
  void Name(uint32_t tag, const char* field, std::string& value, size_t bytes_max) {
    Text(tag, field, value, bytes_max);
  }
  void Text(uint32_t tag, const char* field, std::string& value, size_t bytes_max) {
    if (reader_.tag() != tag) return;
    Bytes(tag, field, value, bytes_max);
    if (!IsUtf8(value)) Fail(field, "not UTF-8");
  }

  template <typename M>
  void Message(uint32_t tag, const char* field, M& message) {
    if (Take(tag, field, protozero::pbf_wire_type::length_delimited)) Read(field, message);
  }

  template <typename M>
  void Optional(uint32_t tag, const char* field, M& message, bool) {
    Message(tag, field, message);
  }

  template <typename M>
  void Repeated(uint32_t tag, const char* field, std::vector<M>& messages, size_t count_max) {
    if (!Take(tag, field, protozero::pbf_wire_type::length_delimited)) return;
    if (!HasRoom(field, messages, count_max)) return;
    messages.emplace_back();
    Read(field, messages.back());
  }
  void Repeated(uint32_t tag, const char* field, std::vector<std::string>& texts, size_t count_max) {
    if (reader_.tag() != tag) return;
    if (!HasRoom(field, texts, count_max)) return;
    texts.emplace_back();
    Text(tag, field, texts.back(), kNameBytesMax);
  }
  // Dimensions: never negative.
  void Repeated(uint32_t tag, const char* field, std::vector<int64_t>& values, size_t count_max) {
    Numbers(tag, field, [&](uint64_t value) {
      if (static_cast<int64_t>(value) < 0) return Fail(field, "negative");
      if (HasRoom(field, values, count_max)) values.push_back(static_cast<int64_t>(value));
    });
  }
  void Repeated(uint32_t tag, const char* field, std::vector<uint64_t>& values, size_t count_max) {
    Numbers(tag, field, [&](uint64_t value) {
      if (HasRoom(field, values, count_max)) values.push_back(value);
    });
  }
  void Repeated(uint32_t tag, const char* field, std::vector<uint32_t>& values, size_t count_max) {
    Numbers(tag, field, [&](uint64_t value) {
      if (HasRoom(field, values, count_max)) values.push_back(static_cast<uint32_t>(value));
    });
  }
  void Repeated(uint32_t tag, const char* field, std::vector<Rank>& values, size_t count_max) {
    Numbers(tag, field, [&](uint64_t value) {
      // Negative numbers are great ones here.
      if (value >= kMembersMax) return Fail(field, absl::StrCat("there is no rank ", static_cast<int64_t>(value)));
      if (HasRoom(field, values, count_max)) values.push_back(Rank(static_cast<int32_t>(value)));
    });
  }
  void Repeated(uint32_t tag, const char* field, std::vector<Incarnation>& values, size_t count_max) {
    Numbers(tag, field, [&](uint64_t value) {
      if (HasRoom(field, values, count_max)) values.push_back(Incarnation(value));
    });
  }

  // A field given twice, and the case of a oneof given after another, replace what was read before.
  template <typename T, typename V>
  void Case(uint32_t tag, const char* field, Alternative<T>, V& variant) {
    if (!Take(tag, field, protozero::pbf_wire_type::length_delimited)) return;
    Read(field, variant.template emplace<T>());
  }

 private:
  template <typename T>
  static constexpr protozero::pbf_wire_type WireType() {
    return std::is_same<T, double>::value ? protozero::pbf_wire_type::fixed64 : protozero::pbf_wire_type::varint;
  }

  bool Take(uint32_t tag, const char* field, protozero::pbf_wire_type type) {
    if (reader_.tag() != tag) return false;
    taken_ = true;
    if (reader_.wire_type() != type) Fail(field, "wrong wire type");
    return !failed();
  }
  template <typename F>
  void Guard(const char* field, F get) {
    try {
      get();
    } catch (const protozero::exception&) {
      Fail(field, "malformed or truncated");
    }
  }
  protozero::data_view View(const char* field) {
    protozero::data_view view;
    Guard(field, [&] { view = reader_.get_view(); });
    return view;
  }
  template <typename M>
  void Read(const char* field, M& message) {
    const protozero::data_view view = View(field);
    if (failed()) return;
    if constexpr (WireForm<M>::kOther) {
      typename WireForm<M>::Type form;
      if (!ReadMessage(view, form, reading_) || !Spend(field, WireForm<M>::BytesOf(form))) return;
      if (const char* problem = WireForm<M>::From(form, &message)) Fail(field, problem);
    } else {
      ReadMessage(view, message, reading_);
    }
  }
  // For one more entry.
  template <typename T>
  bool HasRoom(const char* field, const std::vector<T>& entries, size_t count_max) {
    if (entries.size() >= count_max) Fail(field, absl::StrCat("more than ", count_max, " entries"));
    return Spend(field, sizeof(T));
  }
  bool Spend(const char* field, size_t bytes) {
    if (bytes > reading_->budget_bytes) {
      Fail(field, "the message would take more memory than its size allows");
    } else {
      reading_->budget_bytes -= bytes;
    }
    return !failed();
  }
  // Packed or one by one: a parser has to know both.
  template <typename F>
  void Numbers(uint32_t tag, const char* field, F add) {
    if (reader_.tag() != tag) return;
    if (reader_.wire_type() == protozero::pbf_wire_type::length_delimited) {
      taken_ = true;
      Guard(field, [&] {
        for (uint64_t value : reader_.get_packed_uint64()) {
          if (failed()) return;
          add(value);
        }
      });
      return;
    }
    uint64_t value = 0;
    Value(tag, field, value);
    if (!failed()) add(value);
  }

  void Get(uint32_t& value) { value = reader_.get_uint32(); }
  void Get(uint64_t& value) { value = reader_.get_uint64(); }
  void Get(int32_t& value) { value = reader_.get_int32(); }
  void Get(int64_t& value) { value = reader_.get_int64(); }
  // get_bool() would read a byte beyond the end if the tag is the last one.
  void Get(bool& value) { value = reader_.get_uint64() != 0; }
  void Get(double& value) { value = reader_.get_double(); }
  void Get(Incarnation& value) { value = Incarnation(reader_.get_uint64()); }

  const char* const message_;
  protozero::pbf_reader reader_;
  Reading* const reading_;
  bool taken_ = false;
};

template <typename M>
bool ReadMessage(protozero::data_view bytes, M& message, Reading* reading) {
  FieldZeroer zeroer;
  Schema<M>::Fields(zeroer, message);
  FieldReader reader(Schema<M>::kName, bytes, reading);
  while (reader.Next()) {
    Schema<M>::Fields(reader, message);
    reader.Finish();
  }
  if (const char* problem = Schema<M>::Problem(message)) reader.Fail("content", problem);
  return !reader.failed();
}

}  // namespace farandole

#endif  // FARANDOLE_PROTO_CODEC_CODEC_READER_H_
