#ifndef FARANDOLE_CONTROLLER_RPC_OPENSSL_OBJECTS_H_
#define FARANDOLE_CONTROLLER_RPC_OPENSSL_OBJECTS_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>

namespace farandole::controller::rpc {

// OpenSSL's objects, freed with their owner.
template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Memory = std::unique_ptr<BIO, Freed<BIO_free_all>>;

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_OPENSSL_OBJECTS_H_
