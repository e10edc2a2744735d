#include "worker/hier/alltoall_route.h"

#include <cstring>
#include <map>

namespace farandole::worker::hier {

AlltoallRoute::AlltoallRoute(const collective::HostMap* map, int position, const std::vector<int64_t>& send_bytes,
                             const std::vector<int64_t>& receive_bytes)
    : map_(*map),
      position_(position),
      host_(map->host_of(position)),
      local_(map->local_of(position)),
      sends_(map->members(host_).size(), std::vector<int64_t>(send_bytes.size(), 0)),
      gets_(sends_) {
  sends_[local_] = send_bytes;
  gets_[local_] = receive_bytes;
}

int64_t AlltoallRoute::NumbersFor(int local) const {
  if (map_.even()) return map_.hosts();
  return local == 0 ? 2 * static_cast<int64_t>(map_.by_host().size()) : 0;
}

std::vector<int64_t> AlltoallRoute::Told() const {
  std::vector<int64_t> numbers;
  for (size_t carrier = 0; carrier < map_.members(host_).size(); ++carrier) {
    for (int host = 0; host < map_.hosts(); ++host) {
      for (int to : ServedBy(static_cast<int>(carrier), host)) numbers.push_back(sends_[local_][to]);
    }
    if (map_.even() || carrier != 0) continue;
    numbers.insert(numbers.end(), gets_[local_].begin(), gets_[local_].end());
  }
  return numbers;
}

std::vector<int64_t> AlltoallRoute::TellBytes() const {
  std::vector<int64_t> bytes;
  for (size_t carrier = 0; carrier < map_.members(host_).size(); ++carrier) {
    bytes.push_back(NumbersFor(static_cast<int>(carrier)) * static_cast<int64_t>(sizeof(int64_t)));
  }
  return bytes;
}

std::vector<int64_t> AlltoallRoute::HearBytes() const {
  return std::vector<int64_t>(map_.members(host_).size(), NumbersFor(local_) * static_cast<int64_t>(sizeof(int64_t)));
}

bool AlltoallRoute::Hear(const std::vector<int64_t>& numbers) {
  size_t at = 0;
  int64_t all = 0;
  const auto take = [&](int64_t* number) {
    if (at == numbers.size() || numbers[at] < 0) return false;
    *number = numbers[at++];
    return !__builtin_add_overflow(all, *number, &all);
  };
  for (size_t m = 0; m < sends_.size(); ++m) {
    for (int host = 0; host < map_.hosts(); ++host) {
      for (int to : ServedBy(local_, host)) {
        if (!take(&sends_[m][to])) return false;
      }
    }
    if (map_.even() || local_ != 0) continue;
    for (int64_t& number : gets_[m]) {
      if (!take(&number)) return false;
    }
  }
  return at == numbers.size();
}

std::vector<int> AlltoallRoute::ServedBy(int local, int host) const {
  if (map_.even()) return {map_.members(host)[local]};
  return local == 0 ? map_.members(host) : std::vector<int>();
}

int64_t AlltoallRoute::Bytes(int source, int destination) const {
  // The own numbers first: they are always known.
  if (destination == position_) return gets_[local_][source];
  if (map_.host_of(source) == host_) return sends_[map_.local_of(source)][destination];
  return gets_[map_.local_of(destination)][source];
}

AlltoallRoute::Blocks AlltoallRoute::Input() const {
  Blocks blocks;
  for (size_t to = 0; to < map_.by_host().size(); ++to) blocks.emplace_back(position_, to);
  return blocks;
}

AlltoallRoute::Blocks AlltoallRoute::Output() const {
  Blocks blocks;
  for (size_t from = 0; from < map_.by_host().size(); ++from) blocks.emplace_back(from, position_);
  return blocks;
}

AlltoallRoute::Blocks AlltoallRoute::ToCarriers() const {
  Blocks blocks;
  for (size_t carrier = 0; carrier < map_.members(host_).size(); ++carrier) {
    for (int host = 0; host < map_.hosts(); ++host) {
      for (int to : ServedBy(static_cast<int>(carrier), host)) blocks.emplace_back(position_, to);
    }
  }
  return blocks;
}

AlltoallRoute::Blocks AlltoallRoute::AtCarrier() const {
  Blocks blocks;
  for (int from : map_.members(host_)) {
    for (int host = 0; host < map_.hosts(); ++host) {
      for (int to : ServedBy(local_, host)) blocks.emplace_back(from, to);
    }
  }
  return blocks;
}

AlltoallRoute::Blocks AlltoallRoute::ToHosts() const {
  Blocks blocks;
  for (int host = 0; host < map_.hosts(); ++host) {
    for (int from : map_.members(host_)) {
      for (int to : ServedBy(local_, host)) blocks.emplace_back(from, to);
    }
  }
  return blocks;
}

AlltoallRoute::Blocks AlltoallRoute::FromHosts() const {
  Blocks blocks;
  for (int from : map_.by_host()) {
    for (int to : ServedBy(local_, host_)) blocks.emplace_back(from, to);
  }
  return blocks;
}

AlltoallRoute::Blocks AlltoallRoute::ToMembers() const {
  Blocks blocks;
  if (map_.even()) return blocks;
  for (int to : ServedBy(local_, host_)) {
    for (int from : map_.by_host()) blocks.emplace_back(from, to);
  }
  return blocks;
}

AlltoallRoute::Blocks AlltoallRoute::Arrived() const {
  Blocks blocks;
  for (int from : map_.by_host()) blocks.emplace_back(from, position_);
  return blocks;
}

std::vector<int64_t> AlltoallRoute::ToCarrierBytes() const {
  std::vector<int64_t> bytes(map_.members(host_).size(), 0);
  for (size_t carrier = 0; carrier < bytes.size(); ++carrier) {
    for (int host = 0; host < map_.hosts(); ++host) {
      for (int to : ServedBy(static_cast<int>(carrier), host)) bytes[carrier] += Bytes(position_, to);
    }
  }
  return bytes;
}

std::vector<int64_t> AlltoallRoute::AtCarrierBytes() const {
  std::vector<int64_t> bytes(map_.members(host_).size(), 0);
  for (const auto& [from, to] : AtCarrier()) bytes[map_.local_of(from)] += Bytes(from, to);
  return bytes;
}

std::vector<int64_t> AlltoallRoute::ToHostBytes() const {
  std::vector<int64_t> bytes(map_.hosts(), 0);
  for (const auto& [from, to] : ToHosts()) bytes[map_.host_of(to)] += Bytes(from, to);
  return bytes;
}

std::vector<int64_t> AlltoallRoute::FromHostBytes() const {
  std::vector<int64_t> bytes(map_.hosts(), 0);
  for (const auto& [from, to] : FromHosts()) bytes[map_.host_of(from)] += Bytes(from, to);
  return bytes;
}

std::vector<int64_t> AlltoallRoute::ToMemberBytes() const {
  std::vector<int64_t> bytes(map_.members(host_).size(), 0);
  for (const auto& [from, to] : ToMembers()) bytes[map_.local_of(to)] += Bytes(from, to);
  return bytes;
}

std::vector<int64_t> AlltoallRoute::ArrivedBytes() const {
  std::vector<int64_t> bytes(map_.members(host_).size(), 0);
  bytes[0] = BytesOf(Arrived());
  return bytes;
}

int64_t AlltoallRoute::BytesOf(const Blocks& blocks) const {
  int64_t bytes = 0;
  for (const auto& [from, to] : blocks) bytes += Bytes(from, to);
  return bytes;
}

void AlltoallRoute::Repack(const Blocks& from_order, const char* from, const Blocks& to_order, char* to) const {
  std::map<std::pair<int, int>, int64_t> starts;
  int64_t at = 0;
  for (const auto& block : from_order) {
    starts[block] = at;
    at += Bytes(block.first, block.second);
  }
  for (const auto& block : to_order) {
    const int64_t bytes = Bytes(block.first, block.second);
    if (bytes > 0) std::memcpy(to, from + starts.at(block), bytes);
    to += bytes;
  }
}

}  // namespace farandole::worker::hier
