// After every test the fake of libibverbs, if one was loaded, holds nothing any more, and has seen nothing that a
// device would take badly. Linking this is enough.

#include <dlfcn.h>

#include "gtest/gtest.h"
#include "tests/conformance/test_verbs.h"
#include "transport/verbs/fake_ibverbs.h"

namespace farandole::conformance {
namespace {

transport::verbs::FakeVerbs* LoadedFake() {
  void* const library = dlopen(TestVerbsOptions().library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  // Null: a real one. Whoever has opened it keeps it.
  auto* const fake = static_cast<transport::verbs::FakeVerbs*>(dlsym(library, "fake_ibverbs"));
  dlclose(library);
  return fake;
}

class CleanFake final : public testing::EmptyTestEventListener {
  // The fixture, with its transports, is gone.
  void OnTestEnd(const testing::TestInfo&) override {
    transport::verbs::FakeVerbs* const fake = LoadedFake();
    if (fake == nullptr) return;
    EXPECT_EQ(fake->misuses.exchange(0), 0) << fake->last_misuse.load();
    EXPECT_EQ(fake->not_ready.exchange(0), 0) << "something was sent that the receiver had no room for";
    EXPECT_EQ(fake->overruns.exchange(0), 0) << "a completion queue was too small";
    EXPECT_EQ(fake->live_objects.load(), 0);
    EXPECT_EQ(fake->locked_bytes.load(), 0);
  }
};

[[maybe_unused]] const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new CleanFake());
  return true;
}();

}  // namespace
}  // namespace farandole::conformance
