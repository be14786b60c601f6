// Few-shot examples: rows with their answers that stand before what is asked, drawn as lm-eval
// draws them. Which file they come from is the task's matter (task.h).
#pragma once

#include <span>

#include "penstock/tasks/items.h"

namespace penstock::tasks {

/// Puts `shots.count` examples before each request, behind the task's description: of each item
/// anew, in the items' order, with one generator. An example is its request with the right answer,
/// and the task's separator. Throws Error where the pool is too small.
/// @param pool  the items that examples are made of, in their file's order
void add_examples(const Task& task, std::span<const Item> pool, const Shots& shots, Items& items);

/// Throws Error for a task that has no examples: of another protocol, or without a [fewshot] table.
void check_has_examples(const Task& task);

}  // namespace penstock::tasks
