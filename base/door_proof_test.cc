#include "base/door_proof.h"

#include <string>

#include "absl/strings/escaping.h"
#include "base/auth.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

const char kKey[] = "key";
constexpr int64_t kNowS = 1000;

// As gRPC puts it into its request.
std::string CredentialsOf(const std::string& job, const std::string& token) {
  return DoorCredentials("CONNECT c:1 HTTP/1.0\r\nHost: c:1\r\n" + DoorHeader(job, token) + "\r\n\r\n");
}

TokenState StateOf(const std::string& credentials, const std::string& key = kKey) {
  return ProvesAnyToken(credentials, {key}, kNowS);
}

TEST(DoorProofTest, EitherTokenOfTheJobOpensAlsoForItsParts) {
  for (const char* role : {"member", "observer"}) {
    for (const char* job : {"j", "j/part"}) {
      EXPECT_EQ(StateOf(CredentialsOf(job, MakeToken(kKey, "j", role))), TokenState::kGood) << role << job;
    }
  }
}

TEST(DoorProofTest, NothingElseOpens) {
  EXPECT_EQ(StateOf(CredentialsOf("j", MakeToken(kKey, "other", "member"))), TokenState::kWrong);
  EXPECT_EQ(StateOf(CredentialsOf("no job", MakeToken(kKey, "no job", "member"))), TokenState::kWrong);
  for (const int64_t end_s : {kNoEnd, kNowS + 1}) {
    const std::string good = CredentialsOf("j", MakeToken(kKey, "j", "member", end_s));
    EXPECT_EQ(StateOf(good), TokenState::kGood);
    EXPECT_EQ(StateOf(good, "another key"), TokenState::kWrong);
    std::string other_nonce = good;
    other_nonce[2] = other_nonce[2] == '0' ? '1' : '0';
    EXPECT_EQ(StateOf(other_nonce), TokenState::kWrong);
    EXPECT_EQ(StateOf(good + "0"), TokenState::kWrong);
    for (size_t length = 0; length < good.size(); ++length) {
      EXPECT_EQ(StateOf(good.substr(0, length)), TokenState::kWrong);
    }
  }
}

TEST(DoorProofTest, ATokenWithAnEndOpensUntilThenAndNoOtherEndFits) {
  for (const char* role : {"member", "observer"}) {
    const std::string shown = CredentialsOf("j", MakeToken(kKey, "j", role, 5000));
    EXPECT_EQ(ProvesAnyToken(shown, {kKey}, 4999), TokenState::kGood);
    EXPECT_EQ(ProvesAnyToken(shown, {kKey}, 5000), TokenState::kExpired);
    const std::string proof = shown.substr(0, shown.rfind('.'));
    for (const char* end : {"", ".", ".6000", ".05000", ".+5000", ".5000 ", ".-1", ".0", ".5000.", ".5000.5000",
                            ".99999999999999999999"}) {
      EXPECT_EQ(ProvesAnyToken(proof + end, {kKey}, 1), TokenState::kWrong) << end;
    }
    EXPECT_EQ(DoorProof(shown).size(), 64u) << "the proof alone";
  }
}

TEST(DoorProofTest, NobodyGivesHisTokenAnotherEnd) {
  const std::string hex = MakeToken(kKey, "j", "member", kNowS + 1).substr(0, 64);
  EXPECT_EQ(StateOf(CredentialsOf("j", hex + ".1001")), TokenState::kGood);
  for (const char* end : {"", ".", ".1002", ".01001", ".99999999"}) {
    EXPECT_EQ(StateOf(CredentialsOf("j", hex + end)), TokenState::kWrong) << end;
  }
  // What every client has to make of a key; Python makes them, too.
  EXPECT_EQ(MakeToken(kKey, "j", "member"), absl::BytesToHexString(HmacSha256(kKey, "j/member")));
  EXPECT_EQ(hex, absl::BytesToHexString(HmacSha256(kKey, "j/member/1001")));
}

TEST(DoorProofTest, ATokenOfEitherKeyOpens) {
  for (const char* key : {"new", "old"}) {
    const std::string shown = CredentialsOf("j", MakeToken(key, "j", "member"));
    EXPECT_EQ(ProvesAnyToken(shown, {"new", "old"}, kNowS), TokenState::kGood) << key;
    EXPECT_EQ(ProvesAnyToken(shown, {"other"}, kNowS), TokenState::kWrong) << key;
    EXPECT_EQ(ProvesAnyToken(shown, {}, kNowS), TokenState::kWrong) << key;
  }
}

TEST(DoorProofTest, TheAnswerOfTheDoorIsExplained) {
  const std::string token = MakeToken(kKey, "j", "member", 1767225600);
  const auto said = [&](int code) {
    return DoorAnswer("HTTP proxy returned response code " + std::to_string(code), token);
  };
  EXPECT_EQ(said(407), absl::UnauthenticatedError(kWrongToken));
  EXPECT_EQ(said(403), absl::PermissionDeniedError(kProofFromElsewhere));
  EXPECT_EQ(said(410), absl::UnauthenticatedError("the token has expired, on 2026-01-01 at 00:00:00 UTC; make a new "
                                                  "one with `farandole-controller token`"));
  EXPECT_TRUE(said(502).ok());
  EXPECT_TRUE(DoorAnswer("connection refused", token).ok());
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
