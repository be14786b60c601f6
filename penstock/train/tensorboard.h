// TensorBoard event files with scalars only. Not a protobuf library: the three messages are encoded
// by hand.
// Source: tensorflow/core/util/event.proto, framework/summary.proto, lib/io/record_writer.cc (the
// framing: length, masked CRC-32C of it, data, masked CRC-32C of it).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "penstock/base/file_system.h"

namespace penstock {

/// One new event file in a run's directory; TensorBoard joins the files of a directory.
class TensorBoardWriter {
 public:
  /// @param resume_step  the run's last step. Later steps in earlier files are withdrawn
  ///                     (TensorBoard purges them on a session's start)
  TensorBoardWriter(FileSystem& fs, const std::filesystem::path& directory,
                    std::int64_t resume_step);
  /// Appends one event with a value per tag. `wall_seconds` since 1970.
  void scalars(std::int64_t step, double wall_seconds, const std::map<std::string, double>& values);
  /// Makes every event so far durable.
  void sync();
  /// The path of the event file.
  const std::filesystem::path& path() const { return path_; }

 private:
  void record(const std::string& event);
  std::filesystem::path path_;
  std::unique_ptr<OutputFile> file_;
};

}  // namespace penstock
