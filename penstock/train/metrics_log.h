// metrics.jsonl: one JSON object per training step, appended line by line. Each step has one line,
// also after kills and resumes. Step 0 holds the measurements before the first step. The log has no
// events that belong to no step.
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
  /// Opens the log of a run whose last step is `resume_step` (0: a new run). First drops later
  /// steps, torn lines and repeated steps, atomically.
  MetricsLog(FileSystem& fs, std::filesystem::path path, std::int64_t resume_step);
  /// The steps up to `resume_step` without a line, as "1-10, 12"; "" when each step has one. A log
  /// that only this class has written has all steps.
  const std::string& missing_steps() const { return missing_; }
  /// The last line's step; nothing if the log is empty.
  std::optional<std::int64_t> last_step() const {
    return last_step_ < 0 ? std::nullopt : std::optional(last_step_);
  }
  /// Appends one line. If the process is killed, the line is kept; if the machine crashes before
  /// sync(), it may be lost. Numbers read back to the same bits; NaN and infinities become null.
  /// REQUIRES: line["step"] is an integer above the last line's step.
  void append(const nlohmann::ordered_json& line);
  /// Makes all lines so far durable. Call it before saving the checkpoint of the last line's step.
  /// One thread may call it while another calls append(), because the system can sync a file during
  /// a write.
  void sync();

 private:
  std::filesystem::path path_;
  std::unique_ptr<OutputFile> file_;
  std::int64_t last_step_ = 0;
  std::string missing_;
};

/// The complete lines of a log, in order; none when there is no file. They lack their "load".
std::vector<nlohmann::ordered_json> read_metrics(FileSystem& fs, const std::filesystem::path& path);

}  // namespace penstock
