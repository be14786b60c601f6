#include "penstock/dist/open_files.h"

#include <sys/resource.h>

#include <cerrno>

#include "penstock/base/error.h"

namespace penstock::dist {

void raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

bool too_many_open_files(int error) { return error == EMFILE || error == ENFILE; }

std::string open_files_text(int error) {
  if (error == ENFILE)
    return "its machine has too many open files; raise the system's limit, fs.file-max";
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return concat("its process may have ", limit.rlim_cur,
                " open files and has them; raise the hard limit, `ulimit -Hn` or a service's "
                "LimitNOFILE");
}

}  // namespace penstock::dist
