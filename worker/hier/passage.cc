#include "worker/hier/passage.h"

#include "worker/arithmetic/reduce.h"

namespace farandole::worker::hier {

PassageByCopies::PassageByCopies(const arithmetic::Reduction& how, absl::Span<const collective::Piece> pieces,
                                 char* places, int64_t place_bytes, char* narrow)
    : how_(how),
      half_(arithmetic::IsHalf(how.dtype)),
      in_(how.dtype, pieces),
      out_(how.dtype, pieces),
      places_(places),
      place_bytes_(place_bytes),
      narrow_(narrow) {}

char* PassageByCopies::Load(int64_t begin, int64_t count) {
  char* const place = places_ + which_ * place_bytes_;
  which_ ^= 1;
  char* const packed = half_ ? narrow_ : place;
  in_.Pack(packed, count * SizeOf(how_.dtype));
  if (half_) {
    if (how_.prescale != 1) arithmetic::ScaleInPlace(how_.dtype, packed, count, how_.prescale);
    arithmetic::Widen(how_.dtype, reinterpret_cast<float*>(place), packed, count);
  }
  return place;
}

void PassageByCopies::Store(const char* from, int64_t count) {
  if (half_) {
    arithmetic::Narrow(how_.dtype, narrow_, reinterpret_cast<const float*>(from), count);
    if (how_.postscale != 1) arithmetic::ScaleInPlace(how_.dtype, narrow_, count, how_.postscale);
  }
  out_.Unpack(half_ ? narrow_ : from, count * SizeOf(how_.dtype));
}

}  // namespace farandole::worker::hier
