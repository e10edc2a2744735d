#include "transport/handshake.h"

#include "gtest/gtest.h"

namespace farandole::transport {
namespace {

Pairing Connecting() { return {"job/1", "1", "0", "secret"}; }
Pairing Accepting() { return {"job/1", "0", "1", "secret"}; }

TEST(HandshakeTest, EqualKeysMeet) {
  InitiatorHandshake initiator("tcp", Connecting());
  auto responder = ResponderHandshake::Parse("tcp", initiator.Hello());
  ASSERT_TRUE(responder.ok());
  EXPECT_TRUE(responder->Matches(Accepting()));
  const std::string challenge = responder->Challenge(Accepting());
  EXPECT_EQ(initiator.Classify(challenge).value(), InitiatorHandshake::Answer::kChallenge);
  auto proof = initiator.Prove(challenge);
  ASSERT_TRUE(proof.ok()) << proof.status();
  EXPECT_TRUE(responder->Check(Accepting(), *proof).ok());
  EXPECT_TRUE(initiator.Finish(ResponderHandshake::VerdictMessage(true)).ok());
  EXPECT_EQ(initiator.Finish(ResponderHandshake::VerdictMessage(false)).code(), absl::StatusCode::kUnauthenticated);
}

TEST(HandshakeTest, DifferentKeysAreFoundOutByBothEnds) {
  InitiatorHandshake initiator("tcp", Connecting());
  InitiatorHandshake stranger("tcp", {"job/1", "1", "0", "guessed"});
  auto responder = ResponderHandshake::Parse("tcp", stranger.Hello());
  ASSERT_TRUE(responder.ok());
  EXPECT_EQ(stranger.Prove(responder->Challenge(Accepting())).status().code(), absl::StatusCode::kUnauthenticated);
  // A proof made with the right key, but for another connection.
  auto other = ResponderHandshake::Parse("tcp", initiator.Hello());
  auto proof = initiator.Prove(other->Challenge(Accepting()));
  ASSERT_TRUE(proof.ok());
  EXPECT_EQ(responder->Check(Accepting(), *proof).code(), absl::StatusCode::kUnauthenticated);
}

TEST(HandshakeTest, AChallengeReflectedAsProofIsWorthless) {
  InitiatorHandshake initiator("tcp", Connecting());
  auto responder = ResponderHandshake::Parse("tcp", initiator.Hello());
  const std::string challenge = responder->Challenge(Accepting());
  EXPECT_FALSE(responder->Check(Accepting(), "P" + challenge.substr(challenge.size() - 32)).ok());
}

TEST(HandshakeTest, TheTransportIsPartOfTheProof) {
  InitiatorHandshake initiator("tcp", Connecting());
  auto responder = ResponderHandshake::Parse("verbs", initiator.Hello());
  EXPECT_FALSE(initiator.Prove(responder->Challenge(Accepting())).ok());
}

TEST(HandshakeTest, DomainAndBothNamesHaveToMatch) {
  auto responder = ResponderHandshake::Parse("tcp", InitiatorHandshake("tcp", Connecting()).Hello());
  EXPECT_FALSE(responder->Matches({"job/2", "0", "1", "secret"}));
  EXPECT_FALSE(responder->Matches({"job/1", "2", "1", "secret"}));
  EXPECT_FALSE(responder->Matches({"job/1", "0", "2", "secret"}));
}

TEST(HandshakeTest, EveryTruncationAndGarbageIsRefused) {
  const std::string hello = InitiatorHandshake("tcp", Connecting()).Hello();
  for (size_t n = 0; n < hello.size(); ++n) {
    EXPECT_FALSE(ResponderHandshake::Parse("tcp", hello.substr(0, n)).ok()) << n;
  }
  EXPECT_FALSE(ResponderHandshake::Parse("tcp", hello + "x").ok());
  EXPECT_FALSE(ResponderHandshake::Parse("tcp", "GET / HTTP/1.1\r\n").ok());
  InitiatorHandshake initiator("tcp", Connecting());
  EXPECT_FALSE(initiator.Classify("").ok());
  EXPECT_FALSE(initiator.Classify("HTTP/1.1 400").ok());
  EXPECT_EQ(initiator.Classify(ResponderHandshake::WaitMessage()).value(), InitiatorHandshake::Answer::kWait);
}

TEST(HandshakeTest, PairingsAreChecked) {
  EXPECT_TRUE(CheckPairing(Connecting()).ok());
  EXPECT_FALSE(CheckPairing({"d", "a", "b", ""}).ok());
  EXPECT_FALSE(CheckPairing({std::string(513, 'd'), "a", "b", "k"}).ok());
}

TEST(HandshakeTest, TheLongestHelloFitsTheBound) {
  const std::string name(512, 'n');
  EXPECT_LE(InitiatorHandshake("tcp", {name, name, name, "k"}).Hello().size(), kHandshakeMessageBytesMax);
}

}  // namespace
}  // namespace farandole::transport
