#ifndef FARANDOLE_CONTROLLER_AUDIT_AUDIT_EVENT_H_
#define FARANDOLE_CONTROLLER_AUDIT_AUDIT_EVENT_H_

#include <functional>
#include <string>

namespace farandole::controller::audit {

// Who did what, or was refused. What does not apply is empty.
struct AuditEvent {
  std::string event;   // "agent_connected"; docs/security.md lists them
  std::string job;     // with its part
  bool proven = true;  // a token that opens this job was shown; else it is what somebody claims
  std::string peer;    // address
  std::string agent;   // id
  std::string host;    // as the agent calls it
  std::string method;  // of gRPC
  std::string why;     // of a refusal or a change
};

// Takes an event, and waits for no reader. Any thread.
using Audit = std::function<void(const AuditEvent& event)>;

inline void NoAudit(const AuditEvent&) {}

}  // namespace farandole::controller::audit

#endif  // FARANDOLE_CONTROLLER_AUDIT_AUDIT_EVENT_H_
