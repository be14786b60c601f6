// A setting with which a row of a product does not depend on the other rows or their number. It is
// a scoped setting of a thread, like the precision of products.
#pragma once

#include <cstdint>

namespace penstock::ops {

/// While it lives, linear, expert_ffn and cached_attention (f32, CPU, no gradient) compute any
/// number of rows with the kernels for up to 16 rows. A row then has the same bits as if it were
/// computed alone. These kernels take longer for many rows than the kernels for whole prompts.
/// Other types and devices have no such kernels, and the setting changes nothing for them.
class RowsAlone {
 public:
  RowsAlone();
  ~RowsAlone();
  RowsAlone(const RowsAlone&) = delete;
  RowsAlone& operator=(const RowsAlone&) = delete;

 private:
  bool before_;
};

/// Whether the setting is on for this thread.
bool rows_alone();

/// Whether the kernels for few rows take `rows` rows.
bool takes_few_rows(std::int64_t rows);

}  // namespace penstock::ops
