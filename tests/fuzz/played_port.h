#ifndef FARANDOLE_TESTS_FUZZ_PLAYED_PORT_H_
#define FARANDOLE_TESTS_FUZZ_PLAYED_PORT_H_

#include <cstdlib>
#include <utility>

#include "transport/verbs/device.h"
#include "transport/verbs/library.h"
#include "transport/verbs/link.h"

namespace farandole::fuzz {

// The one port of the device of played_device.h.
inline transport::verbs::Ports PlayedPorts() {
  auto library = transport::verbs::VerbsLibrary::Load("");
  if (!library.ok()) std::abort();
  auto device = transport::verbs::Device::Open(*library, "played", false);
  if (!device.ok()) std::abort();
  transport::verbs::PortChoice choice;
  choice.device = "played";
  choice.ethernet = true;
  choice.mtu = 1024;
  choice.message_bytes_max = 1 << 30;
  transport::verbs::Ports ports;
  ports.choices.push_back(choice);
  ports.device_of.push_back(0);
  ports.devices.push_back(*std::move(device));
  return ports;
}

}  // namespace farandole::fuzz

#endif  // FARANDOLE_TESTS_FUZZ_PLAYED_PORT_H_
