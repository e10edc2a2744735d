#include "frameworks/jax/call.h"

#include <locale>
#include <sstream>

namespace farandole::frameworks::jax {

bool Call::Parse(const std::string& text, int64_t tensors) {
  std::istringstream lines(text);
  // A program may have set another one, with commas in numbers.
  lines.imbue(std::locale::classic());
  lines >> operation >> reduce_op >> prescale >> postscale >> root_rank >> process_set;
  if (!lines || lines.get() != '\n' || !std::getline(lines, group)) return false;
  names.clear();
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return static_cast<int64_t>(names.size()) == tensors;
}

}  // namespace farandole::frameworks::jax
