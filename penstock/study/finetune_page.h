// The page of one fine-tuning.
#pragma once

#include <string>

namespace penstock::study {

/// report.html of a fine-tuning's run directory: accuracy by experts per token beside the majority
/// class's, loss and accuracy over the steps, the settings. Of a run that has not finished, without
/// the test. Throws Error naming the file that is damaged.
std::string finetune_page(const std::string& run_directory);

}  // namespace penstock::study
