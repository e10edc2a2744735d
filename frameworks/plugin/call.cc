#include "frameworks/plugin/call.h"

#include <locale>
#include <sstream>

namespace farandole::frameworks::plugin {

void Call::Fill(size_t index, farandole_submission* submission) const {
  submission->operation = operation;
  submission->name = names[index].empty() ? nullptr : names[index].c_str();
  submission->reduce_op = reduce_op;
  submission->prescale = prescale;
  submission->postscale = postscale;
  submission->root_rank = root_rank;
  submission->process_set = process_set;
}

const char* Call::GroupOf(size_t count) const {
  return (count > 1 || grouped) && !group.empty() ? group.c_str() : nullptr;
}

bool Call::Parse(const std::string& text) {
  std::istringstream lines(text);
  // A program may have set another one, with commas in numbers.
  lines.imbue(std::locale::classic());
  lines >> operation >> reduce_op >> prescale >> postscale >> root_rank >> process_set >> life;
  if (lines.peek() == ' ') lines >> grouped;
  if (!lines || lines.get() != '\n' || !std::getline(lines, group)) return false;
  names.clear();
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return !names.empty();
}

}  // namespace farandole::frameworks::plugin
