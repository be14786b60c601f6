// What models answered, kept while an evaluation runs, so that one that was killed goes on where it
// was. A file of lines, appended and synced piece by piece; who asked what is its first line.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/file_lock.h"
#include "penstock/base/file_system.h"
#include "penstock/tasks/scoring.h"
#include "penstock/tasks/template.h"

namespace penstock::tasks {

/// A model's answer to an item: the scores of its requests, or the text that it wrote.
struct Answer {
  std::vector<RequestScore> scores;
  std::string generated = {};
};

/// One task that one model is asked; what all of it says decides whether answers still hold.
struct Asked {
  std::string model;  ///< its fingerprint, and how it is run
  std::string task, protocol;
  std::string requests;  ///< the sum of all tokens that it is asked
};

class AnswerLog {
 public:
  /// Takes up the answers in the file at `path`, or begins it. A last line that was cut while it
  /// was written is dropped. Throws Error for a file of other models, tasks or options, naming what
  /// differs, for a damaged one, naming the line, and where another process holds it.
  AnswerLog(std::string path, const std::vector<Asked>& asked);

  /// Answers that were in the file.
  std::size_t taken_up() const { return taken_up_; }
  /// The answer to an item of asked[place], or nullptr.
  const Answer* find(std::size_t place, std::size_t item) const;
  /// Keeps an answer; on the device once sync() returns.
  void add(std::size_t place, std::size_t item, Answer answer);
  void sync();
  /// Removes the file: its answers are in a better place now.
  void remove();

 private:
  /// Returns the bytes of the whole lines.
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
