#include "transport/verbs/fake_state.h"

#include <time.h>

#include <cstring>

#include "transport/verbs/fake_ibverbs.h"

farandole::transport::verbs::FakeVerbs fake_ibverbs;

namespace farandole::transport::verbs {

int64_t FakeNowUs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
}

void FakeMisuse(const char* what) {
  ++fake_ibverbs.misuses;
  fake_ibverbs.last_misuse = what;
}

ibv_gid FakeGid(int device, int index) {
  ibv_gid gid{};
  if (index < 2) {
    gid.raw[0] = 0xfe;
    gid.raw[1] = 0x80;
    gid.raw[15] = static_cast<uint8_t>(device + 1);
    return gid;
  }
  const uint8_t mapped[] = {0xff, 0xff, 127, 0, 0, static_cast<uint8_t>(device + 1)};
  std::memcpy(gid.raw + 10, mapped, sizeof mapped);
  return gid;
}

}  // namespace farandole::transport::verbs
