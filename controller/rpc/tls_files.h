#ifndef FARANDOLE_CONTROLLER_RPC_TLS_FILES_H_
#define FARANDOLE_CONTROLLER_RPC_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "controller/audit/audit_event.h"
#include "controller/files/exchanged.h"
#include "controller/files/file_watch.h"
#include "controller/hub/log.h"

namespace farandole::controller::rpc {

// With what a server proves who it is, and which certificates it wants of others, as PEM. Without a key: no TLS.
struct TlsFiles {
  std::string certificate_chain;
  std::string private_key;
  std::string client_roots;  // who may have signed a client's; "": clients need none
};

inline bool operator==(const TlsFiles& a, const TlsFiles& b) {
  return a.certificate_chain == b.certificate_chain && a.private_key == b.private_key &&
         a.client_roots == b.client_roots;
}

struct TlsPaths {
  std::string certificate_chain;
  std::string private_key;
  std::string client_roots;  // "": none
};

// INVALID_ARGUMENT: a file is none, or is not what it should be, or the key is not the certificate's. Never waits.
absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsPaths& paths);

// What new connections are made with.
using TlsRing = files::Exchanged<TlsFiles>;

// Reads certificates again when their files have changed, as cert-manager exchanges them. Connections that there are go
// on.
class TlsWatch : public files::FileWatch<TlsFiles> {
 public:
  // `ring` has what the files held. All outlive this.
  TlsWatch(const TlsPaths& paths, TlsRing* ring, EventLoop* loop, const hub::Log* log,
           audit::Audit audit = audit::NoAudit);
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_TLS_FILES_H_
