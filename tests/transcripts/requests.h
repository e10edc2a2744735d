#ifndef FARANDOLE_TESTS_TRANSCRIPTS_REQUESTS_H_
#define FARANDOLE_TESTS_TRANSCRIPTS_REQUESTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/types.h"

namespace farandole::transcripts {

// One word of a transcript, NAME[:WORD]..., as requests: "x:float32[4]" is an allreduce, "x:allgather:int64[3,2]",
// "x:broadcast:float32[4]:root=1", "x:alltoall:float32[4]:splits=1,3", "x:reducescatter:float32[4]:sum", "b:barrier",
// "j:join", "s:add[0,1]" and "s:remove[1]" of process sets,
// "x:float32[4]:sum:pre=0.5:post=2:set=1:group=g/2:prio=3:gpu". "t{1..3}:..." is three of them.
absl::StatusOr<std::vector<Request>> ParseRequests(absl::string_view word);

}  // namespace farandole::transcripts

#endif  // FARANDOLE_TESTS_TRANSCRIPTS_REQUESTS_H_
