#include "controller/token/key_file.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::controller::token {
namespace {

files::FileWatch<ControllerKeys>::Plan PlanFor(const std::string& path) {
  return {[path] { return ReadKeys(-1, path); }, "keys", path,
          [path](const ControllerKeys& before, const ControllerKeys& now) {
            return absl::StrCat("keys read again from ", path, ": ", now.size(), now.size() == 1 ? " key" : " keys",
                                now.front() == before.front() ? "" : ", the first is another than before");
          }};
}

}  // namespace

KeyFile::KeyFile(const std::string& path, KeyRing* keys, EventLoop* loop, const hub::Log* log, audit::Audit audit)
    : FileWatch(PlanFor(path), keys, loop, log, std::move(audit)) {}

}  // namespace farandole::controller::token
