// A file of the source tree that is part of the library. Its bytes are put into a generated .cpp
// when the project is built (cmake/EmbeddedFiles.cmake).
#pragma once

#include <string_view>

namespace penstock {

struct EmbeddedFile {
  std::string_view name;  ///< the path below the embedded folder: "lm-eval/piqa.toml"
  std::string_view text;
};

}  // namespace penstock
