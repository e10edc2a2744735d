#include "transport/verbs/port_choice.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"

namespace farandole::transport::verbs {
namespace {

// Of the listening address; zeros if it is none.
Gid GidOf(const std::string& host) {
  Gid gid{};
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    gid[10] = gid[11] = 0xff;
    std::memcpy(&gid[12], &v4, sizeof v4);
  } else {
    inet_pton(AF_INET6, host.c_str(), gid.data());
  }
  return gid;
}

std::string Text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  return text;
}

bool LinkLocal(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

// Larger is better; below 0: of no use.
int Worth(const PortFacts& port, const GidFacts& gid, const Gid& listening) {
  if (!port.ethernet) return 1000 - gid.index;
  if (!gid.routable) return -1;
  if (gid.gid == listening) return 2;
  return LinkLocal(gid.gid) ? 0 : 1;
}

absl::optional<GidFacts> ChooseGid(const PortFacts& port, const VerbsOptions& options) {
  const Gid listening = GidOf(options.listen_host);
  absl::optional<GidFacts> best;
  for (const GidFacts& gid : port.gids) {
    if (options.gid_index >= 0) {
      if (gid.index == options.gid_index) return gid;
    } else if (Worth(port, gid, listening) >= 0 &&
               (!best.has_value() || Worth(port, gid, listening) > Worth(port, *best, listening))) {
      best = gid;
    }
  }
  return best;
}

std::string Name(const PortFacts& port) { return absl::StrCat(port.device, " port ", port.port); }

absl::StatusOr<PortChoice> ChooseIn(const PortFacts& port, const VerbsOptions& options) {
  if (!port.active) return absl::UnavailableError(absl::StrCat(Name(port), " is not active (ibv_devinfo; ip link)"));
  const absl::optional<GidFacts> gid = ChooseGid(port, options);
  if (!gid.has_value() && options.gid_index >= 0) {
    return absl::InvalidArgumentError(absl::StrCat(Name(port), " has no GID ", options.gid_index, " (show_gids)"));
  }
  if (!gid.has_value()) {
    return absl::UnavailableError(
        absl::StrCat(Name(port), port.ethernet ? " has no GID of RoCE v2; its interface needs an IP address"
                                               : " has no GID; is a subnet manager running (sminfo)?"));
  }
  PortChoice choice{port.device, port.port, port.ethernet, port.lid, port.mtu, port.message_bytes_max, *gid};
  if (options.mtu > 0) choice.mtu = std::min(options.mtu, port.mtu);
  return choice;
}

// The port that one name of the list means.
absl::StatusOr<PortChoice> Named(const std::vector<PortFacts>& facts, const std::string& name,
                                 const VerbsOptions& options) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(name, absl::MaxSplits(':', 1));
  int number = 0;
  if (!parts.second.empty() && !absl::SimpleAtoi(parts.second, &number)) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no device with a port"));
  }
  std::vector<std::string> there;
  for (const PortFacts& port : facts) there.push_back(absl::StrCat(port.device, ":", port.port));
  absl::Status why = absl::InvalidArgumentError(absl::StrCat(
      "this machine has no RDMA port '", name, "' (FARANDOLE_VERBS_DEVICES); it has ", absl::StrJoin(there, ", ")));
  for (const PortFacts& port : facts) {
    if (port.device != parts.first || (number != 0 && port.port != number)) continue;
    absl::StatusOr<PortChoice> choice = ChooseIn(port, options);
    if (choice.ok()) return choice;
    why = choice.status();
  }
  return why;
}

absl::StatusOr<std::vector<PortChoice>> ChooseAny(const std::vector<PortFacts>& facts, const VerbsOptions& options) {
  const Gid listening = GidOf(options.listen_host);
  std::vector<PortChoice> found;
  std::vector<std::string> reasons;
  for (const PortFacts& port : facts) {
    absl::StatusOr<PortChoice> choice = ChooseIn(port, options);
    if (!choice.ok()) {
      reasons.push_back(std::string(choice.status().message()));
    } else if (found.empty()) {
      found.push_back(*std::move(choice));
    } else if (found[0].gid.gid != listening && choice->gid.gid == listening) {
      found[0] = *std::move(choice);
    }
  }
  if (!found.empty()) return found;
  return absl::UnavailableError(reasons.empty() ? "the RDMA devices have no port" : absl::StrJoin(reasons, "; "));
}

}  // namespace

absl::StatusOr<std::vector<PortChoice>> ChoosePorts(const std::vector<PortFacts>& facts, const VerbsOptions& options) {
  if (options.devices.empty()) return ChooseAny(facts, options);
  std::vector<PortChoice> ports;
  for (absl::string_view name : absl::StrSplit(options.devices, ',', absl::SkipWhitespace())) {
    absl::StatusOr<PortChoice> port = Named(facts, std::string(name), options);
    if (!port.ok()) return port.status();
    ports.push_back(*std::move(port));
  }
  if (ports.empty()) return absl::InvalidArgumentError(absl::StrCat("'", options.devices, "' names no RDMA device"));
  return ports;
}

std::string Describe(const std::vector<PortChoice>& ports) {
  return absl::StrJoin(ports, " and ", [](std::string* out, const PortChoice& port) {
    absl::StrAppend(out, port.device, " port ", port.port, " (");
    if (port.ethernet) {
      absl::StrAppend(out, port.gid.routable ? "RoCE v2" : "RoCE v1");
    } else {
      absl::StrAppend(out, "InfiniBand, LID ", port.lid);
    }
    absl::StrAppend(out, ", GID ", port.gid.index, " = ", Text(port.gid.gid), ", MTU ", port.mtu, ")");
  });
}

}  // namespace farandole::transport::verbs
