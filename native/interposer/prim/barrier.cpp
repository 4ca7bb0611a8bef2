#include "barrier.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "errno_kept.h"
#include "log.h"

namespace torpor {
namespace {

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0U, 0) == 0; }

// Taking a right away from a mapped page makes the kernel interrupt every processor that runs this process, to drop its
// cached translation; on x86-64 the interrupt is a full barrier.
bool shoot_down_translations() {
  constexpr std::size_t kPage = 4096;
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  *static_cast<volatile char*>(page) = 1;
  const bool done = ::mprotect(page, kPage, PROT_NONE) == 0;
  ::munmap(page, kPage);
  return done;
}

}  // namespace

void prepare_barriers() {
  const ErrnoKept kept;
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

void barrier_all_threads() {
  const ErrnoKept kept;
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  if (membarrier(MEMBARRIER_CMD_GLOBAL)) return;
  if (shoot_down_translations()) return;
  log::error("no way to order memory across threads (membarrier and mprotect both failed); a freeze may miss a call");
}

}  // namespace torpor
