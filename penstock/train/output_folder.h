// Checks whether a run or a study may write into a folder. run_loop.cpp claims a run's folder and
// locks it.
#pragma once

#include <string>
#include <string_view>

#include "penstock/base/atomic_files.h"

namespace penstock {

inline constexpr std::string_view kRunFolder = "run", kStudyFolder = "study";

/// Throws Error if the folder holds a corpus, a model, or a run or study other than the kind to be
/// written, because each needs its own folder.
/// @param written  the kind to be written: kRunFolder or kStudyFolder
void check_output_folder(FileSystem& files, const std::string& folder, std::string_view written);

}  // namespace penstock
