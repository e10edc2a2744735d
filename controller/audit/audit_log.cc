#include "controller/audit/audit_log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cut_text.h"
#include "base/job_name.h"
#include "base/json_text.h"

namespace farandole::controller::audit {
namespace {

// Of a text in a line.
constexpr size_t kTextBytesMax = 256;
// "}\n", and a "\n" before a line.
constexpr size_t kEndBytesMax = 3;

// What a share grows by. The clock may be set back.
double LinesOf(int64_t passed_ms) {
  return static_cast<double>(std::max<int64_t>(passed_ms, 0)) / 1000 * AuditLog::kPerSecond;
}

// Whether a line can be written without waiting: of a pipe poll() says so when there is room for PIPE_BUF bytes.
bool HasRoom(int fd) {
  pollfd entry{fd, POLLOUT, 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & POLLOUT) != 0;
}

void Add(absl::string_view name, absl::string_view value, std::string* line) {
  if (value.empty()) return;
  absl::StrAppend(line, ",", JsonString(name), ":", JsonString(CutText(value, kTextBytesMax)));
}

void Add(absl::string_view name, uint64_t count, std::string* line) {
  if (count > 0) absl::StrAppend(line, ",", JsonString(name), ":", count);
}

// "2026-01-31T23:59:59.123Z".
std::string TimeText(int64_t now_ms) {
  const time_t seconds = now_ms / 1000;
  tm parts{};
  char text[64] = "";
  if (gmtime_r(&seconds, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return absl::StrCat(text, ".", absl::Dec(now_ms % 1000, absl::kZeroPad3), "Z");
}

std::string Beginning(const AuditEvent& event, int64_t now_ms) {
  std::string line = absl::StrCat("{\"time\":", JsonString(TimeText(now_ms)), ",\"event\":", JsonString(event.event));
  if (event.proven && !event.job.empty()) Add("namespace", NamespaceOf(event.job), &line);
  Add(event.proven ? "job" : "claimed_job", event.job, &line);
  Add("peer", event.peer, &line);
  return line;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path, std::function<int64_t()> now_ms) {
  // Not blocking: of a FIFO without a reader open() would wait.
  UniqueFd fd(path == "-" ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                          : open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!fd.valid()) {
    return absl::InvalidArgumentError(absl::StrCat("--audit-log: cannot open ", path, ": ", std::strerror(errno)));
  }
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(fd), std::move(now_ms)));
}

AuditLog::Share* AuditLog::ShareOf(const AuditEvent& event, int64_t now_ms) {
  if (event.proven && event.job.empty()) return nullptr;
  std::string of;
  if (event.proven) of = std::string(NamespaceOf(event.job));
  if (shares_.size() >= kSharesMax && shares_.count(of) == 0) {
    // Of those that are whole again nothing is to be remembered.
    for (auto it = shares_.begin(); it != shares_.end();) {
      const Share& share = it->second;
      const bool whole = share.left_out == 0 && share.lines + LinesOf(now_ms - share.at_ms) >= kBurst;
      it = whole ? shares_.erase(it) : std::next(it);
    }
    if (shares_.size() >= kSharesMax) of.clear();
  }
  Share* const share = &shares_[of];
  share->lines = std::min(kBurst, share->lines + LinesOf(now_ms - share->at_ms));
  share->at_ms = now_ms;
  return share;
}

void AuditLog::Write(const AuditEvent& event) {
  absl::MutexLock lock(&mutex_);
  const int64_t now_ms = now_ms_();
  Share* const share = ShareOf(event, now_ms);
  if (share != nullptr && share->lines < 1) {
    ++share->left_out;
    return;
  }
  if (share != nullptr) share->lines -= 1;
  std::string line = Beginning(event, now_ms);
  Add("left_out", share == nullptr ? 0 : share->left_out, &line);
  Add("lost", lost_, &line);
  std::string details;
  Add("method", event.method, &details);
  Add("agent", event.agent, &details);
  Add("host", event.host, &details);
  Add("why", event.why, &details);
  // Of texts that are nothing but what has to be escaped there may be too much.
  if (line.size() + details.size() + kEndBytesMax <= kLineBytesMax) line += details;
  if (Put(line + "}\n") && share != nullptr) share->left_out = 0;
}

bool AuditLog::Put(const std::string& line) {
  const std::string whole = absl::StrCat(torn_ ? "\n" : "", line);
  const ssize_t n = HasRoom(fd_.get()) ? write(fd_.get(), whole.data(), whole.size()) : 0;
  if (n == static_cast<ssize_t>(whole.size())) {
    lost_ = 0;
    torn_ = false;
    return true;
  }
  ++lost_;
  if (n > 0) torn_ = true;
  return false;
}

}  // namespace farandole::controller::audit
