// metrics.jsonl: one JSON object per training step, appended line by line. Every step stands there
// once, also after kills and resumes; step 0 is what was measured before the first. Not for events
// that belong to no step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"

namespace penstock {

class MetricsLog {
 public:
  /// Opens the log of a run that stands at `resume_step` (0: a new run): later steps, torn lines
  /// and repeated steps are dropped first, atomically.
  MetricsLog(FileSystem& fs, std::filesystem::path path, std::int64_t resume_step);
  /// The steps up to `resume_step` that have no line, as "1-10, 12"; "" when each has one. A log
  /// that was only ever written by this class lacks none.
  const std::string& missing_steps() const { return missing_; }
  /// The last line's step; nothing where the log is empty.
  std::optional<std::int64_t> last_step() const {
    return last_step_ < 0 ? std::nullopt : std::optional(last_step_);
  }
  /// Appends one line; a kill of the process cannot lose it, a crash of the machine can until
  /// sync(). Numbers read back to the same bits; NaN and infinities become null. REQUIRES:
  /// line["step"] is an integer above the last one's.
  void append(const nlohmann::ordered_json& line);
  /// Makes everything so far durable. To be called before the checkpoint of that step is saved.
  /// Another thread may call it beside append(), as it may sync one of the system's files.
  void sync();

 private:
  std::filesystem::path path_;
  std::unique_ptr<OutputFile> file_;
  std::int64_t last_step_ = 0;
  std::string missing_;
};

/// The whole lines of a log, in order; none when there is no file.
std::vector<nlohmann::ordered_json> read_metrics(FileSystem& fs, const std::filesystem::path& path);

}  // namespace penstock
