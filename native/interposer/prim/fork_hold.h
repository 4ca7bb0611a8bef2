// Holding off fork() while descriptors pass through this process.
//
// A child forked in that moment would keep a copy of each, and with it the memory behind it, without anybody knowing the
// number. A descriptor that is noted somewhere before the hold ends can be closed in the child.
#pragma once

namespace torpor {

class ForkHold {
 public:
  // fork() in any thread waits until all such objects are gone. They do not wait for each other, because a process that answers
  // a peer may be asking that peer.
  ForkHold();
  ~ForkHold() { end(); }
  ForkHold(const ForkHold&) = delete;
  ForkHold& operator=(const ForkHold&) = delete;

  // Lets go early; harmless when done twice.
  void end();

 private:
  bool held_ = true;
};

}  // namespace torpor
