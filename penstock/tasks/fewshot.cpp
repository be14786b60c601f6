#include "penstock/tasks/fewshot.h"

#include <algorithm>
#include <numeric>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/tasks/python_random.h"

namespace penstock::tasks {
namespace {

/// The row's request and its answer. lm-eval puts its delimiter also before a continuation that
/// begins with a space.
std::string example_text(const Task& task, const Item& item) {
  const auto gold = static_cast<std::size_t>(std::max(item.gold, 0));
  const TextRequest& request = item.requests[gold];
  std::string out = request.context.substr(task.description.size());
  if (task.kind == Kind::kContinuation) out += " ";
  out +=
      task.kind == Kind::kGeneration ? task.delimiter + item.answers.front() : request.continuation;
  return out + task.fewshot->separator;
}

class Sampler {
 public:
  Sampler(const Task& task, std::span<const Item> pool, const Shots& shots)
      : task_(task), pool_(pool), shots_(shots), random_(shots.seed) {
    const std::size_t needed = shots.count + (task.fewshot->without_itself ? 1 : 0);
    PENSTOCK_CHECK(needed <= pool.size(), "task ", task.name, ": ", shots.count,
                   " few-shot examples are asked for",
                   needed > shots.count ? ", one more is drawn" : "", ", and there are ",
                   pool.size(), " rows to draw from");
  }

  /// Draws the examples of an item, and returns their text.
  std::string draw(const Item& item) {
    std::string out;
    std::size_t drawn = 0;
    for (const std::size_t place : places()) {
      const Item& example = pool_[place];
      if (drawn == shots_.count) break;
      if (task_.fewshot->without_itself && example.doc == item.doc) continue;
      out += example_text(task_, example);
      ++drawn;
    }
    PENSTOCK_CHECK(drawn == shots_.count, item.where, ": the row stands several times among those ",
                   "that few-shot examples are drawn from; remove its copies");
    return out;
  }

 private:
  std::vector<std::size_t> places() {
    const std::size_t more = task_.fewshot->without_itself ? 1 : 0;
    if (!task_.fewshot->first) return random_.sample(pool_.size(), shots_.count + more);
    std::vector<std::size_t> out(pool_.size());
    std::iota(out.begin(), out.end(), std::size_t{0});
    return out;
  }

  const Task& task_;
  std::span<const Item> pool_;
  const Shots& shots_;
  PythonRandom random_;
};

}  // namespace

void check_has_examples(const Task& task) {
  PENSTOCK_CHECK(
      task.protocol == TaskProtocol::kLmEval, "task ", task.name, ": protocol ",
      word(task.protocol),
      "'s forms have no few-shot examples; leave options.fewshot out, or choose lm-eval");
  PENSTOCK_CHECK(task.fewshot, "task ", task.name, ": ", task.origin,
                 " has no table [fewshot] that says where its few-shot examples come from");
}

void add_examples(const Task& task, std::span<const Item> pool, const Shots& shots, Items& items) {
  if (shots.count == 0) return;
  check_has_examples(task);
  Sampler sampler(task, pool, shots);
  for (Item& item : items.items) {
    const std::string examples = sampler.draw(item);
    for (TextRequest& request : item.requests)
      request.context.insert(task.description.size(), examples);
  }
  items.shots = shots;
}

}  // namespace penstock::tasks
