// The executable. It sets the environment variables that OpenMP's library reads when it is loaded,
// then loads the commands (libpenstock_cli, main.cpp) and runs them. It links neither OpenMP nor
// libtorch, so `--version` takes no time.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

/// How often a waiting thread checks again before it sleeps: 0.27 ms on a Zen 5 core. GNU OpenMP's
/// default of 300,000 (8 ms) outlasts a time slice: if other programs want the cores too, threads
/// spend their time slices on waiting. docs/performance.md has the measurement.
constexpr const char* kSpinCount = "10000";

/// Sets the number of checks for GNU OpenMP, which reads its environment when it is loaded. A
/// variable of GNU OpenMP's that the user has set for this stays.
void bound_spinning() {
  if (std::getenv("OMP_WAIT_POLICY")) return;
  ::setenv("GOMP_SPINCOUNT", kSpinCount, /*overwrite=*/0);
}

/// Opens the standard descriptors that the program's caller has closed. Otherwise the next opened
/// file would get such a descriptor, and the messages. Standard output is opened for reading only,
/// so that printing to it stays an error.
void fill_closed_streams() {
  for (const int stream : {0, 1, 2})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      ::open("/dev/null", stream == 2 ? O_WRONLY : O_RDONLY);
}

/// Makes malloc's heap grow by 64 MiB at a time, so that large pages can hold it. While libtorch is
/// loaded, it takes tens of megabytes in small blocks. In glibc's steps of 128 KiB each step is a
/// call of the kernel, and each of the small pages a page fault.
void grow_heap_in_large_steps() {
#ifdef M_TOP_PAD
  ::mallopt(M_TOP_PAD, 64 << 20);
#endif
}

/// The addresses that libtorch and its libraries need to be loaded. Where they have fewer, OpenBLAS
/// asks the system for memory again without end, or the process is aborted.
constexpr rlim_t kLeastAddresses = rlim_t{1} << 30;

/// Whether the libraries can be loaded. If not, prints what to do.
bool has_addresses() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= kLeastAddresses) return true;
  std::fprintf(stderr,
               "penstock: the process may have %llu MiB of addresses, and its libraries need 1 GiB "
               "to be loaded; raise the limit, `ulimit -v`\n",
               static_cast<unsigned long long>(limit.rlim_cur >> 20));
  return false;
}

int run(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::puts(PENSTOCK_VERSION);
    return 0;
  }
  if (!has_addresses()) return 1;
  bound_spinning();
  grow_heap_in_large_steps();
  // The executable's RUNPATH finds the library. It is loaded globally, as if it had been linked, so
  // that libtorch's and the operators' libraries see each other's symbols.
  void* commands = ::dlopen(PENSTOCK_COMMANDS, RTLD_LAZY | RTLD_GLOBAL);
  void* entry = commands ? ::dlsym(commands, "penstock_main") : nullptr;
  if (!entry) {
    std::fprintf(stderr, "penstock: the program's library cannot be loaded; install it anew (%s)\n",
                 ::dlerror());
    return 1;
  }
  return reinterpret_cast<int (*)(int, char**)>(entry)(argc, argv);
}

/// Returns 1 and prints the reason if some output could not be written; else returns `exit_code`.
int with_output_checked(int exit_code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !std::ferror(stdout)) return exit_code;
  std::fprintf(stderr, "penstock: standard output cannot be written%s%s\n", errno ? ": " : "",
               errno ? std::strerror(errno) : "");
  return 1;
}

/// Ends the process. A release build does so without the destructors of static objects, because
/// those of libtorch only take time. A debug build runs them, because gcov writes its counts there.
[[noreturn]] void end(int exit_code) {
#ifdef NDEBUG
  ::_exit(exit_code);
#else
  std::exit(exit_code);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  fill_closed_streams();
  end(with_output_checked(run(argc, argv)));
}
