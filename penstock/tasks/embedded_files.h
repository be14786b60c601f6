// The files of the folder tasks/, which the build embeds in the library.
#pragma once

#include <span>

#include "penstock/base/embedded_file.h"

namespace penstock::tasks {

std::span<const EmbeddedFile> embedded_files();

}  // namespace penstock::tasks
