// Threads that allocate, write, copy, check and free without pause, while the test freezes and moves the blocks.
//
// Usage: stress THREADS. Runs until standard input ends; for each byte there, and at the end, prints how many rounds were
// made. Exits with 1 at the first wrong byte or failing call.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "../../../native/abi/cuda_driver.h"

namespace {

std::atomic<bool> g_stop{false};
std::atomic<unsigned long> g_rounds{0};

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s returned %d\n", call, static_cast<int>(result));
  std::_Exit(1);
}
#define CHECK(call) check(call, #call)

struct Piece {
  CUdeviceptr address;
  std::size_t size;
  unsigned char byte;
};

void verify(const Piece& piece) {
  std::vector<unsigned char> host(piece.size);
  CHECK(cuMemcpyDtoH_v2(host.data(), piece.address, piece.size));
  for (std::size_t i = 0; i < piece.size; ++i) {
    if (host[i] == piece.byte) continue;
    std::fprintf(stderr, "byte %zu of %zu at %llx is %d, not %d\n", i, piece.size, piece.address, host[i], piece.byte);
    std::_Exit(1);
  }
}

void work(unsigned seed, CUcontext context) {
  CHECK(cuCtxSetCurrent(context));
  std::mt19937 random(seed);
  std::vector<Piece> pieces;
  while (!g_stop) {
    if (pieces.size() < 8) {
      Piece piece{0, 1 + random() % (random() % 4 ? 9000 : 3 << 20), static_cast<unsigned char>(random())};
      CHECK(cuMemAlloc_v2(&piece.address, piece.size));
      CHECK(cuMemsetD8_v2(piece.address, piece.byte, piece.size));
      pieces.push_back(piece);
    }
    const std::size_t chosen = random() % pieces.size();
    Piece& piece = pieces[chosen];
    CUdeviceptr base = 0;
    std::size_t size = 0;
    CHECK(cuMemGetAddressRange_v2(&base, &size, piece.address + random() % piece.size));
    if (base != piece.address || size != piece.size) {
      std::fprintf(stderr, "range of %llx is %llx + %zu\n", piece.address, base, size);
      std::_Exit(1);
    }
    verify(piece);
    if (random() % 2 != 0) {
      CHECK(cuMemFree_v2(piece.address));
      piece = pieces.back();
      pieces.pop_back();
    }
    ++g_rounds;
  }
  for (const Piece& piece : pieces) {
    verify(piece);
    CHECK(cuMemFree_v2(piece.address));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  CUcontext context = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  std::vector<std::thread> threads;
  for (int i = 0; i < std::atoi(arguments[1]); ++i) threads.emplace_back(work, static_cast<unsigned>(i + 1), context);
  char byte;
  while (::read(0, &byte, 1) > 0) {
    std::printf("%lu\n", g_rounds.load());
    std::fflush(stdout);
  }
  g_stop = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("%lu\n", g_rounds.load());
  return 0;
}
