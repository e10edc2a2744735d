#ifndef FARANDOLE_TRANSPORT_VERBS_FAKE_STATE_H_
#define FARANDOLE_TRANSPORT_VERBS_FAKE_STATE_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace farandole::transport::verbs {

// What all parts of the fake share.
int64_t FakeNowUs();
// Notes a call or access that a real device would take badly.
void FakeMisuse(const char* what);
// An address of port 1 of this device: 0 and 1 are link-local, 2 and 3 of IPv4; odd ones are RoCE v2.
inline constexpr int kFakeGids = 4;
ibv_gid FakeGid(int device, int index);
// As Soft-RoCE has it.
inline constexpr uint32_t kFakeMessageBytesMax = 8 << 20;

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_FAKE_STATE_H_
