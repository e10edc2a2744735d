#include "controller/options.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller {
namespace {

using ::testing::HasSubstr;

std::string Error(const std::vector<std::string>& args) {
  const auto options = ParseOptions(args);
  EXPECT_FALSE(options.ok());
  return std::string(options.status().message());
}

TEST(OptionsTest, DefaultsServeLoopback) {
  const auto options = ParseOptions({"--key-fd", "3"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->listen, "127.0.0.1:0");
  EXPECT_EQ(options->key_fd, 3);
  EXPECT_EQ(options->log_level, hub::LogLevel::kWarning);
  EXPECT_EQ(options->settings.fusion_threshold_bytes, 128 << 20);
  EXPECT_FALSE(options->first);
  EXPECT_TRUE(ParseOptions({"--key-fd", "3", "--first"})->first);
}

TEST(OptionsTest, ValuesMayFollowAnEqualsSign) {
  const auto options = ParseOptions({"--key-file=/k", "--listen=[::1]:7", "--log-level=debug", "--ready-fd=4"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->key_file, "/k");
  EXPECT_EQ(options->listen, "[::1]:7");
  EXPECT_EQ(options->log_level, hub::LogLevel::kDebug);
  EXPECT_EQ(options->ready_fd, 4);
}

TEST(OptionsTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(Error({}), HasSubstr("--key-fd and --key-file"));
  EXPECT_THAT(Error({"--key-fd", "3", "--key-file", "f"}), HasSubstr("one of"));
  EXPECT_THAT(Error({"--key-fd", "x"}), HasSubstr("'x'"));
  EXPECT_THAT(Error({"--key-fd", "3", "--listen", "7"}), HasSubstr("HOST:PORT"));
  EXPECT_THAT(Error({"--key-fd", "3", "--listen", "h:70000"}), HasSubstr("HOST:PORT"));
  EXPECT_THAT(Error({"--key-fd", "3", "--log-level", "loud"}), HasSubstr("'loud'"));
  EXPECT_THAT(Error({"--key-fd", "3", "--tls-cert", "c"}), HasSubstr("go together"));
  EXPECT_THAT(Error({"--key-fd", "3", "--frobnicate", "1"}), HasSubstr("--frobnicate"));
  EXPECT_THAT(Error({"--key-fd"}), HasSubstr("--key-fd"));
}

TEST(OptionsTest, AnEmptyPathIsAMistake) {
  for (const char* name : {"--limits-file", "--audit-log"}) {
    const auto parsed = ParseOptions({"--key-fd", "3", name, ""});
    EXPECT_EQ(parsed.status().message(), std::string(name) + " must be a path, not ''");
  }
}

TEST(OptionsTest, BeyondLoopbackWantsTlsOrAClearWord) {
  EXPECT_THAT(Error({"--key-fd", "3", "--listen", "0.0.0.0:1"}), HasSubstr("--insecure"));
  EXPECT_THAT(Error({"--key-fd", "3", "--listen", "node7:1"}), HasSubstr("--insecure"));
  EXPECT_TRUE(ParseOptions({"--key-fd", "3", "--listen", "0.0.0.0:1", "--insecure"}).ok());
  EXPECT_TRUE(ParseOptions({"--key-fd", "3", "--listen", "[::]:1", "--tls-cert", "c", "--tls-key", "k"}).ok());
}

TEST(OptionsTest, ThePinnedCertificateIsTls) {
  const auto options = ParseOptions({"--key-fd", "3", "--listen", "0.0.0.0:1", "--tls-pinned"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->tls_pinned);
  EXPECT_TRUE(ParseOptions({"--print-certificate", "--key-fd", "3"})->print_certificate);
  EXPECT_THAT(Error({"--print-certificate"}), HasSubstr("--key-fd"));
  EXPECT_THAT(Error({"--key-fd", "3", "--tls-pinned", "--tls-cert", "c", "--tls-key", "k"}), HasSubstr("exclude"));
}

TEST(OptionsTest, WaitsAreBoundedByTheEnvironment) {
  EXPECT_EQ(ParseOptions({"--key-fd", "3"})->settings.Watch().stall.warn_after_ms, 60000);
  setenv("HOROVOD_STALL_CHECK_TIME_SECONDS", "1.5", 1);
  setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "120", 1);
  setenv("FARANDOLE_DIVERGENCE_SECONDS", "0", 1);
  const WatchConfig watch = ParseOptions({"--key-fd", "3"})->settings.Watch();
  EXPECT_EQ(watch.stall.warn_after_ms, 1500);
  EXPECT_EQ(watch.stall.shutdown_after_ms, 120000);
  EXPECT_EQ(watch.divergence_after_ms, 0);
  setenv("HOROVOD_STALL_CHECK_DISABLE", "1", 1);
  EXPECT_EQ(ParseOptions({"--key-fd", "3"})->settings.Watch().stall.shutdown_after_ms, 0);
  setenv("FARANDOLE_DIVERGENCE_SECONDS", "-1", 1);
  EXPECT_THAT(Error({"--key-fd", "3"}), HasSubstr("FARANDOLE_DIVERGENCE_SECONDS"));
  for (const char* name : {"HOROVOD_STALL_CHECK_TIME_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                           "FARANDOLE_DIVERGENCE_SECONDS", "HOROVOD_STALL_CHECK_DISABLE"}) {
    unsetenv(name);
  }
}

TEST(OptionsTest, BatchingIsTheLaunchers) {
  EXPECT_EQ(ParseOptions({"--key-fd", "3"})->settings.batch_window_ms, 0u);
  EXPECT_EQ(ParseOptions({"--key-fd", "3"})->settings.cache_capacity, 1024u);
  EXPECT_FALSE(ParseOptions({"--key-fd", "3"})->settings.deterministic);
  setenv("HOROVOD_CYCLE_TIME", "0.5", 1);
  setenv("HOROVOD_CACHE_CAPACITY", "0", 1);
  setenv("FARANDOLE_DETERMINISTIC", "1", 1);
  EXPECT_EQ(ParseOptions({"--key-fd", "3"})->settings.batch_window_ms, 1u) << "in whole milliseconds";
  EXPECT_EQ(ParseOptions({"--key-fd", "3"})->settings.cache_capacity, 0u);
  EXPECT_TRUE(ParseOptions({"--key-fd", "3"})->settings.deterministic);
  for (const char* name : {"HOROVOD_CYCLE_TIME", "HOROVOD_CACHE_CAPACITY"}) {
    setenv(name, "-1", 1);
    EXPECT_THAT(Error({"--key-fd", "3"}), HasSubstr(name));
    unsetenv(name);
  }
  unsetenv("FARANDOLE_DETERMINISTIC");
}

TEST(OptionsTest, TheFusionThresholdIsTheLaunchers) {
  setenv("HOROVOD_FUSION_THRESHOLD", "1024", 1);
  EXPECT_EQ(ParseOptions({"--key-fd", "3"})->settings.fusion_threshold_bytes, 1024);
  setenv("FARANDOLE_FUSION_THRESHOLD", "2048", 1);
  EXPECT_EQ(ParseOptions({"--key-fd", "3"})->settings.fusion_threshold_bytes, 2048);
  unsetenv("FARANDOLE_FUSION_THRESHOLD");
  setenv("HOROVOD_FUSION_THRESHOLD", "many", 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(ParseOptions({"--key-fd", "3"}).status())) << "the usage would not help";
  EXPECT_THAT(Error({"--key-fd", "3"}), HasSubstr("HOROVOD_FUSION_THRESHOLD"));
  unsetenv("HOROVOD_FUSION_THRESHOLD");
}

}  // namespace
}  // namespace farandole::controller
