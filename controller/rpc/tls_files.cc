#include "controller/rpc/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/read_file.h"
#include "controller/rpc/openssl_objects.h"

namespace farandole::controller::rpc {
namespace {

constexpr char kNoCertificates[] = "cannot be read, or does not hold whole certificates in PEM";

// OpenSSL would ask a terminal for the passphrase.
int NoPassphrase(char*, int, int, void*) { return -1; }

Memory Reading(const std::string& text) { return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// All of them; empty if there is none, or one that is malformed.
std::vector<Certificate> CertificatesIn(const std::string& pem) {
  const Memory memory = Reading(pem);
  std::vector<Certificate> found;
  while (X509* const next = PEM_read_bio_X509(memory.get(), nullptr, NoPassphrase, nullptr)) found.emplace_back(next);
  const unsigned long why = ERR_peek_last_error();  // NOLINT(runtime/int): OpenSSL's type
  ERR_clear_error();
  // So it ends where no other one begins.
  if (ERR_GET_LIB(why) != ERR_LIB_PEM || ERR_GET_REASON(why) != PEM_R_NO_START_LINE) found.clear();
  return found;
}

Key KeyOf(const std::string& pem) {
  const Memory memory = Reading(pem);
  Key key(PEM_read_bio_PrivateKey(memory.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return key;
}

absl::Status Wrong(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, " ", why));
}

std::string TextOf(const std::string& path) { return ReadRegularFile(path).value_or(""); }

// Why OpenSSL would not serve with them, as gRPC asks it to for each connection; "" if it would.
std::string WhyUnfit(const std::vector<Certificate>& chain, EVP_PKEY* key) {
  const Context context(SSL_CTX_new(TLS_method()));
  bool fit = context != nullptr && SSL_CTX_use_certificate(context.get(), chain.front().get()) == 1;
  for (size_t i = 1; fit && i < chain.size(); ++i) fit = SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
  fit = fit && SSL_CTX_use_PrivateKey(context.get(), key) == 1;
  const char* const why = fit ? "" : ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return why == nullptr ? "an unknown reason" : why;
}

// "2027-02-01 10:00:00 UTC".
std::string EndOf(const std::string& pem) {
  const std::vector<Certificate> chain = CertificatesIn(pem);
  std::tm end;
  char text[32];
  if (chain.empty() || ASN1_TIME_to_tm(X509_get0_notAfter(chain.front().get()), &end) != 1 ||
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &end) == 0) {
    return "an unknown time";
  }
  return text;
}

files::FileWatch<TlsFiles>::Plan PlanFor(const TlsPaths& paths) {
  return {[paths] { return ReadTlsFiles(paths); }, "certificates", paths.certificate_chain,
          [paths](const TlsFiles& before, const TlsFiles& now) {
            std::vector<std::string> said;
            if (now.certificate_chain != before.certificate_chain || now.private_key != before.private_key) {
              said.push_back(absl::StrCat("certificate read again from ", paths.certificate_chain,
                                          ": it is valid until ", EndOf(now.certificate_chain)));
            }
            if (now.client_roots != before.client_roots) {
              said.push_back(
                  absl::StrCat("clients' certificates have to be signed by those in ", paths.client_roots, " now"));
            }
            return absl::StrJoin(said, "; ");
          }};
}

}  // namespace

absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsPaths& paths) {
  TlsFiles files{TextOf(paths.certificate_chain), TextOf(paths.private_key), ""};
  const std::vector<Certificate> chain = CertificatesIn(files.certificate_chain);
  if (chain.empty()) return Wrong(paths.certificate_chain, kNoCertificates);
  const Key key = KeyOf(files.private_key);
  if (key == nullptr)
    return Wrong(paths.private_key, "cannot be read or holds no private key in PEM without a passphrase");
  const bool fits = X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) return Wrong(paths.private_key, absl::StrCat("is not the key of ", paths.certificate_chain));
  const std::string unfit = WhyUnfit(chain, key.get());
  if (!unfit.empty()) return Wrong(paths.certificate_chain, absl::StrCat("is refused by OpenSSL: ", unfit));
  if (paths.client_roots.empty()) return files;
  files.client_roots = TextOf(paths.client_roots);
  if (CertificatesIn(files.client_roots).empty()) return Wrong(paths.client_roots, kNoCertificates);
  return files;
}

TlsWatch::TlsWatch(const TlsPaths& paths, TlsRing* ring, EventLoop* loop, const hub::Log* log, audit::Audit audit)
    : FileWatch(PlanFor(paths), ring, loop, log, std::move(audit)) {}

}  // namespace farandole::controller::rpc
