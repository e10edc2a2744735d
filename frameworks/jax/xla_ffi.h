#ifndef FARANDOLE_FRAMEWORKS_JAX_XLA_FFI_H_
#define FARANDOLE_FRAMEWORKS_JAX_XLA_FFI_H_

#include <cstddef>
#include <cstdint>

// What we need of the interface by which XLA calls functions of others, as releases of jaxlib from 0.4.35 on have it:
// names and layout are XLA's (xla/ffi/api/c_api.h), of which nothing is included. Structs grow at their end;
// `struct_size` of what we make is the size up to the end of the last field here, without padding.
namespace farandole::frameworks::jax {

struct XlaExtension {
  size_t struct_size;
  int type;
  XlaExtension* next;
};
inline constexpr int kXlaMetadataExtension = 1;

struct XlaVersion {
  size_t struct_size;
  XlaExtension* extension;
  int major;
  int minor;
};

struct XlaMetadata {
  size_t struct_size;
  XlaVersion version;
  uint32_t traits;
};

struct XlaMetadataExtension {
  XlaExtension base;
  XlaMetadata* metadata;
};

// As absl's.
enum XlaErrorCode {
  kXlaInvalidArgument = 3,
  kXlaFailedPrecondition = 9,
  kXlaInternal = 13,
  kXlaUnavailable = 14,
};

struct XlaError;
struct XlaErrorCreate {
  size_t struct_size;
  XlaExtension* extension;
  const char* message;  // copied
  int code;
};
inline constexpr size_t kXlaErrorCreateBytes = offsetof(XlaErrorCreate, code) + sizeof(int);

struct XlaApi {
  size_t struct_size;
  XlaExtension* extension;
  XlaVersion version;
  void* internal;
  XlaError* (*create_error)(XlaErrorCreate*);
  // And more.
};

enum XlaDataType {
  kXlaPred = 1,
  kXlaS8 = 2,
  kXlaS16 = 3,
  kXlaS32 = 4,
  kXlaS64 = 5,
  kXlaU8 = 6,
  kXlaU16 = 7,
  kXlaU32 = 8,
  kXlaU64 = 9,
  kXlaF16 = 10,
  kXlaF32 = 11,
  kXlaF64 = 12,
  kXlaC64 = 15,
  kXlaBf16 = 16,
};

struct XlaBuffer {
  size_t struct_size;
  XlaExtension* extension;
  int dtype;
  void* data;
  int64_t rank;
  int64_t* dimensions;
};

// Of arguments and of results.
struct XlaBuffers {
  size_t struct_size;
  XlaExtension* extension;
  int64_t size;
  int* types;
  void** values;
};

struct XlaSpan {
  const char* data;
  size_t size;
};

struct XlaAttributes {
  size_t struct_size;
  XlaExtension* extension;
  int64_t size;
  int* types;
  XlaSpan** names;
  void** values;
};
inline constexpr int kXlaStringAttribute = 4;

struct XlaFrame {
  size_t struct_size;
  XlaExtension* extension;
  const XlaApi* api;
  void* context;
  int stage;
  XlaBuffers arguments;
  XlaBuffers results;
  XlaAttributes attributes;
  // And more.
};

}  // namespace farandole::frameworks::jax

#endif  // FARANDOLE_FRAMEWORKS_JAX_XLA_FFI_H_
