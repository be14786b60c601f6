// Part of every test binary with libtorch: new tensors are filled with NaN (in f32; 1e308 in f64),
// so that what reads memory which nothing has written fails always, and not on some machines only.
#include <c10/util/Flags.h>

C10_DECLARE_bool(caffe2_cpu_allocator_do_junk_fill);

namespace penstock {
namespace {

[[maybe_unused]] const bool filled = (FLAGS_caffe2_cpu_allocator_do_junk_fill = true);

}  // namespace
}  // namespace penstock
