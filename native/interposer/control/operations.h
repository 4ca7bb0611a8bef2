// The control protocol's operations and the state they walk through. Used by the control thread only.
#pragma once

#include <string>
#include <vector>

#include "../arena/descriptor.h"
#include "packet.h"

namespace torpor::control {

struct Reply {
  std::int32_t status = kDone;
  std::string payload;
  std::vector<Descriptor> descriptors;
};

enum class State { running, frozen, away };
const char* text(State state);

class Operations {
 public:
  // Performs one request. Whatever goes wrong is in the reply; the program runs on.
  Reply perform(Packet& request);

  // The peer is gone: in `frozen` the gate reopens, in `away` everything stays as it is.
  void peer_left();

 private:
  Reply hello() const;
  Reply freeze(const Packet& request);
  Reply export_blocks(const Packet& request);
  Reply release();
  Reply take_back(const Packet& request);
  Reply thaw();
  Reply profile(const Packet& request);

  State state_ = State::running;
};

}  // namespace torpor::control
