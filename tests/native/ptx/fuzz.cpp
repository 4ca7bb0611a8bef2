// Feeds the PTX reader and the linker's join with damaged texts until the time is over, and keeps what they cannot take.
//
//   fuzz SECONDS SEEDS FOUND [RANDOM]
//
// A form feed in a text divides it into the inputs of a linker; what they make together is read as one more text.
// SEEDS is a folder of texts to start from. FOUND is a folder for what is met: `crash-*` and `hang-*` are texts that
// end the reader, `new-*` texts that reach code that no text before them reached. RANDOM makes a run repeatable.
// The work is done in child processes, so that a crash ends one of those. The last line of the output is
// "N executions, N texts, N places, N crashes, N hangs"; the status is 1 when there was a crash or a hang.
//
// Coverage comes from -fsanitize-coverage=trace-pc: the compiler calls a function at every branch of the code under
// test, and pairs of places one after the other are what counts.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "ptx/join.h"
#include "ptx/program.h"

namespace {

constexpr size_t places = 1 << 16, longest = 1 << 16;
constexpr char division = '\f';
constexpr auto patience = std::chrono::seconds(20);  // for one text, sanitizers included
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

// Outlives the children.
struct Shared {
  std::atomic<uint64_t> executions, texts, reached;
  std::atomic<uint32_t> size;
  char text[longest];        // that is being read now
  uint8_t ever[places];      // what was reached by any text
};
Shared* shared;
uint8_t now[places];
uintptr_t before;

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  now[(place ^ before) % places] = 1;
  before = place >> 1;
}

namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::vector<std::string> pool;

  size_t below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void learn(std::string_view text) {
    size_t start = 0;
    for (size_t i = 0; i <= text.size() && words_.size() < 20000; ++i) {
      if (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || std::strchr("_%.$", text[i]))) continue;
      if (i > start) words_.emplace_back(text.substr(start, i - start));
      start = i + 1;
    }
  }

  std::string next() {
    std::string text = pool[below(pool.size())];
    for (size_t changes = 1 + below(1 + below(8)); changes != 0; --changes) change(text);
    if (text.size() > longest) text.resize(longest);
    return text;
  }

 private:
  std::string word() {
    static const char* const sharp[] = {"{", "}", "(", ")", "[", "]", "<", ">", ",", ";", ":", "@", "!", "|", "\"", "/*", "//", "-", "+", "=",
                                        "0", "-1", "1", "31", "64", "65536", "4294967295", "4294967296", "9223372036854775807",
                                        "18446744073709551615", "0x", "0f", "0d", "0f7FC00000", "0d7FF0000000000000", "1e999", "<999999>",
                                        "[1073741824]", "[0]", "[]", "_", ".b128", ".v4", ".v2", ".pred", ".param", ".reg", ".shared"};
    if (words_.empty() || below(3) == 0) return sharp[below(std::size(sharp))];
    return words_[below(words_.size())];
  }

  // The bounds of the word, or of the single sign, at a random place.
  std::pair<size_t, size_t> piece(const std::string& text) {
    size_t start = below(text.size()), end = start;
    const auto inside = [&](size_t i) { return std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_' || text[i] == '%'; };
    while (start > 0 && inside(start - 1) && inside(start)) --start;
    while (end < text.size() && inside(end)) ++end;
    return {start, std::max(end, start + 1) - start};
  }

  // The same of a statement: what lies between two line ends.
  std::pair<size_t, size_t> line(const std::string& text) {
    const size_t at = below(text.size());
    const size_t from = text.rfind('\n', at), to = text.find('\n', at);
    const size_t start = from == std::string::npos ? 0 : from + 1;
    return {std::min(start, at), (to == std::string::npos ? text.size() : to + 1) - std::min(start, at)};
  }

  void change(std::string& text) {
    if (text.empty()) {
      text = word();
      return;
    }
    const auto [place, size] = piece(text);
    switch (below(12)) {
      case 0: text[below(text.size())] = static_cast<char>(below(256)); break;
      case 1: text.erase(place, size); break;
      case 2: text.insert(place, word()); break;
      case 3:
      case 4: text.replace(place, size, word()); break;
      case 5: text.replace(place, size, text.substr(place, size) + "." + word()); break;
      case 6: {
        const auto [from, length] = line(text);
        text.insert(line(text).first, text.substr(from, length));
        break;
      }
      case 7: {
        const auto [from, length] = line(text);
        text.erase(from, length);
        break;
      }
      case 8: {  // a line of another text
        const std::string& other = pool[below(pool.size())];
        if (other.empty()) break;
        const auto [from, length] = line(other);
        text.insert(line(text).first, other.substr(from, length));
        break;
      }
      case 9: {  // the words of two places change places
        const auto [other, other_size] = piece(text);
        const std::string a = text.substr(place, size), b = text.substr(other, other_size);
        if (other < place + size && place < other + other_size) break;
        text.replace(std::max(place, other), place > other ? size : other_size, place > other ? b : a);
        text.replace(std::min(place, other), place > other ? other_size : size, place > other ? a : b);
        break;
      }
      case 10: text.resize(below(text.size()) + 1); break;
      case 11: text += division + pool[below(pool.size())]; break;
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

std::string join(std::string_view text) {
  std::vector<std::string> inputs(1);
  for (const char c : text)
    if (c == division) inputs.emplace_back();
    else inputs.back() += c;
  sim::ptx::Problem problem;
  return sim::ptx::join(inputs, problem);
}

void parse(std::string_view text) {
  sim::ptx::Problem problem;
  const auto program = sim::ptx::parse(text, problem);
  // What the driver side asks of every program that was read.
  if (program) {
    const std::vector<uint64_t> addresses(program->variables.size(), 4096);
    for (size_t i = 0; i < addresses.size(); ++i)
      if (program->variables[i].size < (1u << 24)) program->contents(i, addresses);
  }
}

// True when the text reached something new.
bool read(std::string_view text) {
  std::memset(now, 0, sizeof now);
  before = 0;
  if (text.find(division) == std::string_view::npos) parse(text);
  if (const std::string joined = join(text); !joined.empty()) parse(joined);
  bool fresh = false;
  for (size_t i = 0; i < places; ++i) {
    if (!now[i] || shared->ever[i]) continue;
    shared->ever[i] = 1;
    ++shared->reached;
    fresh = true;
  }
  return fresh;
}

void present(std::string_view text) {
  shared->size = 0;
  std::memcpy(shared->text, text.data(), text.size());
  shared->size = static_cast<uint32_t>(text.size());
  ++shared->executions;
}

[[noreturn]] void child(const fs::path& seeds, const fs::path& found, uint64_t random, Clock::time_point end) {
  Mutator mutator(random);
  for (const fs::path& folder : {seeds, found})
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (folder == found && !entry.path().filename().string().starts_with("new-")) continue;
      std::string text = contents(entry.path());
      if (text.size() > longest) text.resize(longest);
      mutator.learn(text);
      present(text);
      read(text);
      mutator.pool.push_back(std::move(text));
    }
  if (mutator.pool.empty()) mutator.pool.emplace_back();
  while (Clock::now() < end) {
    std::string text = mutator.next();
    present(text);
    if (!read(text)) continue;
    ++shared->texts;
    std::ofstream(found / ("new-" + std::to_string(shared->executions)), std::ios::binary) << text;
    mutator.pool.push_back(std::move(text));
  }
  std::_Exit(0);
}

// Waits for the child; true when it hung and was killed.
bool watch(pid_t pid, int& status) {
  uint64_t seen = 0;
  auto since = Clock::now();
  while (waitpid(pid, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (shared->executions != seen) {
      seen = shared->executions;
      since = Clock::now();
    } else if (Clock::now() - since > patience) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return true;
    }
  }
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    std::fprintf(stderr, "fuzz SECONDS SEEDS FOUND [RANDOM]\n");
    return 2;
  }
  const fs::path seeds = arguments[2], found = arguments[3];
  fs::create_directories(found);
  shared = static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (shared == MAP_FAILED) return 2;
  new (shared) Shared();
  uint64_t random = count > 4 ? std::strtoull(arguments[4], nullptr, 10) : std::random_device()();
  const auto end = Clock::now() + std::chrono::seconds(std::atoi(arguments[1]));
  unsigned crashes = 0, hangs = 0;
  while (Clock::now() < end) {
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) child(seeds, found, random++, end);
    int status = 0;
    const bool hung = watch(pid, status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    const std::string name = (hung ? "hang-" : "crash-") + std::to_string(++(hung ? hangs : crashes));
    std::ofstream(found / name, std::ios::binary).write(shared->text, shared->size);
    std::printf("%s after %llu executions\n", name.c_str(), static_cast<unsigned long long>(shared->executions));
    ++random;
  }
  std::printf("%llu executions, %llu texts, %llu places, %u crashes, %u hangs\n",
              static_cast<unsigned long long>(shared->executions), static_cast<unsigned long long>(shared->texts),
              static_cast<unsigned long long>(shared->reached), crashes, hangs);
  return crashes + hangs == 0 ? 0 : 1;
}
