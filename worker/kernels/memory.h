#ifndef FARANDOLE_WORKER_KERNELS_MEMORY_H_
#define FARANDOLE_WORKER_KERNELS_MEMORY_H_

#include <cstdint>

// Loads and stores by address, on host and device. Addresses are numbers, since those of device memory are no pointers
// of the host.
namespace farandole::worker::kernels {

// Values go by way of a device's local memory where a loop over them, or a call, is left as it is.
#define FARANDOLE_ALWAYS_INLINE inline __attribute__((always_inline))
#ifdef __clang__
#define FARANDOLE_UNROLL _Pragma("unroll")
#else
#define FARANDOLE_UNROLL
#endif

// Tells the device's compiler that an address is one of global memory, which is faster than to find out. Pinned memory
// of the host is part of it.
#ifdef __CUDA_ARCH__
#define FARANDOLE_GLOBAL __attribute__((address_space(1)))
#else
#define FARANDOLE_GLOBAL
#endif

// May alias whatever lies there. Aligned as T is.
template <typename T>
struct __attribute__((may_alias)) Aligned {
  T value;
};
// At any address, byte by byte.
template <typename T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

template <typename Cell>
FARANDOLE_ALWAYS_INLINE auto Load(uint64_t address) {
  return reinterpret_cast<const FARANDOLE_GLOBAL Cell*>(address)->value;
}
template <typename Cell, typename T>
FARANDOLE_ALWAYS_INLINE void Store(uint64_t address, T value) {
  reinterpret_cast<FARANDOLE_GLOBAL Cell*>(address)->value = value;
}

// What a load or store moves at most, from and to an address that is a multiple of its size.
struct Vector {
  uint32_t words[4];
};

// In the device's own words, as LLVM would take vectors of narrower elements apart into several loads.
#ifdef __CUDA_ARCH__
FARANDOLE_ALWAYS_INLINE Vector LoadVector(uint64_t address) {
  Vector v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
               : "l"(address)
               : "memory");
  return v;
}
FARANDOLE_ALWAYS_INLINE void StoreVector(uint64_t address, Vector v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.words[0]), "r"(v.words[1]),
               "r"(v.words[2]), "r"(v.words[3])
               : "memory");
}
#else
// By way of a vector of the host, which an address that is no multiple makes fault here, too.
typedef uint32_t HostVector __attribute__((vector_size(16), may_alias));

inline Vector LoadVector(uint64_t address) {
  Vector v;
  const HostVector value = *reinterpret_cast<const HostVector*>(address);
  __builtin_memcpy(&v, &value, sizeof v);
  return v;
}
inline void StoreVector(uint64_t address, Vector v) {
  HostVector value;
  __builtin_memcpy(&value, &v, sizeof v);
  *reinterpret_cast<HostVector*>(address) = value;
}
#endif

}  // namespace farandole::worker::kernels

#endif  // FARANDOLE_WORKER_KERNELS_MEMORY_H_
