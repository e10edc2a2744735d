#include "controller/rpc/pinned_certificate.h"

#include <openssl/pem.h>

#include "absl/strings/str_cat.h"
#include "base/auth.h"
#include "base/tls_name.h"
#include "controller/rpc/openssl_objects.h"

namespace farandole::controller::rpc {
namespace {

bool AddExtension(X509* certificate, int id, const std::string& value) {
  const Extension extension(X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// The same bytes for the same key: Ed25519 signs without chance.
bool Fill(X509* certificate, EVP_PKEY* key) {
  X509_NAME* const name = X509_get_subject_name(certificate);
  const auto* common_name = reinterpret_cast<const unsigned char*>(kPinnedTlsName);
  return X509_set_version(certificate, X509_VERSION_3) == 1 &&
         ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
         ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate), "20000101000000Z") == 1 &&
         ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), "99991231235959Z") == 1 &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common_name, -1, -1, 0) == 1 &&
         X509_set_issuer_name(certificate, name) == 1 && X509_set_pubkey(certificate, key) == 1 &&
         AddExtension(certificate, NID_basic_constraints, "critical,CA:TRUE") &&
         AddExtension(certificate, NID_subject_alt_name, absl::StrCat("DNS:", kPinnedTlsName)) &&
         X509_sign(certificate, key, nullptr) > 0;
}

std::string TextOf(BIO* memory) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(memory, &data);
  return std::string(data, bytes);
}

}  // namespace

absl::StatusOr<PinnedCertificate> MakePinnedCertificate(absl::string_view controller_key) {
  const std::string seed = HmacSha256(controller_key, "tls");
  const auto* bytes = reinterpret_cast<const unsigned char*>(seed.data());
  const Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes, seed.size()));
  const Certificate certificate(X509_new());
  const Memory public_text(BIO_new(BIO_s_mem())), private_text(BIO_new(BIO_s_mem()));
  if (key == nullptr || certificate == nullptr || public_text == nullptr || private_text == nullptr ||
      !Fill(certificate.get(), key.get()) || PEM_write_bio_X509(public_text.get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(private_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return absl::InternalError("OpenSSL cannot make a certificate of Ed25519");
  }
  return PinnedCertificate{TextOf(public_text.get()), TextOf(private_text.get())};
}

}  // namespace farandole::controller::rpc
