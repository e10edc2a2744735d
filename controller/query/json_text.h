#ifndef FARANDOLE_CONTROLLER_QUERY_JSON_TEXT_H_
#define FARANDOLE_CONTROLLER_QUERY_JSON_TEXT_H_

#include <google/protobuf/message.h>

#include <string>

namespace farandole::controller::query {

// A message as one line of JSON for scripts: every field under its name in the .proto, also if it has its default;
// numbers of any width as numbers (protobuf's own mapping makes strings of those with 64 bits), enum values as
// lower-case words without the name of their type ("replaying"). No maps, no bytes.
std::string JsonText(const google::protobuf::Message& message);

}  // namespace farandole::controller::query

#endif  // FARANDOLE_CONTROLLER_QUERY_JSON_TEXT_H_
