// Few-shot examples: rows with their answers, which are put before a request. They are drawn as in
// lm-eval. The task names their file (task.h).
#pragma once

#include <span>

#include "penstock/tasks/items.h"

namespace penstock::tasks {

/// Puts `shots.count` examples before each request, after the task's description. One generator
/// draws new examples for each item, in the items' order. An example is its request, the right
/// answer and the task's separator. Throws Error if the pool is too small.
/// @param pool  the items that become examples, in their file's order
void add_examples(const Task& task, std::span<const Item> pool, const Shots& shots, Items& items);

/// Throws Error for a task that has no examples, because of its protocol or because it has no
/// [fewshot] table.
void check_has_examples(const Task& task);

}  // namespace penstock::tasks
