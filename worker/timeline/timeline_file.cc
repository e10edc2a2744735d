#include "worker/timeline/timeline_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"

namespace farandole::worker::timeline {
namespace {

constexpr char kOpening[] = "[\n";
constexpr char kClosing[] = "\n]\n";

}  // namespace

absl::StatusOr<std::unique_ptr<TimelineFile>> TimelineFile::Open(const std::string& path, int64_t epoch_us) {
  // O_NONBLOCK: a FIFO that nobody reads would block here for ever.
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
  const int error = fd.valid() ? 0 : errno;
  struct stat info {};
  if (fd.valid() ? fstat(fd.get(), &info) == 0 && !S_ISREG(info.st_mode) : error == ENXIO) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write the timeline to ", path,
                                                   ": it is no regular file (a FIFO, a socket or a device); name a "
                                                   "file that can be written at any position"));
  }
  if (!fd.valid() || ftruncate(fd.get(), 0) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write the timeline to ", path, ": ", std::strerror(fd.valid() ? errno : error)));
  }
  auto file = std::unique_ptr<TimelineFile>(new TimelineFile(std::move(fd)));
  file->pending_ = kOpening;
  file->Announce(0, "", absl::StrCat(",\"start_time_since_epoch_in_micros\":", epoch_us));
  const absl::Status status = file->Flush();
  if (!status.ok()) return status;
  return file;
}

void TimelineFile::Event(absl::string_view fields) {
  absl::StrAppend(&pending_, empty_ ? "" : ",\n", "{", fields, "}");
  empty_ = false;
}

void TimelineFile::Announce(int pid, absl::string_view name, absl::string_view more) {
  Event(absl::StrCat(R"("name":"process_name","ph":"M","pid":)", pid, R"(,"args":{"name":)", JsonString(name), more,
                     "}"));
  Event(absl::StrCat(R"("name":"process_sort_index","ph":"M","pid":)", pid, R"(,"args":{"sort_index":)", pid, "}"));
}

int TimelineFile::PidOf(const std::string& tensor) {
  const auto added = pids_.try_emplace(tensor, static_cast<int>(pids_.size()) + 1);
  if (added.second) Announce(added.first->second, tensor, "");
  return added.first->second;
}

void TimelineFile::Begin(const std::string& tensor, absl::string_view activity, int64_t ts_us) {
  const int pid = PidOf(tensor);
  Event(absl::StrCat(R"("ph":"B","name":)", JsonString(activity), R"(,"ts":)", ts_us, R"(,"pid":)", pid));
}

void TimelineFile::End(const std::string& tensor, int64_t ts_us, absl::string_view args) {
  const int pid = PidOf(tensor);
  Event(absl::StrCat(R"("ph":"E","ts":)", ts_us, R"(,"pid":)", pid,
                     args.empty() ? "" : absl::StrCat(R"(,"args":{)", args, "}")));
}

void TimelineFile::Ready(const std::string& tensor, Rank rank, int64_t ts_us) {
  const int pid = PidOf(tensor);
  Event(absl::StrCat(R"("ph":"X","name":")", rank.value(), R"(","ts":)", ts_us, R"(,"dur":0,"pid":)", pid));
}

void TimelineFile::Mark(absl::string_view name, int64_t ts_us) {
  Event(absl::StrCat(R"("ph":"i","name":)", JsonString(name), R"(,"ts":)", ts_us, R"(,"s":"g","pid":0)"));
}

absl::Status TimelineFile::Flush() {
  if (pending_.empty()) return absl::OkStatus();
  const int64_t closing = end_ + static_cast<int64_t>(pending_.size());
  pending_ += kClosing;
  size_t written = 0;
  while (written < pending_.size()) {
    const ssize_t n =
        pwrite(fd_.get(), pending_.data() + written, pending_.size() - written, end_ + static_cast<int64_t>(written));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::UnavailableError(absl::StrCat("cannot write the timeline: ", std::strerror(errno)));
    written += n;
  }
  end_ = closing;
  pending_.clear();
  return absl::OkStatus();
}

}  // namespace farandole::worker::timeline
