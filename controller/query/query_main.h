#ifndef FARANDOLE_CONTROLLER_QUERY_QUERY_MAIN_H_
#define FARANDOLE_CONTROLLER_QUERY_QUERY_MAIN_H_

#include <string>
#include <vector>

namespace farandole::controller::query {

// The program `farandole-controller query`; returns its exit code. `args` behind "query".
int QueryMain(const std::vector<std::string>& args);

}  // namespace farandole::controller::query

#endif  // FARANDOLE_CONTROLLER_QUERY_QUERY_MAIN_H_
