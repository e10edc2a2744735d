#include "controller/rpc/token_guard.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "base/auth.h"
#include "base/door_proof.h"
#include "base/job_name.h"
#include "base/job_tokens.h"

namespace farandole::controller::rpc {
namespace {

constexpr absl::string_view kCoordination = "/farandole.v1.Coordination/";
// The one method that answers for all jobs of a namespace.
constexpr absl::string_view kListJobs = "/farandole.v1.Status/ListJobs";

absl::string_view View(const grpc_slice& slice) {
  return absl::string_view(reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice));
}

CallIdentity IdentityOf(const grpc_metadata* entries, size_t count) {
  CallIdentity call;
  int jobs = 0;
  int authorizations = 0;
  for (size_t i = 0; i < count; ++i) {
    const absl::string_view key = View(entries[i].key);
    const absl::string_view value = View(entries[i].value);
    if (key == ":path") {
      call.path = std::string(value);
    } else if (key == kJobMetadata) {
      call.job = std::string(value);
      ++jobs;
    } else if (key == "authorization") {
      call.authorization = std::string(value);
      ++authorizations;
    }
  }
  call.ambiguous = jobs > 1 || authorizations > 1;
  return call;
}

std::vector<std::string> UrisOf(const grpc_auth_context* peer) {
  std::vector<std::string> uris;
  grpc_auth_property_iterator each = grpc_auth_context_find_properties_by_name(peer, GRPC_PEER_URI_PROPERTY_NAME);
  while (const grpc_auth_property* property = grpc_auth_property_iterator_next(&each)) {
    uris.emplace_back(property->value, property->value_length);
  }
  return uris;
}

void Process(void* state, grpc_auth_context* peer, const grpc_metadata* entries, size_t count,
             grpc_process_auth_metadata_done_cb done, void* user_data) {
  CallIdentity call = IdentityOf(entries, count);
  call.certified = UrisOf(peer);
  const absl::Status status = (*static_cast<CallCheck*>(state))(call);
  done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.code()),
       status.ok() ? nullptr : std::string(status.message()).c_str());
}

void Destroy(void* state) { delete static_cast<CallCheck*>(state); }

// gRPC's own C++ credentials refuse a metadata processor without TLS; the C interface beneath takes one.
class Credentials final : public grpc::ServerCredentials {
 public:
  Credentials(std::shared_ptr<const TlsRing> tls, CallCheck check) : tls_(std::move(tls)), check_(std::move(check)) {}

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    grpc_server_credentials* credentials = Make();
    grpc_server_credentials_set_auth_metadata_processor(credentials, {Process, Destroy, new CallCheck(check_)});
    const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }
  grpc_server_credentials* Make() {
    const TlsRing::Shared files = tls_->Get();
    if (files->private_key.empty()) return grpc_insecure_server_credentials_create();
    const auto clients = files->client_roots.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                     : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(clients, Fetch, this));
  }
  // Before each handshake, on any thread.
  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config) {
    Credentials* const own = static_cast<Credentials*>(self);
    const TlsRing::Shared files = own->tls_->Get();
    absl::MutexLock lock(&own->mutex_);
    if (files == own->fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{files->private_key.c_str(), files->certificate_chain.c_str()};
    // It wants some in any case, and does not look at them where clients need no certificates.
    const std::string& roots = files->client_roots.empty() ? files->certificate_chain : files->client_roots;
    *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
    own->fetched_ = files;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<const TlsRing> tls_;
  const CallCheck check_;
  absl::Mutex mutex_;
  TlsRing::Shared fetched_ ABSL_GUARDED_BY(mutex_);
};

bool IsCertifiedFor(absl::string_view job, const std::vector<std::string>& uris) {
  return std::any_of(uris.begin(), uris.end(), [&, all = AllJobsOf(NamespaceOf(job))](absl::string_view uri) {
    return absl::ConsumePrefix(&uri, kJobUri) && (uri == job || uri == all || uri == "*");
  });
}

}  // namespace

bool BelongsToStream(absl::string_view path) {
  return absl::ConsumePrefix(&path, kCoordination) && (path == "Put" || path == "Get");
}

absl::Status CheckCall(const CallIdentity& call, const token::ControllerKeys& keys, int64_t now_s,
                       bool by_certificate) {
  constexpr absl::string_view kBearer = "Bearer ";
  const absl::Status wrong = absl::UnauthenticatedError(kWrongToken);
  if (call.ambiguous || !absl::StartsWith(call.authorization, kBearer)) return wrong;
  if (!IsJobName(call.job) && !(IsAllJobs(call.job) && call.path == kListJobs)) {
    return absl::InvalidArgumentError(absl::StrCat("the job's name must be ", kJobNameRule));
  }
  const absl::string_view token = absl::string_view(call.authorization).substr(kBearer.size());
  const absl::string_view role =
      RoleOfToken(call.job, keys, TokenEnd(token), [&](absl::string_view right) { return EqualSecrets(token, right); });
  if (role.empty()) return wrong;
  if (by_certificate && !IsCertifiedFor(WholeJob(call.job), call.certified)) {
    return absl::UnauthenticatedError(absl::StrCat(kNotCertified, WholeJob(call.job), ": ", kJobUri, WholeJob(call.job),
                                                   " is not among the URIs of its subject alternative names"));
  }
  const bool takes_part = absl::StartsWith(call.path, kCoordination);
  if (takes_part && role != "member") {
    return absl::UnauthenticatedError("an observer's token may not take part in a job; a member's is wanted");
  }
  if (HasEnded(TokenEnd(token), now_s) && !BelongsToStream(call.path))
    return absl::UnauthenticatedError(ExpiredToken(TokenEnd(token)));
  return absl::OkStatus();
}

absl::Status CheckHealthCall(const CallIdentity& call) {
  if (absl::StartsWith(call.path, "/grpc.health.v1.Health/")) return absl::OkStatus();
  return absl::InvalidArgumentError("this port answers health checks only");
}

std::shared_ptr<grpc::ServerCredentials> GuardedCredentials(std::shared_ptr<const TlsRing> tls, CallCheck check) {
  return std::make_shared<Credentials>(std::move(tls), std::move(check));
}

}  // namespace farandole::controller::rpc
