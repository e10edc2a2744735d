#ifndef FARANDOLE_TESTS_SIM_BUGS_H_
#define FARANDOLE_TESTS_SIM_BUGS_H_

namespace farandole::sim {

// Defects that the simulator's wiring plants between the state machines, to see that the checkers find each.
struct Bugs {
  // An item of an older generation takes effect: it reaches the worker with the present one's number.
  bool generation_not_checked = false;
  // A controller that starts again does so under its old incarnation.
  bool incarnation_not_raised = false;
  // A mismatch is told to the first member that it concerns, and to no other.
  bool error_sent_to_one_rank = false;
  // After a reconnection the executor gets its last batch again.
  bool batch_applied_twice = false;
  // An agent says nothing on its own, so that quiet workers look like a dead host.
  bool lease_not_said = false;
  // The controller goes on listening to a stream that a newer one has replaced.
  bool replaced_stream_heard = false;
  // An agent does not report ends again that it reported while it had no stream.
  bool end_not_reported_again = false;
  // An agent swaps two messages of one worker now and then (against rule A1).
  bool agent_reorders = false;
  // Hello does not list the open requests.
  bool open_requests_left_out = false;
  // A wake-up of the controller that is wanted earlier than the one before it is forgotten.
  bool wake_up_lost = false;
  // Members do not get one identical view.
  bool views_differ = false;
  // Hello claims one item more than the worker has received.
  bool received_overstated = false;
  // Nothing but leases counts as a sign of life of an agent, which says none while it has something else to say.
  bool lease_not_renewed_by_traffic = false;
  // A name takes the slot of another one that workers still announce by it.
  bool cache_slot_reused = false;
  // The controller does not know of groups.
  bool group_split = false;
  // A rank that joins counts for another one as well.
  bool joined_counted_twice = false;
  // A new process set takes the id of a removed one although somebody may not know of the removal.
  bool set_id_reused = false;
  // The first Halted counts for all.
  bool resume_before_all_halted = false;
  // Whether a worker enters a begun instance is decided by what it has in flight then.
  bool enter_by_what_is_in_flight = false;
  // The controller takes what lies on an accelerator for something that can be withdrawn.
  bool final_withdrawn = false;
  // The window has room for any number of batches on accelerators.
  bool final_not_counted = false;
  // W3b never holds.
  bool patience_without_end = false;
  // Hello does not say that the worker wants to break, which items are retained.
  bool wants_break_left_out = false;
  bool retained_left_out = false;
  // Hello lists requests whose answer the worker has received and not executed.
  bool answered_requests_listed = false;

  // Of elastic jobs. The controller believes that generations may be of any size.
  bool min_size_ignored = false;
  bool max_size_ignored = false;
  // It does not learn which run a pod is of; that a process has finished; where somebody was a member before.
  bool run_left_out = false;
  bool finished_left_out = false;
  bool previous_left_out = false;
  // Nor which local rank it had first.
  bool home_left_out = false;
  // It takes who has left for somebody who does not come back.
  bool lives_left_out = false;
  // It takes all pods for those of the first run.
  bool runs_confused = false;
  // It does not wait for members of the last generation.
  bool survivors_not_awaited = false;
  // It does not tell members that others wait, or are to leave.
  bool changes_not_told = false;
  // An agent says once, and not to the next session, that a worker is to leave.
  bool retire_not_said_again = false;
  // A script saves its state when it knows that it may go on, and not before.
  bool saved_after_changes = false;
  // A script that has gone back to its commit does not ask the others whether they have the same state.
  bool sync_left_out = false;
};

struct NamedBug {
  const char* name;
  bool Bugs::*flag;
  bool elastic = false;  // only jobs of this kind can have it
};
inline constexpr NamedBug kBugs[] = {
    {"generation_not_checked", &Bugs::generation_not_checked},
    {"incarnation_not_raised", &Bugs::incarnation_not_raised},
    {"error_sent_to_one_rank", &Bugs::error_sent_to_one_rank},
    {"batch_applied_twice", &Bugs::batch_applied_twice},
    {"lease_not_said", &Bugs::lease_not_said},
    {"replaced_stream_heard", &Bugs::replaced_stream_heard},
    {"end_not_reported_again", &Bugs::end_not_reported_again},
    {"agent_reorders", &Bugs::agent_reorders},
    {"open_requests_left_out", &Bugs::open_requests_left_out},
    {"wake_up_lost", &Bugs::wake_up_lost},
    {"views_differ", &Bugs::views_differ},
    {"received_overstated", &Bugs::received_overstated},
    {"lease_not_renewed_by_traffic", &Bugs::lease_not_renewed_by_traffic},
    {"cache_slot_reused", &Bugs::cache_slot_reused},
    {"group_split", &Bugs::group_split},
    {"joined_counted_twice", &Bugs::joined_counted_twice},
    {"set_id_reused", &Bugs::set_id_reused},
    {"resume_before_all_halted", &Bugs::resume_before_all_halted},
    {"enter_by_what_is_in_flight", &Bugs::enter_by_what_is_in_flight},
    {"final_withdrawn", &Bugs::final_withdrawn},
    {"final_not_counted", &Bugs::final_not_counted},
    {"patience_without_end", &Bugs::patience_without_end},
    {"wants_break_left_out", &Bugs::wants_break_left_out},
    {"retained_left_out", &Bugs::retained_left_out},
    {"answered_requests_listed", &Bugs::answered_requests_listed},
    {"min_size_ignored", &Bugs::min_size_ignored, true},
    {"max_size_ignored", &Bugs::max_size_ignored, true},
    {"run_left_out", &Bugs::run_left_out, true},
    {"finished_left_out", &Bugs::finished_left_out, true},
    {"previous_left_out", &Bugs::previous_left_out, true},
    {"home_left_out", &Bugs::home_left_out, true},
    {"lives_left_out", &Bugs::lives_left_out, true},
    {"runs_confused", &Bugs::runs_confused, true},
    {"survivors_not_awaited", &Bugs::survivors_not_awaited, true},
    {"changes_not_told", &Bugs::changes_not_told, true},
    {"retire_not_said_again", &Bugs::retire_not_said_again, true},
    {"saved_after_changes", &Bugs::saved_after_changes, true},
    {"sync_left_out", &Bugs::sync_left_out, true},
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_BUGS_H_
