#ifndef FARANDOLE_WORKER_SESSION_ITEM_READER_H_
#define FARANDOLE_WORKER_SESSION_ITEM_READER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/messages.h"
#include "worker/session/request_table.h"
#include "worker/session/work.h"

namespace farandole::worker::session {

// Turns items of the log into work for the executor: finds the requests that they answer (W6, W7 of docs/replay.md).
class ItemReader {
 public:
  explicit ItemReader(RequestTable* table) : table_(table) {}

  // The worker is inside join(): from here to the item that ends it, it adds zeros to what it has no request for.
  void Join(std::shared_ptr<Operation> join) { join_ = std::move(join); }
  bool joined() const { return join_ != nullptr; }

  // These requests are being taken back from a batch, and will be open again: no zeros of this worker stand for them.
  void TakingBack(uint32_t process_set, const std::vector<std::string>& names) {
    for (const std::string& name : names) taking_back_.emplace(process_set, name);
  }
  std::vector<RequestName> taking_back() const;
  void TakenBack(const Request& request) { taking_back_.erase({request.signature.process_set, request.name}); }

  // Everything that names requests. False: one of them is not open, and its name is in the text of the work's error;
  // the operations in the work are assigned none the less.
  bool Read(Item item, Work* work);

 private:
  bool ReadBatch(Batch batch, Work* work);
  bool ReadEnter(Enter enter, Work* work);
  bool ReadError(ErrorItem error, Work* work);
  bool ReadJoin(const JoinDone& done, Work* work);
  bool ReadSet(SetChanged changed, Work* work);
  bool Take(uint32_t process_set, absl::string_view name, Work* work);
  bool TakeOrZeros(uint32_t process_set, const std::string& name, Signature signature, Work* work);

  RequestTable* const table_;
  std::shared_ptr<Operation> join_;
  std::set<std::pair<uint32_t, std::string>> taking_back_;
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_ITEM_READER_H_
