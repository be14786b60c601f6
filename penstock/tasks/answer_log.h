// A log of models' answers, written while an evaluation runs, so that a killed evaluation can
// resume. It is a file of lines, appended and synced batch by batch. Its first line says which
// models answer which tasks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/file_lock.h"
#include "penstock/base/file_system.h"
#include "penstock/tasks/scoring.h"
#include "penstock/tasks/template.h"

namespace penstock::tasks {

/// A model's answer to an item: the scores of its requests, or the generated text.
struct Answer {
  std::vector<RequestScore> scores;
  std::string generated = {};
};

/// One task for one model. Logged answers are reused only if all of these fields are equal.
struct AskedTask {
  std::string model;  ///< the model's fingerprint and its options
  std::string task, protocol;
  std::string requests;  ///< the checksum of all request tokens
};

class AnswerLog {
 public:
  /// Loads the answers in the file at `path`, or creates the file. An incomplete last line is
  /// dropped. Throws Error for a file of other models, tasks or options, with the difference; for a
  /// damaged file, with the line; and if another process has locked the file.
  AnswerLog(std::string path, const std::vector<AskedTask>& asked);

  /// The number of answers that were loaded from the file.
  std::size_t taken_up() const { return taken_up_; }
  /// The answer to an item of asked[place], or nullptr.
  const Answer* find(std::size_t place, std::size_t item) const;
  /// Adds an answer. It is on disk after the next sync().
  void add(std::size_t place, std::size_t item, Answer answer);
  void sync();
  /// Removes the file, for when its answers are stored elsewhere.
  void remove();

 private:
  /// Returns the number of bytes in complete lines.
  std::size_t read(const std::string& text, const std::string& head);
  void take(const Row& line, const std::string& where);

  std::string path_;
  FileLock lock_;
  std::map<std::pair<std::size_t, std::size_t>, Answer> answers_;
  std::size_t taken_up_ = 0;
  std::string unwritten_;
  std::unique_ptr<OutputFile> file_;
};

}  // namespace penstock::tasks
