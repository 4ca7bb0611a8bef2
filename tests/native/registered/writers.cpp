// Threads of a program that write to some memory without end, for a test that has pages of it replaced meanwhile.
//
// A library that the program loads: begin() starts them, end() stops them and says how many words are not what was written.
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t kPage = 4096;

struct Writer {
  std::thread thread;
  std::vector<std::uint64_t> written;  // by page: what its word there is
  std::uint64_t wrong = 0, rounds = 0;
};

std::atomic<bool> stopping{false};
std::vector<std::unique_ptr<Writer>> writers;
volatile std::uint64_t* first = nullptr;

volatile std::uint64_t& word(std::uint64_t page, std::uint64_t number) {
  return first[page * kPage / sizeof(std::uint64_t) + number];
}

// Every word is one thread's alone, and neither locked nor atomic: an increment that went to a page that is no longer there is missed.
void write_on(Writer& mine, std::uint64_t number) {
  while (!stopping.load(std::memory_order_relaxed)) {
    for (std::uint64_t page = 0; page < mine.written.size(); page += 1 + (number + mine.rounds) % 3) {
      volatile std::uint64_t& there = word(page, number);
      if (there != mine.written[page]) ++mine.wrong;
      there = ++mine.written[page];
    }
    ++mine.rounds;
  }
}

}  // namespace

extern "C" void begin(void* memory, std::uint64_t pages, unsigned threads) {
  first = static_cast<volatile std::uint64_t*>(memory);
  stopping = false;
  for (unsigned i = 0; i < threads; ++i) {
    Writer& one = *writers.emplace_back(std::make_unique<Writer>());
    one.written.resize(pages);
    for (std::uint64_t page = 0; page < pages; ++page) one.written[page] = word(page, i);
  }
  for (unsigned i = 0; i < threads; ++i) writers[i]->thread = std::thread(write_on, std::ref(*writers[i]), i);
}

extern "C" std::uint64_t end(std::uint64_t* rounds) {
  stopping = true;
  std::uint64_t wrong = 0;
  *rounds = 0;
  for (std::size_t i = 0; i < writers.size(); ++i) {
    Writer& one = *writers[i];
    one.thread.join();
    wrong += one.wrong;
    *rounds += one.rounds;
    for (std::uint64_t page = 0; page < one.written.size(); ++page) wrong += word(page, i) != one.written[page];
  }
  writers.clear();
  return wrong;
}
