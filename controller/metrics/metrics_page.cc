#include "controller/metrics/metrics_page.h"

#include "controller/metrics/metrics_text.h"
#include "controller/metrics/process_start.h"

namespace farandole::controller::metrics {

MetricsPage::MetricsPage(const hub::Hub* hub) : hub_(hub), started_s_(ProcessStartSeconds()) {}

const std::string& MetricsPage::Text() {
  const TimePoint now = hub_->Now();
  if (text_.empty() || now.MsSince(written_) >= kKeptMs) {
    text_ = MetricsText(hub_->AllStatus(), hub_->Namespaces(), started_s_);
    written_ = now;
  }
  return text_;
}

}  // namespace farandole::controller::metrics
