// Times a training step of llm.c's GPT-2 on the CPU: its train_gpt2.c is included from a checkout, without its own
// main. bench/compare_llm_c.py compiles and runs it: llm_c_step CHECKPOINT BATCH LENGTH STEPS prints the seconds of
// each step but the first two.
#define TESTING
#include LLM_C_SOURCE

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  GPT2 model;
  gpt2_build_from_checkpoint(&model, argv[1]);
  const int batch = atoi(argv[2]), length = atoi(argv[3]), steps = atoi(argv[4]);
  int* inputs = malloc(sizeof(int) * (size_t)(batch * length));
  int* targets = malloc(sizeof(int) * (size_t)(batch * length));
  for (int step = 0; step < steps + 2; ++step) {
    for (int i = 0; i < batch * length; ++i) {
      inputs[i] = rand() % (int)model.config.vocab_size;
      targets[i] = rand() % (int)model.config.vocab_size;
    }
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    gpt2_forward(&model, inputs, targets, (size_t)batch, (size_t)length);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, step + 1);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (step >= 2)
      printf("seconds %.6f\n",
             (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec));
  }
  return 0;
}
