#include "penstock/study/config/study_config.h"

#include <algorithm>

namespace penstock::study {

bool StudyConfig::trains() const {
  return report.empty() || std::ranges::any_of(measurements, [&](const auto& one) {
           const auto words = one->report_words();
           return std::ranges::find_first_of(report, words) != report.end();
         });
}

}  // namespace penstock::study
