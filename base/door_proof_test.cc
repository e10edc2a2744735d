#include "base/door_proof.h"

#include <string>

#include "base/auth.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

const char kKey[] = "key";

// As gRPC puts it into its request.
std::string CredentialsOf(const std::string& job, const std::string& token) {
  return DoorCredentials("CONNECT c:1 HTTP/1.0\r\nHost: c:1\r\n" + DoorHeader(job, token) + "\r\n\r\n");
}

TEST(DoorProofTest, EitherTokenOfTheJobOpensAlsoForItsParts) {
  for (const char* role : {"member", "observer"}) {
    for (const char* job : {"j", "j/part"}) {
      EXPECT_TRUE(ProvesAnyToken(CredentialsOf(job, MakeToken(kKey, "j", role)), kKey)) << role << job;
    }
  }
}

TEST(DoorProofTest, NothingElseOpens) {
  const std::string good = CredentialsOf("j", MakeToken(kKey, "j", "member"));
  EXPECT_FALSE(ProvesAnyToken(CredentialsOf("j", MakeToken(kKey, "other", "member")), kKey));
  EXPECT_FALSE(ProvesAnyToken(CredentialsOf("no job", MakeToken(kKey, "no job", "member")), kKey));
  EXPECT_FALSE(ProvesAnyToken(good, "another key"));
  std::string other_nonce = good;
  other_nonce[2] = other_nonce[2] == '0' ? '1' : '0';
  EXPECT_FALSE(ProvesAnyToken(other_nonce, kKey));
  for (size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(ProvesAnyToken(good.substr(0, length), kKey));
}

TEST(DoorProofTest, ItDoesNotTellTheTokenAndIsAnotherEachTime) {
  const std::string token = MakeToken(kKey, "j", "member");
  const std::string once = CredentialsOf("j", token);
  EXPECT_EQ(once.find(token), std::string::npos);
  EXPECT_NE(DoorProof(once), DoorProof(CredentialsOf("j", token)));
  EXPECT_EQ(DoorProof(once).size(), 64u);
}

TEST(DoorProofTest, HeadersWithoutCredentialsHaveNone) {
  for (const char* head : {"", "CONNECT x HTTP/1.1\r\n\r\n", "Proxy-Authorization: Bearer x\r\n",
                           "Proxy-Authorization: Basic ***\r\n", "Proxy-Authorization\r\n"}) {
    EXPECT_EQ(DoorCredentials(head), "") << head;
  }
  // As others write it: "user:password".
  EXPECT_EQ(DoorCredentials("CONNECT x HTTP/1.1\r\nproxy-authorization:  BASIC dXNlcjpwYXNzd29yZA== \r\n"),
            "user:password");
}

}  // namespace
}  // namespace farandole
