#ifndef FARANDOLE_BASE_TLS_NAME_H_
#define FARANDOLE_BASE_TLS_NAME_H_

namespace farandole {

// Who a controller says to be by TLS when its agents were handed its certificate, whatever its address.
inline constexpr char kPinnedTlsName[] = "farandole-controller";

}  // namespace farandole

#endif  // FARANDOLE_BASE_TLS_NAME_H_
