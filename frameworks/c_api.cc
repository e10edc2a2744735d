#include "frameworks/c_api.h"

#include <memory>
#include <string>

#include "frameworks/c_api_answer.h"
#include "proto/version.h"
#include "worker/library.h"
#include "worker/shm/shared_memory.h"

namespace {

using farandole::Member;
using farandole::frameworks::Answer;
using farandole::frameworks::Fail;
using farandole::frameworks::InChild;
using farandole::frameworks::NotInitialized;
using farandole::worker::Library;
using farandole::worker::Runtime;
using farandole::worker::completion::Code;

int FromMember(int (*get)(const Member& self)) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  return runtime == nullptr ? Fail(NotInitialized()) : get(runtime->membership().self());
}

}  // namespace

extern "C" {

const char* farandole_version(void) { return farandole::kVersion; }

const char* farandole_last_error(void) { return farandole::frameworks::LastError(); }

int farandole_init_begin(void) {
  int code;
  return InChild(&code) ? code : Answer(Library::Get().InitBegin());
}

int farandole_init_poll(int timeout_ms) {
  int code;
  return InChild(&code) ? code : Answer(Library::Get().InitPoll(timeout_ms));
}

int farandole_init_cancel(void) {
  int code;
  if (InChild(&code)) return code;
  Library::Get().InitCancel();
  return FARANDOLE_OK;
}

int farandole_shutdown_begin(void) {
  int code;
  if (InChild(&code)) return code;
  Library::Get().ShutdownBegin();
  return FARANDOLE_OK;
}

int farandole_shutdown_poll(int timeout_ms) {
  int code;
  return InChild(&code) ? code : Answer(Library::Get().ShutdownPoll(timeout_ms));
}

int farandole_is_initialized(void) {
  int code;
  return InChild(&code) ? code : (Library::Get().running() ? 1 : 0);
}

int farandole_rank(void) {
  return FromMember([](const Member& self) { return self.rank.value(); });
}

int farandole_size(void) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  return runtime == nullptr ? Fail(NotInitialized()) : static_cast<int>(runtime->membership().view().members.size());
}

int farandole_local_rank(void) {
  return FromMember([](const Member& self) { return self.local_rank; });
}

int farandole_local_size(void) {
  return FromMember([](const Member& self) { return self.local_size; });
}

int farandole_cross_rank(void) {
  return FromMember([](const Member& self) { return self.cross_rank; });
}

int farandole_cross_size(void) {
  return FromMember([](const Member& self) { return self.cross_size; });
}

int farandole_is_homogeneous(void) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  const farandole::View view = runtime->membership().view();
  for (const Member& member : view.members) {
    if (member.local_size != view.members[0].local_size) return 0;
  }
  return 1;
}

int farandole_membership_changes(int64_t* added, int64_t* removed) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  if (added == nullptr || removed == nullptr) {
    return Fail({Code::kInvalidArgument, "farandole_membership_changes: no place for the answer"});
  }
  const farandole::MembershipNotice notice = runtime->membership().notice();
  *added = notice.added;
  *removed = notice.removed;
  return FARANDOLE_OK;
}

int farandole_confirm_state() {
  int code;
  if (InChild(&code)) return code;
  return Library::Get().ConfirmState() ? FARANDOLE_OK : Fail(NotInitialized());
}

int farandole_start_timeline(const char* path, int mark_cycles) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  if (path == nullptr) return Fail({Code::kInvalidArgument, "a timeline wants the path of a file"});
  const absl::Status started = runtime->StartTimeline(path, mark_cycles != 0);
  return started.ok() ? FARANDOLE_OK : Fail({Code::kInvalidArgument, std::string(started.message())});
}

int farandole_stop_timeline(void) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  runtime->StopTimeline();
  return FARANDOLE_OK;
}

int farandole_memory_allocate(uint32_t process_set, int64_t bytes, void** data) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  if (data == nullptr) return Fail({Code::kInvalidArgument, "memory_allocate: `data` is NULL"});
  const absl::StatusOr<char*> memory = runtime->membership().AllocateShared(process_set, bytes);
  if (memory.ok()) {
    *data = *memory;
    return FARANDOLE_OK;
  }
  const bool wrong = absl::IsInvalidArgument(memory.status());
  return Fail({wrong ? Code::kInvalidArgument : Code::kUnavailable, std::string(memory.status().message())});
}

int farandole_memory_free(void* data) {
  int code;
  if (InChild(&code)) return code;
  if (farandole::worker::shm::SharedMemory::Process().Free(static_cast<char*>(data))) return FARANDOLE_OK;
  return Fail({Code::kInvalidArgument, "memory_free: this is no address that memory_allocate has returned"});
}

}  // extern "C"
