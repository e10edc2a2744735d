#ifndef FARANDOLE_CONTROLLER_TYPES_RANK_TEXT_H_
#define FARANDOLE_CONTROLLER_TYPES_RANK_TEXT_H_

#include <string>
#include <vector>

#include "proto/types.h"

namespace farandole::controller {

// "rank 3", "ranks 0, 2 and 5", "ranks 0 to 7", "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 24 more".
std::string RankText(const std::vector<Rank>& ranks_rising);

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_RANK_TEXT_H_
