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

// OpenSSL would ask a terminal for the passphrase.
int NoPassphrase(char*, int, int, void*) { return -1; }

Memory Reading(const std::string& text) { return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

Certificate FirstOf(const std::string& pem) {
  const Memory memory = Reading(pem);
  Certificate certificate(PEM_read_bio_X509(memory.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return certificate;
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

// "2027-02-01 10:00:00 UTC".
std::string EndOf(const std::string& pem) {
  const Certificate certificate = FirstOf(pem);
  std::tm end;
  char text[32];
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1 ||
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
  const Certificate certificate = FirstOf(files.certificate_chain);
  if (certificate == nullptr) return Wrong(paths.certificate_chain, "cannot be read or holds no certificate in PEM");
  const Key key = KeyOf(files.private_key);
  if (key == nullptr)
    return Wrong(paths.private_key, "cannot be read or holds no private key in PEM without a passphrase");
  const bool fits = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) return Wrong(paths.private_key, absl::StrCat("is not the key of ", paths.certificate_chain));
  if (paths.client_roots.empty()) return files;
  files.client_roots = TextOf(paths.client_roots);
  if (FirstOf(files.client_roots) == nullptr) {
    return Wrong(paths.client_roots, "cannot be read or holds no certificate in PEM");
  }
  return files;
}

TlsWatch::TlsWatch(const TlsPaths& paths, TlsRing* ring, EventLoop* loop, const hub::Log* log, audit::Audit audit)
    : FileWatch(PlanFor(paths), ring, loop, log, std::move(audit)) {}

}  // namespace farandole::controller::rpc
