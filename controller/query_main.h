#ifndef FARANDOLE_CONTROLLER_QUERY_MAIN_H_
#define FARANDOLE_CONTROLLER_QUERY_MAIN_H_

#include <string>
#include <vector>

namespace farandole {

// The program `farandole-controller query`; returns its exit code. `args` behind "query".
int QueryMain(const std::vector<std::string>& args);

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_QUERY_MAIN_H_
