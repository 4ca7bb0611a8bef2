// The driver's checkpoint calls, in the process that asks. `pid` is as this process sees the other one.
#include <poll.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "entry.h"
#include "mailbox.h"

using namespace sim;

namespace {

// Whether the process has ended, a zombie included.
bool ended(const Descriptor& pidfd) {
  pollfd entry{pidfd.get(), POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

// Waits for the answer to request `number`; throws CUDA_ERROR_OPERATING_SYSTEM when the process ends instead.
void await(const MappedMailbox& mailbox, const Descriptor& pidfd, uint32_t number) {
  constexpr int look_every_ms = 50;
  for (;;) {
    uint32_t answered = mailbox->answered;
    if (answered == number) return;
    require(!ended(pidfd), CUDA_ERROR_OPERATING_SYSTEM);
    futex_wait(mailbox->answered, answered, look_every_ms);
  }
}

void ask(int pid, const Request& request) {
  Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  require(static_cast<bool>(pidfd));
  MappedMailbox mailbox = MappedMailbox::find(pid);
  // One asks at a time; the lock ends with our descriptor, also when we are killed. A predecessor that was killed may
  // have left its request behind: its answer comes first.
  int locked;
  do locked = flock(mailbox.fd(), LOCK_EX);
  while (locked != 0 && errno == EINTR);
  require(locked == 0, CUDA_ERROR_OPERATING_SYSTEM);
  await(mailbox, pidfd, mailbox->asked);
  mailbox->request = request;
  uint32_t number = ++mailbox->asked;
  futex_wake(mailbox->asked);
  await(mailbox, pidfd, number);
  auto status = static_cast<CUresult>(mailbox->status);
  require(status == CUDA_SUCCESS, status);
}

Request plain(Step step) {
  Request request{};
  request.step = step;
  return request;
}

// Reserved parts of the argument structures must be zero.
template <typename Bytes>
bool zero(const Bytes& bytes) {
  const char* at = reinterpret_cast<const char*>(&bytes);
  return std::all_of(at, at + sizeof bytes, [](char byte) { return byte == 0; });
}

}  // namespace

SIM_API(cuCheckpointProcessGetState, wait, (int pid, CUprocessState* out), (pid, out)) {
  require(out != nullptr);
  *out = static_cast<CUprocessState>(MappedMailbox::find(pid)->state.load());
}

SIM_API(cuCheckpointProcessGetRestoreThreadId, wait, (int pid, int* out), (pid, out)) {
  require(out != nullptr);
  *out = MappedMailbox::find(pid)->thread;
}

SIM_API(cuCheckpointProcessLock, wait, (int pid, CUcheckpointLockArgs* args), (pid, args)) {
  Request request = plain(Step::lock);
  if (args != nullptr) {
    require(zero(args->reserved0) && zero(args->reserved1));
    request.timeout_ms = args->timeoutMs;
  }
  ask(pid, request);
}

SIM_API(cuCheckpointProcessCheckpoint, wait, (int pid, CUcheckpointCheckpointArgs* args), (pid, args)) {
  require(args == nullptr || zero(*args));
  ask(pid, plain(Step::checkpoint));
}

SIM_API(cuCheckpointProcessRestore, wait, (int pid, CUcheckpointRestoreArgs* args), (pid, args)) {
  Request request = plain(Step::restore);
  if (args != nullptr) {
    require(zero(args->reserved) && zero(args->reserved1));
    require(args->gpuPairsCount <= max_devices && (args->gpuPairs != nullptr || args->gpuPairsCount == 0));
    request.pair_count = args->gpuPairsCount;
    for (unsigned i = 0; i < args->gpuPairsCount; ++i) {
      std::memcpy(request.pairs[i][0].data(), args->gpuPairs[i].oldUuid.bytes, sizeof(Uuid));
      std::memcpy(request.pairs[i][1].data(), args->gpuPairs[i].newUuid.bytes, sizeof(Uuid));
    }
  }
  const auto& machine = process().config.machine;
  request.machine_count = static_cast<uint32_t>(machine.size());
  std::copy(machine.begin(), machine.end(), request.machine);
  ask(pid, request);
}

SIM_API(cuCheckpointProcessUnlock, wait, (int pid, CUcheckpointUnlockArgs* args), (pid, args)) {
  require(args == nullptr || zero(*args));
  ask(pid, plain(Step::unlock));
}
