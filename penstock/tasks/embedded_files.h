// The files of tasks/ that are part of the library. Their bytes are put into a generated .cpp when
// the project is built.
#pragma once

#include <span>
#include <string_view>

namespace penstock::tasks {

struct EmbeddedFile {
  std::string_view name;  ///< below tasks/: "lm-eval/piqa.toml"
  std::string_view text;
};

std::span<const EmbeddedFile> embedded_files();

}  // namespace penstock::tasks
