#ifndef FARANDOLE_PROTO_CODEC_SCHEMA_H_
#define FARANDOLE_PROTO_CODEC_SCHEMA_H_

// How the structs of messages.h lie in protobuf: Schema<M> names each field of M once, and a visitor writes it, reads
// it or sets it to zero. Kept equal to the .proto files by codec_test.
namespace farandole {

// Specialised in schema_types.h, schema_worker.h and schema_messages.h:
//   kName                         name of the message in error texts
//   Fields(visitor, message)      shows every field: number, name, reference, bound. A Text is for people and is cut
//                                 to its bound when it is written, a Name never is
//   Problem(message)              what no field check can see; nullptr = fine
template <typename M>
struct Schema;

// Names the alternative of a variant that a case of a oneof fills.
template <typename T>
struct Alternative {};

struct NoFurtherCheck {
  template <typename M>
  static const char* Problem(const M&) {
    return nullptr;
  }
};

// A struct that travels in another form than its own: To and From convert, From says what is wrong or null.
template <typename M>
struct WireForm {
  static constexpr bool kOther = false;
};

// Bounds on what is decoded; whoever makes a name or a key keeps to its bound, and says so to whoever gave it.
inline constexpr int kNameBytesMax = 4096;
inline constexpr int kTextBytesMax = 16384;
inline constexpr int kKeyBytesMax = 256;
inline constexpr int kVariablesMax = 64;
inline constexpr int kValueBytesMax = 65536;
inline constexpr int kDimensionsMax = 64;
inline constexpr int kRequestsMax = 65536;
inline constexpr int kMembersMax = 65536;
inline constexpr int kFirstDimsMax = kMembersMax;

}  // namespace farandole

#endif  // FARANDOLE_PROTO_CODEC_SCHEMA_H_
