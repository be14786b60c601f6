// Products whose rows do not depend on each other, however many there are. A setting of a thread
// for a while, as the precision of products is.
#pragma once

#include <cstdint>

namespace penstock::ops {

/// While it lives, linear, expert_ffn and cached_attention, of f32 on the CPU and without gradient,
/// compute any number of rows as they do up to 16: a row's bits are those that it has alone. More
/// rows then take longer than in the kernels of whole prompts. Where there are no kernels for few
/// rows (other types and devices) nothing changes.
class RowsAlone {
 public:
  RowsAlone();
  ~RowsAlone();
  RowsAlone(const RowsAlone&) = delete;
  RowsAlone& operator=(const RowsAlone&) = delete;

 private:
  bool before_;
};

/// Whether this thread's products are so now.
bool rows_alone();

/// Whether the kernels for few rows take that many.
bool takes_few_rows(std::int64_t rows);

}  // namespace penstock::ops
