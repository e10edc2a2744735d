#include "frameworks/plugin/call.h"

#include <locale>
#include <sstream>

namespace farandole::frameworks::plugin {

bool Call::Parse(const std::string& text) {
  std::istringstream lines(text);
  // A program may have set another one, with commas in numbers.
  lines.imbue(std::locale::classic());
  lines >> operation >> reduce_op >> prescale >> postscale >> root_rank >> process_set >> life;
  if (!lines || lines.get() != '\n' || !std::getline(lines, group)) return false;
  names.clear();
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return !names.empty();
}

}  // namespace farandole::frameworks::plugin
