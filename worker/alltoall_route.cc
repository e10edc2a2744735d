#include "worker/alltoall_route.h"

#include <cstring>
#include <map>

namespace farandole {

AlltoallRoute::AlltoallRoute(const HostMap* map, int position, const std::vector<int64_t>* byte_matrix)
    : map_(*map),
      position_(position),
      host_(map->host_of(position)),
      local_(map->local_of(position)),
      byte_matrix_(*byte_matrix) {}

std::vector<int> AlltoallRoute::ServedBy(int local, int host) const {
  if (map_.even()) return {map_.members(host)[local]};
  return local == 0 ? map_.members(host) : std::vector<int>();
}

int64_t AlltoallRoute::Bytes(int source, int destination) const {
  return byte_matrix_[source * map_.by_host().size() + destination];
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

std::vector<int64_t> AlltoallRoute::CarrierMatrix() const {
  std::vector<int64_t> matrix;
  const int locals = static_cast<int>(map_.members(host_).size());
  for (int from : map_.members(host_)) {
    for (int carrier = 0; carrier < locals; ++carrier) {
      matrix.push_back(0);
      for (int host = 0; host < map_.hosts(); ++host) {
        for (int to : ServedBy(carrier, host)) matrix.back() += Bytes(from, to);
      }
    }
  }
  return matrix;
}

std::vector<int64_t> AlltoallRoute::HostMatrix() const {
  std::vector<int64_t> matrix;
  for (int source = 0; source < map_.hosts(); ++source) {
    for (int destination = 0; destination < map_.hosts(); ++destination) {
      matrix.push_back(0);
      for (int from : map_.members(source)) {
        for (int to : ServedBy(local_, destination)) matrix.back() += Bytes(from, to);
      }
    }
  }
  return matrix;
}

std::vector<int64_t> AlltoallRoute::MemberMatrix() const {
  const std::vector<int>& members = map_.members(host_);
  std::vector<int64_t> matrix(members.size() * members.size(), 0);
  for (size_t to = 0; to < members.size(); ++to) {
    for (int from : map_.by_host()) matrix[to] += Bytes(from, members[to]);
  }
  return matrix;
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

}  // namespace farandole
