#ifndef FARANDOLE_CONTROLLER_JOB_COLLECTIVE_WAITS_H_
#define FARANDOLE_CONTROLLER_JOB_COLLECTIVE_WAITS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controller/log/item_log.h"
#include "controller/members/roster.h"
#include "controller/types/open_wait.h"
#include "controller/types/rank_set.h"
#include "controller/waits/report_table.h"

namespace farandole::controller::job {

// The members of a process set; nullptr: there is none.
using MembersOf = std::function<const RankSet*(uint32_t process_set)>;

// Why these ranks, at least one, are silent: "rank 1 is stopped by a signal".
std::string SilentText(const RankSet& silent, const members::Roster& roster);

// Collectives that have begun and that some ranks, by their own reports, have been in for two seconds or longer: those
// wait for members that do not answer, or that have not received the item. Nobody is known to be missing in some that
// last ten seconds: the wait is one without missing ranks. Of the batches of a replay (`replayed`), which count as one
// for each process set, only members that do not answer are known. The longest first, at most 16. Pure.
std::vector<OpenWait> CollectiveWaits(const std::vector<waits::ReportTable::InFlight>& in_flight, bool replayed,
                                      const members::Roster& roster, const log::ItemLog& log,
                                      const MembersOf& members_of, TimePoint now);

}  // namespace farandole::controller::job

#endif  // FARANDOLE_CONTROLLER_JOB_COLLECTIVE_WAITS_H_
