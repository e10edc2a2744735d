#include "controller/metrics/metrics_page.h"

#include "controller/metrics/metrics_text.h"

namespace farandole::controller::metrics {

const std::string& MetricsPage::Text() {
  const TimePoint now = hub_->Now();
  if (text_.empty() || now.MsSince(written_) >= kKeptMs) {
    text_ = MetricsText(hub_->AllStatus());
    written_ = now;
  }
  return text_;
}

}  // namespace farandole::controller::metrics
