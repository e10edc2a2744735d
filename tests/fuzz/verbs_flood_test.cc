// A peer over RDMA that says much and takes nothing: what waits for it is bounded.

#include <malloc.h>

#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "tests/fuzz/played_channel.h"
#include "tests/fuzz/record.h"
#include "transport/verbs/message.h"

namespace farandole::fuzz {
namespace {

using transport::verbs::MessageKind;

// It claims to have taken nothing.
std::string MessageOf(MessageKind kind) {
  transport::verbs::MessageHeader header;
  header.kind = kind;
  std::string message(sizeof header, '\0');
  std::memcpy(&message[0], &header, sizeof header);
  if (kind == MessageKind::kReady) message.append(sizeof(transport::verbs::Target), '\0');
  return message;
}

TEST(VerbsFloodTest, APeerThatTakesNoAnswersIsRefused) {
  const std::string offers = MessageOf(MessageKind::kReady), recalls = MessageOf(MessageKind::kCancel);
  PlayedChannel channel(1);
  channel.Do({5, "\1\1"});  // receives
  for (size_t i = 0; i < 5 * transport::verbs::kOfferedMax; ++i) {
    channel.MessageComes(offers);
    channel.MessageComes(recalls);
  }
  channel.Do({3, "\0"});
  EXPECT_TRUE(absl::IsInvalidArgument(channel.last())) << channel.last();
}

TEST(VerbsFloodTest, WhatNeedsNoAnswerCostsNoMemory) {
  const std::string discards = MessageOf(MessageKind::kDiscard);
  PlayedChannel channel(1);
  for (int i = 0; i < 1000; ++i) channel.MessageComes(discards);
  const size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 100000; ++i) channel.MessageComes(discards);
  EXPECT_LT(mallinfo2().uordblks, before + (1 << 16));
}

}  // namespace
}  // namespace farandole::fuzz
