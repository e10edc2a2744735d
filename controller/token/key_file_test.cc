#include "controller/token/key_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/hub/noted_log_testing.h"

namespace farandole::controller::token {
namespace {

using Lines = hub::NotedLog::Lines;

constexpr char kOld[] = "the key of before";
constexpr char kNew[] = "the key from now on";

class KeyFileTest : public ::testing::Test {
 protected:
  KeyFileTest() { EXPECT_EQ(mkdir(folder_.c_str(), 0700), 0); }
  // By a link to a folder of its own, as Kubernetes does it.
  void Exchange(const std::string& text) {
    const std::string next = absl::StrCat(folder_, "/", ++version_);
    EXPECT_EQ(mkdir(next.c_str(), 0700), 0);
    std::ofstream(next + "/key") << text;
    EXPECT_EQ(chmod((next + "/key").c_str(), 0600), 0);
    EXPECT_EQ(symlink(next.c_str(), (folder_ + "/new").c_str()), 0);
    EXPECT_EQ(rename((folder_ + "/new").c_str(), (folder_ + "/data").c_str()), 0);
  }
  void Look(int times) {
    for (int i = 0; i < times; ++i) file_.LookFromLoop();
  }

  inline static int tests_ = 0;
  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/keys-", getpid(), "-", ++tests_);
  const std::string path_ = folder_ + "/data/key";
  KeyRing keys_{ControllerKeys{kOld}};
  hub::NotedLog log_;
  EventLoop loop_{"test"};
  KeyFile file_{path_, &keys_, &loop_, &log_};
  int version_ = 0;
};

TEST_F(KeyFileTest, ExchangedKeysAreTakenAndSaidButNotTold) {
  Exchange(absl::StrCat(kOld, "\n"));
  Look(3);
  EXPECT_EQ(log_.Take(), Lines());
  Exchange(absl::StrCat(kNew, "\n", kOld, "\n"));
  Look(3);
  EXPECT_EQ(*keys_.Get(), (ControllerKeys{kNew, kOld}));
  EXPECT_EQ(log_.Take(),
            Lines{absl::StrCat("keys read again from ", path_, ": 2 keys, the first is another than before")});
  Exchange(absl::StrCat(kNew, "\n"));
  Look(3);
  EXPECT_EQ(*keys_.Get(), ControllerKeys{kNew});
  EXPECT_EQ(log_.Take(), Lines{absl::StrCat("keys read again from ", path_, ": 1 key")});
}

TEST_F(KeyFileTest, WhatOneLookHasFoundMayBeHalfOfIt) {
  Exchange("ne");
  Look(1);
  Exchange(absl::StrCat(kNew, "\n", kOld));
  Look(1);
  EXPECT_EQ(*keys_.Get(), ControllerKeys{kOld});
  Look(1);
  EXPECT_EQ(*keys_.Get(), (ControllerKeys{kNew, kOld}));
}

TEST_F(KeyFileTest, ABadFileChangesNothingAndIsSaidOnce) {
  Look(3);
  EXPECT_EQ(log_.Take(),
            Lines{absl::StrCat("keys stay as they were: cannot open ", path_, ": No such file or directory")});
  for (const char* bad : {"", "a\nb\nc\n", "\nold"}) {
    Exchange(bad);
    Look(3);
    EXPECT_EQ(log_.Take().size(), 1u) << bad;
    EXPECT_EQ(*keys_.Get(), ControllerKeys{kOld}) << bad;
  }
  Exchange(kOld);
  Look(3);
  EXPECT_EQ(log_.Take(), Lines{absl::StrCat(path_, " can be read again and holds the keys that it did")});
}

TEST_F(KeyFileTest, APipeInItsPlaceHoldsUpNobody) {
  Exchange(kOld);
  EXPECT_EQ(unlink(path_.c_str()), 0);
  EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
  Look(1);
  EXPECT_EQ(log_.Take().size(), 1u);
}

TEST_F(KeyFileTest, ItLooksByItselfAgainAndAgain) {
  Exchange(kNew);
  loop_.RunHere([this] { file_.WatchFromLoop(); });
  EXPECT_TRUE(loop_.Drive([this] { return keys_.Get()->front() == kNew; }, 0, loop_.Now().PlusMs(20000)));
  EXPECT_EQ(keys_.Get()->front(), kNew);
}

}  // namespace
}  // namespace farandole::controller::token
