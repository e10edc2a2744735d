#ifndef FARANDOLE_CONTROLLER_TYPES_RANK_TEXT_H_
#define FARANDOLE_CONTROLLER_TYPES_RANK_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/types.h"

namespace farandole::controller {

// "rank 3", "ranks 0, 2 and 5", "ranks 0 to 7", "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 24 more".
std::string RankText(const std::vector<Rank>& ranks_rising);

// Numbers that may be the ranks of a process set, as a worker gave them: "[0, 2, 5]"; of more than 16 "[0 to 99]" if
// each is one above the one before, otherwise the first ones: "[0, 2, 4, ... 30 and 24 more]".
std::string NumbersText(const std::vector<int64_t>& numbers);

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_RANK_TEXT_H_
