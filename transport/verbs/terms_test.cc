#include "transport/verbs/terms.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::transport::verbs {
namespace {

std::vector<Endpoint> TwoEndpoints() {
  Endpoint endpoint;
  endpoint.number = 0xabcdef;
  endpoint.first_packet = 0x123456;
  endpoint.gid = {0xfd, 9, 1};
  endpoint.lid = 77;
  endpoint.mtu = 4096;
  endpoint.ethernet = true;
  endpoint.device = 3;
  return {endpoint, endpoint};
}

TEST(TermsTest, SurviveTheJourney) {
  const Terms sent = MakeTerms(8192, TwoEndpoints());
  const absl::StatusOr<Terms> got = DecodeTerms(EncodeTerms(sent));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->nonce, sent.nonce);
  EXPECT_EQ(got->eager_bytes, 8192u);
  ASSERT_EQ(got->endpoints.size(), 2u);
  const Endpoint& endpoint = got->endpoints[1];
  EXPECT_EQ(endpoint.number, 0xabcdefu);
  EXPECT_EQ(endpoint.first_packet, 0x123456u);
  EXPECT_EQ(endpoint.gid, sent.endpoints[1].gid);
  EXPECT_EQ(endpoint.lid, 77);
  EXPECT_EQ(endpoint.mtu, 4096);
  EXPECT_TRUE(endpoint.ethernet);
  EXPECT_EQ(endpoint.device, 3);
}

TEST(TermsTest, NumbersOutOfBoundsAreRefused) {
  const auto refused = [](size_t eager_bytes, std::vector<Endpoint> endpoints) {
    return absl::IsInvalidArgument(DecodeTerms(EncodeTerms(MakeTerms(eager_bytes, std::move(endpoints)))).status());
  };
  EXPECT_FALSE(refused(8192, TwoEndpoints()));
  EXPECT_TRUE(refused(1, TwoEndpoints()));
  EXPECT_TRUE(refused(size_t{1} << 30, TwoEndpoints()));
  EXPECT_TRUE(refused(8192, {TwoEndpoints()[0]})) << "none for large sends";
  EXPECT_TRUE(refused(8192, std::vector<Endpoint>(18, TwoEndpoints()[0])));
  const auto with = [](void (*change)(Endpoint*)) {
    std::vector<Endpoint> endpoints = TwoEndpoints();
    change(&endpoints[1]);
    return endpoints;
  };
  EXPECT_TRUE(refused(8192, with([](Endpoint* e) { e->number = 1 << 24; })));
  EXPECT_TRUE(refused(8192, with([](Endpoint* e) { e->first_packet = 1 << 24; })));
  EXPECT_TRUE(refused(8192, with([](Endpoint* e) { e->mtu = 1500; })));
  EXPECT_TRUE(refused(8192, with([](Endpoint* e) { e->mtu = 0; })));
  EXPECT_TRUE(refused(8192, with([](Endpoint* e) { e->device = 4; })));
}

TEST(TermsTest, WhatIsCutOffOrForeignIsRefused) {
  const std::string whole = EncodeTerms(MakeTerms(8192, TwoEndpoints()));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) EXPECT_FALSE(DecodeTerms(whole.substr(0, bytes)).ok()) << bytes;
  EXPECT_FALSE(DecodeTerms(whole + "x").ok());
  EXPECT_FALSE(DecodeTerms("verbs0" + whole.substr(6)).ok());
}

TEST(TermsTest, OnlyWhoKnowsTheKeyProvesBothTerms) {
  const std::string a = EncodeTerms(MakeTerms(8192, TwoEndpoints()));
  const std::string b = EncodeTerms(MakeTerms(8192, TwoEndpoints()));
  const std::string proof = TermsProof("key", b, a);  // of b
  EXPECT_TRUE(ProvesTerms(proof, "key", a, b));
  EXPECT_FALSE(ProvesTerms(proof, "kez", a, b));
  EXPECT_FALSE(ProvesTerms(TermsProof("key", a, b), "key", a, b)) << "it was only sent back";
  EXPECT_FALSE(ProvesTerms(TermsProof("key", a, a), "key", a, a));
  std::string changed = b;
  changed.back() ^= 1;
  EXPECT_FALSE(ProvesTerms(proof, "key", a, changed));
  EXPECT_FALSE(ProvesTerms("", "key", a, b));
}

TEST(TermsTest, GoodbyeTellsHowMuchWasSent) {
  const absl::StatusOr<Goodbye> goodbye = DecodeGoodbye(EncodeGoodbye(uint64_t{1} << 40, 3));
  ASSERT_TRUE(goodbye.ok()) << goodbye.status();
  EXPECT_EQ(goodbye->messages, uint64_t{1} << 40);
  EXPECT_EQ(goodbye->writes, 3u);
  for (const char* message :
       {"", "G", "R", "G12345678", "G123456781234567", "G12345678123456789", "R1234567812345678"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeGoodbye(message).status())) << message;
  }
  EXPECT_TRUE(IsReady(ReadyMessage()));
  EXPECT_FALSE(IsReady("RR"));
}

}  // namespace
}  // namespace farandole::transport::verbs
