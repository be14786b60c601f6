// The table of public datasets. Every address, size and checksum names its public source.
#include "penstock/data/fetch/public_datasets.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"

namespace penstock {
namespace {

/// These files list addresses, sizes and checksums of the files that the loaders downloaded.
constexpr std::string_view kHuggingFaceInfos =
    "github.com/huggingface/datasets, datasets/*/dataset_infos.json at 040102f10096";
/// The checksum is that of the file at this commit.
constexpr std::string_view kFoundry = "github.com/mosaicml/llm-foundry at 8c8dd48f7216";

const std::vector<PublicDataset>& dataset_table() {
  static const std::vector<PublicDataset> table = {
      {.name = "enwik8",
       .summary = "the first 10^8 bytes of the English Wikipedia's dump of 3 March 2006",
       .file = "enwik8.zip",
       .urls = {"http://mattmahoney.net/dc/enwik8.zip"},
       // The page also gives the unpacked file's SHA-1, 57b8363b814821dc9d47aa4d41f58733519076b2.
       .url_source = "http://mattmahoney.net/dc/textdata.html (address and size)",
       .bytes = 36'445'475,
       .sum_kind = ShaKind::kSha256,
       .sum = "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
       .sum_source = "github.com/huggingface/datasets, datasets/enwik8/dataset_infos.json at "
                     "040102f10096",
       .prepare = "penstock data prepare FILE --protocol enwik8 --out corpora/enwik8"},
      {.name = "wikitext-103",
       .summary = "103 million words of good and featured Wikipedia articles",
       .file = "wikitext-103-v1.zip",
       // The publisher's address answers 403 since 2024 (github.com/pytorch/text, issue 2255).
       // Users name the author's copy instead since then.
       .urls = {"https://wikitext.smerity.com/wikitext-103-v1.zip",
                "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip"},
       .url_source = "github.com/IST-DASLab/Quartet, pull request 11 (the author's copy); "
                     "github.com/pytorch/text, torchtext/datasets/wikitext103.py (the publisher's)",
       .bytes = 190'229'076,
       .sum_kind = ShaKind::kSha256,
       .sum = "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
       .sum_source = "github.com/huggingface/datasets, datasets/wikitext/dataset_infos.json at "
                     "040102f10096",
       .prepare = "penstock data prepare FILE --protocol wikitext --out corpora/wikitext-103"},
      {.name = "text8",
       .summary = "10^8 letters a to z and spaces, cleaned from the same dump",
       .file = "text8.zip",
       .urls = {"http://mattmahoney.net/dc/text8.zip"},
       .url_source = "http://mattmahoney.net/dc/textdata.html",
       // TensorFlow's word2vec tutorial checks this size: maybe_download('text8.zip', 31344016).
       .bytes = 31'344'016,
       // No citable source publishes a SHA-256 of this file.
       .sum_kind = ShaKind::kSha1,
       .sum = "6c70299b93b7e1f927b42cd8f6ac1a31547c7a2e",
       .sum_source = "github.com/dmlc/gluon-nlp, "
                     "src/gluonnlp/data/corpora/large_text_compression_benchmark.py at "
                     "0b3ed83ec9d0",
       .prepare = "penstock data prepare FILE --protocol text8 --out corpora/text8"},
      // Rows of tasks (penstock/tasks).
      {.name = "arc",
       .summary = "ARC, easy and challenge: test, dev and train rows (the archive has a large "
                  "text besides)",
       .file = "ARC-V1-Feb2018.zip",
       .urls = {"https://s3-us-west-2.amazonaws.com/ai2-website/data/ARC-V1-Feb2018.zip"},
       .url_source = kHuggingFaceInfos,
       .bytes = 680'841'265,
       .sum = "6d2d5ab50b2ceec6ba5f79c921be77cf2de712ea25a2b3f4fff3acc101cecfa0",
       .sum_source = kHuggingFaceInfos,
       .members = {"ARC-Easy/ARC-Easy-Test.jsonl", "ARC-Easy/ARC-Easy-Dev.jsonl",
                   "ARC-Easy/ARC-Easy-Train.jsonl", "ARC-Challenge/ARC-Challenge-Test.jsonl",
                   "ARC-Challenge/ARC-Challenge-Dev.jsonl",
                   "ARC-Challenge/ARC-Challenge-Train.jsonl"},
       .licence = "CC BY-SA 4.0",
       .prepare = "penstock eval MODEL --tasks arc_easy,arc_challenge --task-data DIR"},
      {.name = "arc_easy-test",
       .summary = "ARC, easy: the test rows alone, without few-shot examples",
       .file = "arc_easy.jsonl",
       .urls = {"https://raw.githubusercontent.com/mosaicml/llm-foundry/"
                "8c8dd48f72168c5d51e2f7b151595892a8fba43d/scripts/eval/local_data/world_knowledge/"
                "arc_easy.jsonl"},
       .url_source = kFoundry,
       .bytes = 636'665,
       .sum = "d2d12e59543acf9a5ef6079634a72b30215e36c2fd4236fff3bc855d287b87f5",
       .sum_source = kFoundry,
       .licence = "CC BY-SA 4.0",
       .prepare = "penstock eval MODEL --tasks arc_easy --task-data DIR"},
      {.name = "arc_challenge-test",
       .summary = "ARC, challenge: the test rows alone, without few-shot examples",
       .file = "arc_challenge.jsonl",
       .urls = {"https://raw.githubusercontent.com/mosaicml/llm-foundry/"
                "8c8dd48f72168c5d51e2f7b151595892a8fba43d/scripts/eval/local_data/world_knowledge/"
                "arc_challenge.jsonl"},
       .url_source = kFoundry,
       .bytes = 365'606,
       .sum = "1ae3aeedf1951d881cbd5c2e3a31e78a1993d251479afbe4cb413b6707244636",
       .sum_source = kFoundry,
       .licence = "CC BY-SA 4.0",
       .prepare = "penstock eval MODEL --tasks arc_challenge --task-data DIR"},
      {.name = "boolq",
       .summary = "BoolQ as SuperGLUE has it",
       .file = "BoolQ.zip",
       .urls = {"https://dl.fbaipublicfiles.com/glue/superglue/data/v2/BoolQ.zip"},
       .url_source = kHuggingFaceInfos,
       .bytes = 4'118'001,
       .sum = "853fbe7922f70c59629f06a39e8d9ca440c3d740e760fd3b87a5ddf3dcba2436",
       .sum_source = kHuggingFaceInfos,
       .members = {"BoolQ/val.jsonl", "BoolQ/train.jsonl"},
       .licence = "CC BY-SA 3.0",
       .prepare = "penstock eval MODEL --tasks boolq --task-data DIR"},
      {.name = "commonsense_qa-dev",
       .summary = "CommonsenseQA: dev rows of the random split",
       .file = "dev_rand_split.jsonl",
       .urls = {"https://s3.amazonaws.com/commensenseqa/dev_rand_split.jsonl"},
       .url_source = kHuggingFaceInfos,
       .bytes = 471'653,
       .sum = "3210497fdaae614ac085d9eb873dd7f4d49b6f965a93adadc803e1229fd8a02a",
       .sum_source = kHuggingFaceInfos,
       .prepare = "penstock eval MODEL --tasks commonsense_qa --task-data DIR"},
      {.name = "commonsense_qa-train",
       .summary = "CommonsenseQA: train rows, for few-shot examples",
       .file = "train_rand_split.jsonl",
       .urls = {"https://s3.amazonaws.com/commensenseqa/train_rand_split.jsonl"},
       .url_source = kHuggingFaceInfos,
       .bytes = 3'785'890,
       .sum = "58ffa3c8472410e24b8c43f423d89c8a003d8284698a6ed7874355dedd09a2fb",
       .sum_source = kHuggingFaceInfos,
       .prepare = "penstock eval MODEL --tasks commonsense_qa --task-data DIR"},
      {.name = "copa",
       .summary = "COPA as SuperGLUE has it",
       .file = "COPA.zip",
       .urls = {"https://dl.fbaipublicfiles.com/glue/superglue/data/v2/COPA.zip"},
       .url_source = kHuggingFaceInfos,
       .bytes = 43'986,
       .sum = "405906cddac74bc1e1ce8220f1107d1025b66a25ef10149d91b10bb30651125f",
       .sum_source = kHuggingFaceInfos,
       .members = {"COPA/val.jsonl", "COPA/train.jsonl"},
       .licence = "BSD-2-Clause",
       .prepare = "penstock eval MODEL --tasks copa --task-data DIR"},
      {.name = "hellaswag-val",
       .summary = "HellaSwag: validation rows",
       .file = "hellaswag_val.jsonl",
       .urls = {"https://github.com/rowanz/hellaswag/raw/master/data/hellaswag_val.jsonl"},
       .url_source = kHuggingFaceInfos,
       .bytes = 12'246'618,
       .sum = "0aa3b88843990f3f10a97b9575c94d7b71fb2205240ba04ae4884d9e9c992588",
       .sum_source = kHuggingFaceInfos,
       .licence = "MIT",
       .prepare = "penstock eval MODEL --tasks hellaswag --task-data DIR"},
      {.name = "hellaswag-train",
       .summary = "HellaSwag: train rows, for few-shot examples",
       .file = "hellaswag_train.jsonl",
       .urls = {"https://github.com/rowanz/hellaswag/raw/master/data/hellaswag_train.jsonl"},
       .url_source = kHuggingFaceInfos,
       .bytes = 47'496'131,
       .sum = "dae5e69249868cb9fe4e23ff925c60b66169564cfb7072d793cd7356a2b69f8d",
       .sum_source = kHuggingFaceInfos,
       .licence = "MIT",
       .prepare = "penstock eval MODEL --tasks hellaswag --task-data DIR"},
      {.name = "lambada_openai",
       .summary = "LAMBADA's test rows as OpenAI had them",
       .file = "lambada_test_en.jsonl",
       .urls = {"https://huggingface.co/datasets/EleutherAI/lambada_openai/resolve/"
                "879e19a2c9bb7ef03f9cf962089cf7d008f91e27/data/lambada_test_en.jsonl",
                "https://openaipublic.blob.core.windows.net/gpt-2/data/lambada_test.jsonl"},
       .url_source = "huggingface.co/datasets/EleutherAI/lambada_openai at 879e19a2c9bb",
       .bytes = 1'819'752,
       .sum = "4aa8d02cd17c719165fc8a7887fddd641f43fcafa4b1c806ca8abc31fabdb226",
       .sum_source =
           "github.com/EleutherAI/lm-evaluation-harness, lm_eval/tasks/lambada.py at 20229183f",
       .licence = "CC BY 4.0",
       .prepare = "penstock eval MODEL --tasks lambada_openai --task-data DIR"},
      {.name = "nq_open-dev",
       .summary = "Natural Questions, open: dev rows",
       .file = "NQ-open.dev.jsonl",
       .urls = {"https://raw.githubusercontent.com/google-research-datasets/natural-questions/"
                "master/nq_open/NQ-open.dev.jsonl"},
       .url_source = kHuggingFaceInfos,
       .bytes = 391'316,
       .sum = "f15567f38099f3615f5b8a685c0aef449c11ad90d3da3735e8d1b98115b40616",
       .sum_source = kHuggingFaceInfos,
       .licence = "CC BY-SA 3.0",
       .prepare = "penstock eval MODEL --tasks nq_open --task-data DIR"},
      {.name = "nq_open-train",
       .summary = "Natural Questions, open: train rows, for few-shot examples",
       .file = "NQ-open.train.jsonl",
       .urls = {"https://raw.githubusercontent.com/google-research-datasets/natural-questions/"
                "master/nq_open/NQ-open.train.jsonl"},
       .url_source = kHuggingFaceInfos,
       .bytes = 8'522'298,
       .sum = "0c93aaf13b12f855628489665e4ef85ffb8573ad444646f11f4fabdc57a0aabf",
       .sum_source = kHuggingFaceInfos,
       .licence = "CC BY-SA 3.0",
       .prepare = "penstock eval MODEL --tasks nq_open --task-data DIR"},
      {.name = "openbookqa",
       .summary = "OpenBookQA, with the facts",
       .file = "OpenBookQA-V1-Sep2018.zip",
       .urls = {"https://s3-us-west-2.amazonaws.com/ai2-website/data/OpenBookQA-V1-Sep2018.zip"},
       .url_source = kHuggingFaceInfos,
       .bytes = 1'446'098,
       .sum = "82368cf05df2e3b309c17d162e10b888b4d768fad6e171e0a041954c8553be46",
       .sum_source = kHuggingFaceInfos,
       .members = {"OpenBookQA-V1-Sep2018/Data/Main/test.jsonl",
                   "OpenBookQA-V1-Sep2018/Data/Main/train.jsonl",
                   "OpenBookQA-V1-Sep2018/Data/Additional/test_complete.jsonl"},
       .licence = "Apache-2.0",
       .prepare = "penstock eval MODEL --tasks openbookqa --task-data DIR"},
      {.name = "piqa",
       .summary = "PIQA: dev and train rows with their labels",
       .file = "physicaliqa-train-dev.zip",
       .urls = {"https://storage.googleapis.com/ai2-mosaic/public/physicaliqa/"
                "physicaliqa-train-dev.zip"},
       .url_source = kHuggingFaceInfos,
       .bytes = 1'824'009,
       .sum = "54d32a04f59a7e354396f321723c8d7ec35cc6b08506563d8d1ffcc15ce98ddd",
       .sum_source = kHuggingFaceInfos,
       .members = {"physicaliqa-train-dev/dev.jsonl", "physicaliqa-train-dev/dev-labels.lst",
                   "physicaliqa-train-dev/train.jsonl", "physicaliqa-train-dev/train-labels.lst"},
       .licence = "AFL-3.0",
       .prepare = "penstock eval MODEL --tasks piqa --task-data DIR"},
      {.name = "race",
       .summary = "RACE: high school's test articles",
       .file = "race_high_test.jsonl",
       .urls = {"https://huggingface.co/datasets/EleutherAI/race/resolve/"
                "e30efe648089df42c548e93faa9c5f1816e2c44f/race_high_test.jsonl"},
       .url_source = "huggingface.co/datasets/EleutherAI/race at e30efe648089",
       .licence = "non-commercial research",
       .prepare = "penstock eval MODEL --tasks race --task-data DIR"},
      {.name = "sciq",
       .summary = "SciQ",
       .file = "SciQ.zip",
       .urls = {"https://s3-us-west-2.amazonaws.com/ai2-website/data/SciQ.zip"},
       .url_source = kHuggingFaceInfos,
       .bytes = 2'821'345,
       .sum = "7f3312f6ac6b09970b32942d106a8c44ec0dad46a0369f17d635aff8e348a87c",
       .sum_source = kHuggingFaceInfos,
       .members = {"SciQ dataset-2 3/test.json", "SciQ dataset-2 3/train.json"},
       .prepare = "penstock eval MODEL --tasks sciq --task-data DIR"},
      {.name = "social_iqa",
       .summary = "Social IQa: dev and train rows with their labels",
       .file = "socialiqa-train-dev.zip",
       .urls =
           {"https://storage.googleapis.com/ai2-mosaic/public/socialiqa/socialiqa-train-dev.zip"},
       .url_source = kHuggingFaceInfos,
       .bytes = 2'198'056,
       .sum = "ee073914a0fc33265cfbcfc50ec20df9b2e07809c3f420f599138d1f394ef5c3",
       .sum_source = kHuggingFaceInfos,
       .members = {"socialiqa-train-dev/dev.jsonl", "socialiqa-train-dev/dev-labels.lst",
                   "socialiqa-train-dev/train.jsonl", "socialiqa-train-dev/train-labels.lst"},
       .prepare = "penstock eval MODEL --tasks social_iqa --task-data DIR"},
      {.name = "triviaqa-3000",
       .summary = "TriviaQA: 3000 rows; scores on them are not those on the whole set",
       .file = "triviaqa_sm_sub.jsonl",
       .urls = {"https://raw.githubusercontent.com/mosaicml/llm-foundry/"
                "8c8dd48f72168c5d51e2f7b151595892a8fba43d/scripts/eval/local_data/world_knowledge/"
                "triviaqa_sm_sub.jsonl"},
       .url_source = kFoundry,
       .bytes = 1'263'021,
       .sum = "e3e8222e94cae291d7ab132e59f09c4f51580ed3e23639cf29c2926b4c8284e9",
       .sum_source = kFoundry,
       .licence = "Apache-2.0",
       .prepare = "penstock eval MODEL --tasks triviaqa --task-data DIR"},
      {.name = "winogrande",
       .summary = "WinoGrande 1.1",
       .file = "winogrande_1.1.zip",
       .urls = {"https://storage.googleapis.com/ai2-mosaic/public/winogrande/winogrande_1.1.zip"},
       .url_source = kHuggingFaceInfos,
       .bytes = 3'395'492,
       .sum = "3619ab104d8be2977b25c90ff420cb42d491707dcc75362a1e5d22bc082b7318",
       .sum_source = kHuggingFaceInfos,
       .members = {"winogrande_1.1/dev.jsonl", "winogrande_1.1/train_xl.jsonl"},
       .licence = "CC BY",
       .prepare = "penstock eval MODEL --tasks winogrande --task-data DIR"},
  };
  return table;
}

}  // namespace

std::span<const PublicDataset> public_datasets() { return dataset_table(); }

bool is_public_dataset(std::string_view name) {
  return std::ranges::find(dataset_table(), name, &PublicDataset::name) != dataset_table().end();
}

const PublicDataset& public_dataset(std::string_view name) {
  const auto found = std::ranges::find(dataset_table(), name, &PublicDataset::name);
  if (found != dataset_table().end()) return *found;
  fail("no data set '", name, "' is known; there are ",
       joined(dataset_table(), ", ", &PublicDataset::name));
}

}  // namespace penstock
