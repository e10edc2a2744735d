#ifndef FARANDOLE_TESTS_TRANSCRIPTS_PLAY_H_
#define FARANDOLE_TESTS_TRANSCRIPTS_PLAY_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "controller/job/job.h"
#include "proto/messages.h"
#include "tests/transcripts/played_worker.h"

namespace farandole::transcripts {

// Plays a transcript against a Job on a clock of its own and writes down what happens.
//
// A line "> command" is played; the lines below it, up to the next command, empty line or comment (#), are its output:
//   "  a <- ..."      to the agent itself
//   "  w0 w1 <- ..."  to these workers, one message of the agent's stream
//   "  ; ..."         the reason the job gives
//
// Commands (ms: milliseconds; [..] may be left out; REQUEST: see requests.h):
//   config NAME NUMBER                       a field of JobConfig; before everything else
//   agent A connects host H | agent A disconnects | agent A says lease
//   controller restarts incarnation N        nothing of the old one is left; agents have to connect again
//   W@A hello rank R size N [KEY VALUE]... [leaving] [halted] [wants-break] [takes-back NAME,...] [open REQUEST...]
//                                            keys: session version pid gen phase received completed next begun
//                                            retained, of elastic jobs min max settle, "was GENERATION RANK",
//                                            and "set NAME VALUE" of a variable (lists: "1,2", "-"); what is
//                                            not said is what the worker would say, a new session and the rest as
//                                            it has seen it, but for next, which is 0
//   W announces [completed N] [received N] [phase N] [gen N] REQUEST...|@SLOT,SLOT... [alike=W,W...]
//                                            alike: others of the agent who say the same, each with its own progress
//   W acks [completed N] [received N]        what is not said: everything it was sent
//   W breaks [phase N] new|changed|never|join|leave|sets|incomplete NAME...
//   W halts [phase N] next N
//   W recalls                                answers the last Recall with what it has
//   W leaves [gen N] | W fails suspect R: REASON | W ended: CAUSE | W left: CAUSE | W silent: CAUSE | W answers
//   W reborn: CAUSE | W quits: CAUSE         its process lives on, as another worker; ends after it has left
//   W retire                                 its launcher takes its place away
//   W loses #N                               items from N on got lost on their way to it
//   W reports [replaying] [phase N] [next N] [waits MS] [slack US] [bytes N] [lacks NAME...]
//                                            with its agent's lease; waits: for how long it has been in a batch
//   put KEY VALUE | find KEY                 in the newest generation
//   wait MS                                  the clock moves, deadlines are looked at
//   status
class Play {
 public:
  Play();
  // `line` without "> ". Appends output lines.
  absl::Status Do(absl::string_view line, std::vector<std::string>* output);

 private:
  using Words = std::vector<std::string>;

  absl::Status Config(const Words& words);
  absl::Status Restart(const Words& words);
  absl::Status Agent(const Words& words, std::vector<std::string>* output);
  absl::Status OfWorker(const Words& words, absl::string_view text, std::vector<std::string>* output);
  void SayAgent(const std::string& agent, const AgentUp& message, std::vector<std::string>* output);
  void Write(const controller::Actions& actions, std::vector<std::string>* output);
  std::string Sent(const ToWorkers& message);
  void WriteStatus(std::vector<std::string>* output) const;
  std::string NameOf(Incarnation worker) const;
  controller::job::Job& job();

  controller::JobConfig config_;
  std::unique_ptr<controller::job::Job> job_;
  TimePoint now_{1000000};
  std::map<std::string, PlayedWorker> workers_;
  GenerationId newest_;
};

}  // namespace farandole::transcripts

#endif  // FARANDOLE_TESTS_TRANSCRIPTS_PLAY_H_
