#include "controller/query/json_text.h"

#include <google/protobuf/descriptor.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace farandole::controller::query {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void AppendString(absl::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(out, "\\", absl::string_view(&c, 1));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppend(out, "\\u00", absl::Hex(static_cast<int>(c), absl::kZeroPad2));
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

// JOB_STATE_RUNNING of JobState: "running".
std::string Word(const EnumValueDescriptor& value) {
  std::string prefix;
  for (const char c : value.type()->name()) {
    if (absl::ascii_isupper(c) && !prefix.empty()) prefix.push_back('_');
    prefix.push_back(absl::ascii_toupper(c));
  }
  return absl::AsciiStrToLower(absl::StripPrefix(absl::string_view(value.name()), prefix + "_"));
}

void AppendMessage(const Message& message, std::string* out);

// `at` < 0: the field is not repeated.
void AppendValue(const Message& m, const FieldDescriptor* f, int at, std::string* out) {
  const Reflection& r = *m.GetReflection();
  const bool one = at < 0;
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrAppend(out, one ? r.GetInt32(m, f) : r.GetRepeatedInt32(m, f, at));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrAppend(out, one ? r.GetInt64(m, f) : r.GetRepeatedInt64(m, f, at));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrAppend(out, one ? r.GetUInt32(m, f) : r.GetRepeatedUInt32(m, f, at));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrAppend(out, one ? r.GetUInt64(m, f) : r.GetRepeatedUInt64(m, f, at));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrAppend(out, one ? r.GetDouble(m, f) : r.GetRepeatedDouble(m, f, at));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return absl::StrAppend(out, one ? r.GetFloat(m, f) : r.GetRepeatedFloat(m, f, at));
    case FieldDescriptor::CPPTYPE_BOOL:
      return absl::StrAppend(out, (one ? r.GetBool(m, f) : r.GetRepeatedBool(m, f, at)) ? "true" : "false");
    case FieldDescriptor::CPPTYPE_ENUM:
      return AppendString(Word(*(one ? r.GetEnum(m, f) : r.GetRepeatedEnum(m, f, at))), out);
    case FieldDescriptor::CPPTYPE_STRING:
      return AppendString(one ? r.GetString(m, f) : r.GetRepeatedString(m, f, at), out);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AppendMessage(one ? r.GetMessage(m, f) : r.GetRepeatedMessage(m, f, at), out);
  }
}

void AppendMessage(const Message& message, std::string* out) {
  const auto* const type = message.GetDescriptor();
  out->push_back('{');
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    absl::StrAppend(out, i == 0 ? "\"" : ",\"", field->name(), "\":");
    if (!field->is_repeated()) {
      AppendValue(message, field, -1, out);
      continue;
    }
    out->push_back('[');
    const int size = message.GetReflection()->FieldSize(message, field);
    for (int k = 0; k < size; ++k) {
      if (k > 0) out->push_back(',');
      AppendValue(message, field, k, out);
    }
    out->push_back(']');
  }
  out->push_back('}');
}

}  // namespace

std::string JsonText(const google::protobuf::Message& message) {
  std::string text;
  AppendMessage(message, &text);
  return text;
}

}  // namespace farandole::controller::query
