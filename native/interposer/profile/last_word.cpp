// What a process has counted when it ends, for whoever has counted it: `$TORPOR_JOB_DIR/profile/<pid>-<clock>.json`.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "../control/busy.h"
#include "../control/packet.h"
#include "../control/replies.h"
#include "../prim/log.h"
#include "../prim/no_size_signal.h"
#include "../prim/thread.h"
#include "profile.h"

namespace torpor::profile {
namespace {

bool written(const std::string& path, const std::string& text) {
  const NoSizeSignal quiet;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool whole = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return ::close(file) == 0 && whole;
}

void write_last_word(const std::string& job) {
  control::Json json(control::kMaxPayload);
  json.object().field("pid", static_cast<std::uint64_t>(::getpid())).field("state", "ended");
  control::write_busy(json);
  control::write_vm(json);
  write_counts(json);
  json.end_object();
  const std::string folder = job + "/profile";
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return log::error("cannot make %s", folder.c_str());
  const std::string path = folder + "/" + std::to_string(::getpid()) + "-" + std::to_string(thread::monotonic_microseconds());
  const std::string partial = path + ".partial";
  if (!json.whole() || !written(partial, json.str()) || std::rename(partial.c_str(), (path + ".json").c_str()) != 0) {
    log::error("cannot write %s; what this process counted last is lost", path.c_str());
    ::unlink(partial.c_str());
  }
}

// Runs after the program's own handlers and destructors, as a rule: they may still call the driver.
__attribute__((destructor)) void end_of_process() {
  if (level() == Level::off || !anything_counted()) return;
  const char* const job = std::getenv("TORPOR_JOB_DIR");
  if (job == nullptr || *job == '\0') return;
  try {
    write_last_word(job);
  } catch (const std::exception& error) {
    log::error("%s; what this process counted last is lost", error.what());
  }
}

}  // namespace
}  // namespace torpor::profile
