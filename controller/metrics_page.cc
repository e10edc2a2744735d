#include "controller/metrics_page.h"

#include "controller/metrics_text.h"

namespace farandole {

const std::string& MetricsPage::Text() {
  const TimePoint now = hub_->Now();
  if (text_.empty() || now.MsSince(written_) >= kKeptMs) {
    text_ = MetricsText(hub_->AllStatus());
    written_ = now;
  }
  return text_;
}

}  // namespace farandole
