#include "worker/cuda/fake_nccl_meeting.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

namespace farandole::worker::cuda {
namespace {

constexpr int kBacklog = 128;
constexpr std::chrono::milliseconds kBetweenTrials(1);

// What rank 0 says to each, with the sockets to the others from rank 1 on beside it.
struct Answer {
  ncclResult_t result;
  char text[256];
  FakeNcclMeeting::Rank ranks[FakeNcclMeeting::kRanksMax];
};

union Descriptors {
  cmsghdr header;
  char bytes[CMSG_SPACE(FakeNcclMeeting::kRanksMax * sizeof(int))];
};

// Small enough that a socket takes it whole.
void Send(int socket, Answer answer, const std::vector<int>& descriptors) {
  iovec data = {&answer, sizeof(answer)};
  Descriptors beside = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = &beside;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  }
  sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// False: the other end is gone.
bool Receive(int socket, Answer* answer, std::vector<int>* descriptors) {
  iovec data = {answer, sizeof(*answer)};
  Descriptors beside = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = &beside;
  message.msg_controllen = sizeof(beside);
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof(*answer)) return false;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) return true;
  descriptors->resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  memcpy(descriptors->data(), CMSG_DATA(header), descriptors->size() * sizeof(int));
  return true;
}

sockaddr_un Address(const std::string& name, socklen_t* bytes) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // Its first byte stays 0: the name is no file's.
  const size_t length = name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  *bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

int NewSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

}  // namespace

FakeNcclMeeting::Result FakeNcclMeeting::Meet(const std::string& name, const Rank& mine,
                                              const FakeNcclInterrupt& interrupt, FakeNcclLinks::Deadline deadline,
                                              bool tells_death) {
  FakeNcclMeeting meeting(name, mine, interrupt, deadline, tells_death);
  return mine.rank == 0 ? meeting.Host() : meeting.Join();
}

FakeNcclMeeting::FakeNcclMeeting(const std::string& name, const Rank& mine, const FakeNcclInterrupt& interrupt,
                                 FakeNcclLinks::Deadline deadline, bool tells_death)
    : name_("fake-nccl-" + name),
      mine_(mine),
      interrupt_(interrupt),
      deadline_(deadline),
      tells_death_(tells_death),
      guests_(static_cast<size_t>(mine.ranks), -1),
      ranks_(static_cast<size_t>(mine.ranks)) {}

FakeNcclMeeting::~FakeNcclMeeting() {
  guests_.push_back(socket_);
  for (const int socket : guests_) {
    if (socket >= 0) close(socket);
  }
}

bool FakeNcclMeeting::Readable(const std::vector<int>& sockets) const {
  std::vector<pollfd> waits = {{interrupt_.fd(), POLLIN, 0}};
  for (const int socket : sockets) waits.push_back({socket, POLLIN, 0});
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    if (left.count() <= 0 || interrupt_.raised()) return false;
    if (poll(waits.data(), waits.size(), static_cast<int>(left.count())) > 0 && !interrupt_.raised()) return true;
  }
}

FakeNcclMeeting::Result FakeNcclMeeting::Vain() const {
  Result result;
  if (interrupt_.raised()) return result;
  result.result = ncclSystemError;
  result.text = "rank " + std::to_string(mine_.rank) + " waited too long for the other ranks";
  return result;
}

// For the end of the time, as a rank does whose bootstrap has lost its peer.
FakeNcclMeeting::Result FakeNcclMeeting::Wait() const {
  while (Readable({})) {
  }
  return Vain();
}

FakeNcclMeeting::Result FakeNcclMeeting::Refuse(ncclResult_t result, const std::string& text) {
  Answer answer = {};
  answer.result = result;
  text.copy(answer.text, sizeof(answer.text) - 1);
  for (const int guest : guests_) {
    if (guest >= 0) Send(guest, answer, {});
  }
  Result mine;
  mine.result = result;
  mine.text = text;
  return mine;
}

FakeNcclMeeting::Result FakeNcclMeeting::Host() {
  ranks_[0] = mine_;
  socklen_t bytes = 0;
  const sockaddr_un address = Address(name_, &bytes);
  socket_ = NewSocket();
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), bytes) != 0 || listen(socket_, kBacklog) != 0) {
    return Refuse(ncclInvalidUsage, "there is a rank 0 with this unique id already");
  }
  for (int missing = mine_.ranks - 1; missing > 0;) {
    std::vector<int> sockets = {socket_};
    std::copy_if(guests_.begin(), guests_.end(), std::back_inserter(sockets), [](int guest) { return guest >= 0; });
    if (!Readable(sockets)) return Vain();
    if (ForgetTheGone() && tells_death_) return Refuse(ncclRemoteError, "a rank died during the init");
    const std::string wrong = TakeGuest();
    if (!wrong.empty()) return Refuse(ncclInvalidUsage, wrong);
    missing = static_cast<int>(std::count(guests_.begin(), guests_.end(), -1)) - 1;
  }
  const std::string wrong = CheckAll();
  return wrong.empty() ? HandOut() : Refuse(ncclInvalidUsage, wrong);
}

bool FakeNcclMeeting::ForgetTheGone() {
  bool some = false;
  for (int& guest : guests_) {
    pollfd state = {guest, POLLRDHUP, 0};
    if (guest < 0 || poll(&state, 1, 0) == 0) continue;
    close(std::exchange(guest, -1));
    some = true;
  }
  return some;
}

std::string FakeNcclMeeting::TakeGuest() {
  const int guest = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (guest < 0) return "";
  Rank rank = {};
  if (!Readable({guest}) || recv(guest, &rank, sizeof(rank), 0) != sizeof(rank)) {
    close(guest);
    return "";
  }
  if (rank.rank <= 0 || rank.rank >= mine_.ranks || guests_[static_cast<size_t>(rank.rank)] >= 0) {
    guests_.push_back(guest);
    return "rank " + std::to_string(rank.rank) + " has come twice, or is none of " + std::to_string(mine_.ranks);
  }
  guests_[static_cast<size_t>(rank.rank)] = guest;
  ranks_[static_cast<size_t>(rank.rank)] = rank;
  return "";
}

// When all are there, so that all are told.
std::string FakeNcclMeeting::CheckAll() const {
  for (const Rank& one : ranks_) {
    if (one.ranks != mine_.ranks) {
      return "rank " + std::to_string(one.rank) + " wants " + std::to_string(one.ranks) + " ranks, rank 0 " +
             std::to_string(mine_.ranks);
    }
    for (const Rank& other : ranks_) {
      if (other.rank <= one.rank || other.process != one.process || other.device != one.device) continue;
      return "Duplicate GPU detected : rank " + std::to_string(other.rank) + " and rank " + std::to_string(one.rank) +
             " both on CUDA device " + std::to_string(one.device);
    }
  }
  return "";
}

FakeNcclMeeting::Result FakeNcclMeeting::HandOut() {
  std::vector<std::vector<int>> sockets(ranks_.size());
  for (size_t one = 1; one < ranks_.size(); ++one) {
    for (size_t other = one + 1; other < ranks_.size(); ++other) {
      int pair[2] = {-1, -1};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
      sockets[one].push_back(pair[0]);
      sockets[other].push_back(pair[1]);
    }
  }
  Answer answer = {};
  std::copy(ranks_.begin(), ranks_.end(), answer.ranks);
  for (size_t rank = 1; rank < ranks_.size(); ++rank) {
    Send(guests_[rank], answer, sockets[rank]);
    for (const int socket : sockets[rank]) close(socket);
  }
  Result result;
  result.links = std::make_unique<FakeNcclLinks>(std::exchange(guests_, {}));
  result.ranks = ranks_;
  return result;
}

bool FakeNcclMeeting::Connect() {
  socklen_t bytes = 0;
  const sockaddr_un address = Address(name_, &bytes);
  socket_ = NewSocket();
  while (connect(socket_, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    if (std::chrono::steady_clock::now() > deadline_) return false;
    pollfd interrupted = {interrupt_.fd(), POLLIN, 0};
    if (poll(&interrupted, 1, static_cast<int>(kBetweenTrials.count())) != 0) return false;
  }
  return true;
}

FakeNcclMeeting::Result FakeNcclMeeting::Join() {
  if (!Connect()) return Vain();
  send(socket_, &mine_, sizeof(mine_), MSG_NOSIGNAL);
  if (!Readable({socket_})) return Vain();
  Answer answer = {};
  std::vector<int> sockets;
  Result result;
  if (!Receive(socket_, &answer, &sockets)) {
    if (!tells_death_) return Wait();
    result.result = ncclRemoteError;
    result.text = "rank 0 died during the init";
    return result;
  }
  result.result = answer.result;
  result.text = answer.text;
  if (answer.result != ncclSuccess) return result;
  sockets.insert(sockets.begin(), std::exchange(socket_, -1));
  sockets.insert(sockets.begin() + mine_.rank, -1);
  result.links = std::make_unique<FakeNcclLinks>(std::move(sockets));
  result.ranks.assign(answer.ranks, answer.ranks + mine_.ranks);
  return result;
}

}  // namespace farandole::worker::cuda
