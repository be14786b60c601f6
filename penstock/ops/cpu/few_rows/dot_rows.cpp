// Products of a few rows, and conversion of rows to f32. Each type of row has a function for
// either, compiled for each processor.
#include "penstock/ops/cpu/few_rows/dot_rows.h"

#include "penstock/base/error.h"

namespace penstock::ops::cpu {
namespace {

template <class Reader>
PENSTOCK_INLINE void expand_of(const std::byte* w, std::int64_t numbers, float* y) {
  std::int64_t i = 0;
  for (; i + Reader::kNumbers <= numbers; i += Reader::kNumbers, w += Reader::kBytes) {
    Reader block;
    block.begin(w);
    for (int part = 0; part < Reader::kParts; ++part)
#pragma GCC unroll 8
      for (int v = 0; v < Reader::kVectors; ++v)
        store(y + i + (part * Reader::kVectors + v) * kLanes, block.lanes(part, v));
  }
  if constexpr (Reader::kNumbers == kLanes)
    for (; i < numbers; ++i, w += Reader::kBytes / kLanes) y[i] = Reader::one(w);
}

struct RowFunctions {
  void (*dot)(const DotOperands&, std::int64_t, std::int64_t);
  void (*expand)(const std::byte*, std::int64_t, float*);
};

// The types of rows, each with its reader. g++ 12 cannot clone templates, so each type has two
// functions of its own, and a case that returns them.
#define PENSTOCK_ROW_TYPES(each, Widen) \
  each(f32, ReadF32);                   \
  each(f16, ReadF16<Widen>);            \
  each(bf16, ReadBf16<Widen>);          \
  each(q8_0, ReadQ80<Widen>);           \
  each(q4_0, ReadQ40<Widen>);           \
  each(q4_1, ReadQ41<Widen>);           \
  each(q5_0, ReadQ50<Widen>);           \
  each(q5_1, ReadQ51<Widen>);           \
  each(q4_k, ReadQ4K<Widen>);           \
  each(q5_k, ReadQ5K<Widen>);           \
  each(q6_k, ReadQ6K<Widen>)
#define PENSTOCK_ROW_FUNCTIONS(name, Reader)                                                    \
  PENSTOCK_TARGET void dot_##name(const DotOperands& o, std::int64_t rows, std::int64_t cols) { \
    dot_rows_of<Reader, kTallest>(o, rows, cols);                                               \
  }                                                                                             \
  PENSTOCK_TARGET void expand_##name(const std::byte* w, std::int64_t numbers, float* y) {      \
    expand_of<Reader>(w, numbers, y);                                                           \
  }                                                                                             \
  static_assert(true)
#define PENSTOCK_ROW_CASE(name, Reader) \
  case RowType::name:                   \
    return { dot_##name, expand_##name }

namespace portable {

constexpr int kTallest = 4;
#if defined(PENSTOCK_HAS_CLONES)  // x86-64-v4 has functions of its own
#define PENSTOCK_TARGET __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define PENSTOCK_TARGET
#endif
PENSTOCK_ROW_TYPES(PENSTOCK_ROW_FUNCTIONS, WidenPortably);
#undef PENSTOCK_TARGET
RowFunctions functions_of(RowType type) {
  switch (type) { PENSTOCK_ROW_TYPES(PENSTOCK_ROW_CASE, WidenPortably); }
  PENSTOCK_ASSERT(false, "no such type of rows");
}

}  // namespace portable

// In a build without clones, sums are not fused on any processor.
#if defined(PENSTOCK_HAS_CLONES)
namespace avx512 {

constexpr int kTallest = 6;
#define PENSTOCK_TARGET __attribute__((target("arch=x86-64-v4")))
PENSTOCK_ROW_TYPES(PENSTOCK_ROW_FUNCTIONS, WidenByAvx512);
#undef PENSTOCK_TARGET
RowFunctions functions_of(RowType type) {
  switch (type) { PENSTOCK_ROW_TYPES(PENSTOCK_ROW_CASE, WidenByAvx512); }
  PENSTOCK_ASSERT(false, "no such type of rows");
}

}  // namespace avx512
#endif
#undef PENSTOCK_ROW_CASE
#undef PENSTOCK_ROW_FUNCTIONS
#undef PENSTOCK_ROW_TYPES

RowFunctions functions_of(RowType type) {
#if defined(PENSTOCK_HAS_CLONES)
  if (__builtin_cpu_supports("x86-64-v4")) return avx512::functions_of(type);
#endif
  return portable::functions_of(type);
}

}  // namespace

void dot_rows(RowType type, const DotOperands& operands, std::int64_t rows, std::int64_t columns) {
  functions_of(type).dot(operands, rows, columns);
}

void expand_rows(RowType type, const std::byte* w, std::int64_t rows, std::int64_t depth,
                 float* y) {
  functions_of(type).expand(w, rows * depth, y);
}

}  // namespace penstock::ops::cpu
