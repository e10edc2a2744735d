// What the peer of an RDMA channel, or its device, may do to one that sends and receives, on Link, Connection and both
// of its sides. The first byte says how many queue pairs there are. A record: what % 8 is
//   0  a message comes, of these bytes
//   1  a message comes that is right about what was taken: kind, id, number, tag, two bytes of length, what follows
//   2  the last part of a large send comes: queue pair, id, number
//   3  of a queue pair, the first byte, as many sends are completed as the record has bytes
//   4  this end sends: tag, size (of kSizes)
//   5  this end receives: the same
//   6  this end discards what is below a tag
//   7  first byte % 4: a completion is an error; bytes are written where messages come; the rest comes on the socket;
//      this end closes
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "tests/fuzz/played_channel.h"
#include "tests/fuzz/record.h"

namespace {

constexpr int kRecordsMax = 96;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  absl::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  farandole::fuzz::PlayedChannel channel(1 + data[0] % 3);
  farandole::fuzz::Record record;
  for (int i = 0; i < kRecordsMax && farandole::fuzz::TakeRecord(&rest, &record); ++i) channel.Do(record);
  return 0;
}
