// Any head of a request at the controller's front door.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "base/door_proof.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string credentials =
      farandole::DoorCredentials(absl::string_view(reinterpret_cast<const char*>(data), size));
  const auto state = farandole::ProvesAnyToken(credentials, {"new", "old"}, 1000);
  // What opens is remembered by its proof.
  if (state != farandole::TokenState::kWrong && farandole::DoorProof(credentials).size() != 64) std::abort();
  return 0;
}
