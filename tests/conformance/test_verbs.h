#ifndef FARANDOLE_TESTS_CONFORMANCE_TEST_VERBS_H_
#define FARANDOLE_TESTS_CONFORMANCE_TEST_VERBS_H_

#include <cstdlib>
#include <string>

#include "transport/verbs/options.h"

namespace farandole::conformance {

// Over the fake; with FARANDOLE_TEST_VERBS=real over the devices of this machine, the one of the address in
// FARANDOLE_TEST_HOST.
inline bool RealVerbs() {
  const char* const which = std::getenv("FARANDOLE_TEST_VERBS");
  return which != nullptr && std::string(which) == "real";
}

// A test needs //transport/verbs:fake_ibverbs.so as data.
inline transport::verbs::VerbsOptions TestVerbsOptions() {
  transport::verbs::VerbsOptions options;
  if (!RealVerbs()) options.library = "transport/verbs/fake_ibverbs.so";
  const char* const host = std::getenv("FARANDOLE_TEST_HOST");
  if (RealVerbs() && host != nullptr) options.listen_host = host;
  return options;
}

}  // namespace farandole::conformance

#endif  // FARANDOLE_TESTS_CONFORMANCE_TEST_VERBS_H_
