#include "controller/rpc/tls_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/hub/noted_log_testing.h"
#include "controller/rpc/pinned_certificate.h"

namespace farandole::controller::rpc {
namespace {

using Lines = hub::NotedLog::Lines;

// RSA of 512 bits, made for this test alone.
constexpr char kWeakCertificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBdzCCASGgAwIBAgIUFlIZIrNt4fWa0ZqkboYrQKxwFIowDQYJKoZIhvcNAQEL
BQAwDzENMAsGA1UEAwwEd2VhazAgFw0yNjExMjYwMDI5NDBaGA8yMTI2MTEwMjAw
Mjk0MFowDzENMAsGA1UEAwwEd2VhazBcMA0GCSqGSIb3DQEBAQUAA0sAMEgCQQCc
n4yhtvGcm9v0KlK7vmHLUNBjqy1+KDYbX8+xbBNg8o9s1bEHS4Rh4rtBdfETQ0hd
JGV+qx7Q52wTxkY7wXYHAgMBAAGjUzBRMB0GA1UdDgQWBBT0AHfqOoMtZ0Bqzp/R
2dMNGUu6bTAfBgNVHSMEGDAWgBT0AHfqOoMtZ0Bqzp/R2dMNGUu6bTAPBgNVHRMB
Af8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA0EAVEwR2OOb38BFZmVp9bcHvtHJ1lrb
qBv9a1/qLYwgULozzwAlpk8OJsw5cbr7lVA3evDQ8laP90hnGOB8BetvIg==
-----END CERTIFICATE-----
)";
constexpr char kWeakKey[] = R"(-----BEGIN PRIVATE KEY-----
MIIBVAIBADANBgkqhkiG9w0BAQEFAASCAT4wggE6AgEAAkEAnJ+MobbxnJvb9CpS
u75hy1DQY6stfig2G1/PsWwTYPKPbNWxB0uEYeK7QXXxE0NIXSRlfqse0OdsE8ZG
O8F2BwIDAQABAkBSLCNMdP8ue1dbMxlVBv2n/i5XHGgx2EcK9amyHFHOeqJFlbpc
H3FtBAQ1fY/lide7cJdZRG1d3tkn2KDwTFiBAiEAyifG0bEOCtvtUxx2hWWNyyEy
Leb6Pdtv7L4OhYWbSVsCIQDGVxsGCe1SW4JxIJOw/H9OvGuVv0Wd39BufQQL7qJ5
xQIhAJGRgwGMVWhMZeDrJg14y1nyVYfoQ1o3oakAUsSjKObxAiBFZSCtYjfIwv/G
uREzsYSRdddmk3+2FyMEJXWO/zWVyQIgEUZHhU50MD5/75ERrNdCcVBUYWnTIA9R
FD4hpEKdd9w=
-----END PRIVATE KEY-----
)";

class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest() {
    EXPECT_EQ(mkdir(folder_.c_str(), 0700), 0);
    paths_ = {folder_ + "/tls.crt", folder_ + "/tls.key", folder_ + "/ca.crt"};
  }
  static PinnedCertificate Made(const std::string& name) { return *MakePinnedCertificate(name); }
  static void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  void WritePair(const std::string& name) {
    Write(paths_.certificate_chain, Made(name).certificate);
    Write(paths_.private_key, Made(name).private_key);
  }
  std::string Complaint() const {
    const absl::StatusOr<TlsFiles> read = ReadTlsFiles(paths_);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << read.status();
    return std::string(read.status().message());
  }

  inline static int tests_ = 0;
  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/tls-", getpid(), "-", ++tests_);
  TlsPaths paths_;
};

TEST_F(TlsFilesTest, WhatCannotServeIsNamed) {
  EXPECT_EQ(Complaint(),
            absl::StrCat(paths_.certificate_chain, " cannot be read, or does not hold whole certificates in PEM"));
  WritePair("a");
  Write(paths_.private_key, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
  EXPECT_EQ(Complaint(),
            absl::StrCat(paths_.private_key, " cannot be read or holds no private key in PEM without a passphrase"));
  Write(paths_.private_key, Made("b").private_key);
  EXPECT_EQ(Complaint(), absl::StrCat(paths_.private_key, " is not the key of ", paths_.certificate_chain));
  WritePair("a");
  Write(paths_.client_roots, "nothing");
  EXPECT_EQ(Complaint(),
            absl::StrCat(paths_.client_roots, " cannot be read, or does not hold whole certificates in PEM"));
  Write(paths_.client_roots, Made("c").certificate);
  const absl::StatusOr<TlsFiles> read = ReadTlsFiles(paths_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->certificate_chain, Made("a").certificate);
  EXPECT_EQ(read->private_key, Made("a").private_key);
  EXPECT_EQ(read->client_roots, Made("c").certificate);
  paths_.client_roots = "";
  EXPECT_EQ(ReadTlsFiles(paths_)->client_roots, "");
}

TEST_F(TlsFilesTest, EveryCertificateOfABundleCounts) {
  WritePair("a");
  const std::string good = Made("c").certificate;
  Write(paths_.client_roots, good + Made("d").certificate + "words after them say nothing\n");
  EXPECT_TRUE(ReadTlsFiles(paths_).ok());
  Write(paths_.client_roots, good + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  EXPECT_EQ(Complaint(),
            absl::StrCat(paths_.client_roots, " cannot be read, or does not hold whole certificates in PEM"));
}

TEST_F(TlsFilesTest, WhatOpenSslWouldNotServeWithIsNamed) {
  Write(paths_.certificate_chain, kWeakCertificate);
  Write(paths_.private_key, kWeakKey);
  EXPECT_EQ(Complaint(), absl::StrCat(paths_.certificate_chain, " is refused by OpenSSL: ee key too small"));
}

TEST_F(TlsFilesTest, APipeInItsPlaceHoldsUpNobody) {
  EXPECT_EQ(mkfifo(paths_.certificate_chain.c_str(), 0600), 0);
  Complaint();
}

TEST_F(TlsFilesTest, WhatHasChangedIsTakenOnceBothFilesHave) {
  WritePair("a");
  paths_.client_roots = "";
  TlsRing ring(*ReadTlsFiles(paths_));
  hub::NotedLog log;
  EventLoop loop("test");
  TlsWatch watch(paths_, &ring, &loop, &log);
  watch.LookFromLoop();
  EXPECT_EQ(log.Take(), Lines());
  Write(paths_.certificate_chain, Made("b").certificate);
  watch.LookFromLoop();
  watch.LookFromLoop();
  EXPECT_EQ(log.Take(), Lines{absl::StrCat("certificates stay as they were: ", paths_.private_key,
                                           " is not the key of ", paths_.certificate_chain)});
  Write(paths_.private_key, Made("b").private_key);
  watch.LookFromLoop();
  EXPECT_EQ(ring.Get()->certificate_chain, Made("a").certificate);
  watch.LookFromLoop();
  EXPECT_EQ(ring.Get()->certificate_chain, Made("b").certificate);
  EXPECT_EQ(ring.Get()->private_key, Made("b").private_key);
  EXPECT_EQ(log.Take(), Lines{absl::StrCat("certificate read again from ", paths_.certificate_chain,
                                           ": it is valid until 9999-12-31 23:59:59 UTC")});
}

TEST_F(TlsFilesTest, OtherClientsAreSaid) {
  WritePair("a");
  Write(paths_.client_roots, Made("c").certificate);
  TlsRing ring(*ReadTlsFiles(paths_));
  hub::NotedLog log;
  EventLoop loop("test");
  TlsWatch watch(paths_, &ring, &loop, &log);
  Write(paths_.client_roots, Made("d").certificate);
  watch.LookFromLoop();
  watch.LookFromLoop();
  EXPECT_EQ(ring.Get()->client_roots, Made("d").certificate);
  EXPECT_EQ(log.Take(),
            Lines{absl::StrCat("clients' certificates have to be signed by those in ", paths_.client_roots, " now")});
}

}  // namespace
}  // namespace farandole::controller::rpc
