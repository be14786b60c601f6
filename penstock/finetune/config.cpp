#include "penstock/finetune/config.h"

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"

namespace penstock {
namespace {

void complete_finetune_config(FinetuneConfig& c) {
  const bool authors = c.authors();
  const auto fill = [&](std::int64_t& value, std::int64_t of_authors, std::int64_t clean) {
    if (value < 0) value = authors ? of_authors : clean;
  };
  fill(c.steps, 5000, 0);
  fill(c.train_memory, 128, 0);
  fill(c.eval_memory, 512, 0);
  if (authors && c.eval_every < 0) c.eval_every = 500;
  if (!c.train_hypernetwork) c.train_hypernetwork = authors;
  if (authors) c.length_pool = 1;  // the authors' code shuffles texts without regard to length
  PENSTOCK_CHECK(authors || (c.train_memory == 0 && c.eval_memory == 0),
                 "train_memory and eval_memory carry memory from one text to an unrelated one, "
                 "which is protocol \"authors\" alone");
  PENSTOCK_CHECK(!c.emulate_bf16 || c.precision == ops::ProductPrecision::bf16,
                 "emulate_bf16 = true: precision = \"fp32\" has no products in bf16; set "
                 "precision = \"bf16\", or leave it out");
  OptimizerConfig(c.optimizer).complete(c.steps, "");  // checks a copy; steps may be set later
  PENSTOCK_CHECK(c.steps > 0 || c.epochs > 0, "epochs = 0 and no steps: nothing would be trained");
}

}  // namespace

FinetuneConfig read_finetune_config(const ConfigNode& node) {
  FinetuneConfig config = read_config<FinetuneConfig>(node);
  naming_origins(node, [&] { complete_finetune_config(config); });
  return config;
}

}  // namespace penstock
