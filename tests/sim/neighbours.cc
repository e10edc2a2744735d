#include "tests/sim/neighbours.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/codec/codec.h"
#include "proto/version.h"

namespace farandole::sim {
namespace {

constexpr int64_t kLeaseMs = 1000;
// An agent is given up after 30 s; after a standstill others are heard for a second first.
constexpr int64_t kGivenUpMs = 32000;
// Above those of the job that is looked at.
constexpr uint64_t kFirstIncarnation = uint64_t{1} << 40;

}  // namespace

struct Neighbours::Neighbour {
  std::string name;  // of the job, the agent and its host
  std::shared_ptr<Link> link;
  uint64_t first = 0;  // incarnations of its workers: this one and the next
  GenerationId generation;
  int removed = 0;  // Removed that came in this life
  bool given_up = false;
  bool put_off = false;
};

class Neighbours::Link final : public controller::hub::AgentStream {
 public:
  Link(Neighbours* all, Neighbour* neighbour) : all_(all), neighbour_(neighbour) {}
  void Send(std::string head, controller::hub::SharedBytes body) override {
    if (body != nullptr) head += *body;
    const absl::StatusOr<AgentDown> message = DecodeAgentDown(head);
    if (!message.ok()) return all_->Fail(*neighbour_, std::string(message.status().message()));
    const auto* down = std::get_if<ToWorkers>(&*message);
    if (down == nullptr) return;
    for (Incarnation worker : down->worker_incarnations) {
      if (worker.value() - neighbour_->first > 1) all_->Fail(*neighbour_, "it was told what is for another job");
    }
    if (const auto* view = std::get_if<View>(&down->message)) Opened(*view);
    if (std::holds_alternative<Removed>(down->message)) ++neighbour_->removed;
  }
  void Close(absl::Status status) override { all_->Fail(*neighbour_, absl::StrCat("closed: ", status.message())); }

 private:
  void Opened(const View& view) {
    const bool own = std::all_of(view.members.begin(), view.members.end(), [&](const Member& member) {
      return member.worker_incarnation.value() - neighbour_->first <= 1;
    });
    if (view.members.size() != 2 || !own) all_->Fail(*neighbour_, "its view has others' members");
    if (view.generation.number <= neighbour_->generation.number) all_->Fail(*neighbour_, "a generation comes again");
    neighbour_->generation = view.generation;
  }

  Neighbours* const all_;
  Neighbour* const neighbour_;
};

Neighbours::Neighbours(World* world, Process* process, controller::hub::Hub* hub)
    : world_(world), process_(process), hub_(hub), random_(world->seed ^ (static_cast<uint64_t>(process->pid) << 32)) {
  const int64_t count = world->setting.shape != nullptr ? 0 : random_.Between(0, 3);
  for (int64_t i = 0; i < count; ++i) {
    all_.push_back(std::make_unique<Neighbour>());
    Neighbour* const neighbour = all_.back().get();
    neighbour->name = absl::StrCat("n", i);
    process_->AfterUs(random_.Between(0, 2000000), [this, neighbour] { Join(neighbour); });
  }
}

Neighbours::~Neighbours() = default;

void Neighbours::Fail(const Neighbour& neighbour, const std::string& what) {
  world_->checker.Fail(absl::StrCat("job ", neighbour.name, " of the same controller: ", what));
}

void Neighbours::Say(const Neighbour& neighbour, const AgentUp& message) {
  hub_->Said(neighbour.link.get(), neighbour.name, neighbour.name, message);
}

void Neighbours::Join(Neighbour* neighbour) {
  neighbour->link = std::make_shared<Link>(this, neighbour);
  neighbour->first = neighbour->first == 0 ? kFirstIncarnation : neighbour->first + 2;
  neighbour->removed = 0;
  neighbour->given_up = false;
  const uint64_t before = neighbour->generation.number;
  hub_->Opened(neighbour->link, neighbour->name, AgentHello{neighbour->name, neighbour->name, kVersion, 0});
  for (uint64_t worker = neighbour->first; worker < neighbour->first + 2; ++worker) {
    Hello hello;
    hello.session = 1;
    hello.worker_incarnation = Incarnation(worker);
    hello.pid = static_cast<int64_t>(worker - kFirstIncarnation + 1);
    hello.version = kVersion;
    hello.size = 2;
    hello.rank = Rank();
    Say(*neighbour, FromWorker{Incarnation(worker), hello, {}});
  }
  if (neighbour->generation.number == before) Fail(*neighbour, "all have joined, and no generation opens");
  Live(neighbour, random_.Skewed(0, 60));
}

void Neighbours::Live(Neighbour* neighbour, int64_t leases) {
  if (leases > 0) {
    Say(*neighbour, Lease{});
    process_->AfterUs(kLeaseMs * 1000, [this, neighbour, leases] { Live(neighbour, leases - 1); });
    return;
  }
  const uint64_t end = random_.Below(3);
  if (end == 0) return Leave(neighbour);
  if (end == 1) return Die(neighbour);
  FallSilent(neighbour);
}

void Neighbours::Leave(Neighbour* neighbour) {
  for (uint64_t worker = neighbour->first; worker < neighbour->first + 2; ++worker) {
    Say(*neighbour, FromWorker{Incarnation(worker), farandole::Leave{neighbour->generation}, {}});
  }
  Disconnect(neighbour, "neighbour leaves");
}

void Neighbours::Die(Neighbour* neighbour) {
  for (uint64_t worker = neighbour->first; worker < neighbour->first + 2; ++worker) {
    Say(*neighbour, WorkerEnded{Incarnation(worker), static_cast<int64_t>(worker - kFirstIncarnation + 1), "died"});
    if (neighbour->removed == 0) Fail(*neighbour, "a member is dead, and nobody is told");
  }
  Disconnect(neighbour, "neighbour dies");
}

void Neighbours::FallSilent(Neighbour* neighbour) {
  Say(*neighbour, Lease{});
  neighbour->put_off = false;
  process_->AfterUs(kGivenUpMs * 1000, [this, neighbour] {
    if (!neighbour->given_up && !neighbour->put_off) Fail(*neighbour, "it is silent, and is not given up");
    if (neighbour->given_up) return Disconnect(neighbour, "neighbour given up");
    FallSilent(neighbour);
  });
}

void Neighbours::Disconnect(Neighbour* neighbour, const char* what) {
  world_->coverage->Hit(what);
  hub_->Closed(neighbour->link.get(), neighbour->name, neighbour->name);
  if (hub_->Changes(neighbour->name).ok()) {
    Fail(*neighbour, "nobody is left of it, and it is not forgotten");
  } else {
    world_->coverage->Hit("neighbour forgotten");
  }
  process_->AfterUs(random_.Between(1000, 5000000), [this, neighbour] { Join(neighbour); });
}

void Neighbours::Logged(absl::string_view line) {
  if (!absl::StrContains(line, ": given up")) return;
  for (const auto& neighbour : all_) {
    if (absl::StartsWith(line, absl::StrCat("job ", neighbour->name, ": "))) neighbour->given_up = true;
  }
}

void Neighbours::StoodStill() {
  for (const auto& neighbour : all_) neighbour->put_off = true;
}

}  // namespace farandole::sim
