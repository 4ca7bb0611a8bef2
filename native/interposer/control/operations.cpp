#include "operations.h"

#include <cstring>

#include "../arena/handover.h"
#include "../gate/gate.h"
#include "../generated/real.h"
#include "../profile/profile.h"
#include "../vm/answers.h"
#include "replies.h"

namespace torpor::control {
namespace {

using arena::BlockRecord;
using arena::Failure;
using arena::Handover;
using arena::Moved;

Reply moved_reply(const Moved& moved) {
  Json json(kMaxPayload);
  json.object().field("blocks", moved.blocks).field("bytes", moved.bytes).end_object();
  return done(json);
}

Reply failed(const Failure& failure) {
  if (failure.code == CUDA_SUCCESS) return refused(kBadRequest, failure.message);
  Json json(kMaxPayload);
  std::string message = failure.message + ": " + name_of(failure.code);
  if (failure.bytes_needed != 0) {
    message += " (" + std::to_string(failure.bytes_needed) + " bytes of free device memory needed)";
  }
  json.object().field("message", message);
  if (failure.bytes_needed != 0) json.field("needed", failure.bytes_needed);
  json.end_object();
  return {static_cast<std::int32_t>(failure.code), json.str(), {}};
}

std::uint32_t number_at(const std::string& bytes, std::size_t offset) {
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void append(std::string& bytes, std::uint32_t value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string name_of(CUresult result) {
  const char* name = nullptr;
  if (real::cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return "CUDA error " + std::to_string(static_cast<int>(result));
}

Reply Operations::perform(Packet& request) {
  switch (static_cast<Op>(request.header.op)) {
    case Op::hello:
      return hello();
    case Op::freeze:
      return freeze(request);
    case Op::export_blocks:
      return export_blocks(request);
    case Op::release:
      return release();
    case Op::take_back:
      return take_back(request);
    case Op::thaw:
      return thaw();
    case Op::profile:
      return profile(request);
  }
  return refused(kBadRequest, "unknown operation");
}

Reply Operations::export_blocks(const Packet& request) {
  if (state_ != State::frozen) return refused(kWrongState, "EXPORT needs the frozen state");
  if (request.payload.size() != 8) return refused(kBadRequest, "EXPORT takes two numbers");
  const std::uint32_t first = number_at(request.payload, 0);
  const std::uint32_t count = number_at(request.payload, 4);
  if (count > kMaxDescriptors) return refused(kBadRequest, "at most 64 blocks can be exported at once");
  std::vector<BlockRecord> records;
  Reply reply;
  Failure failure;
  if (!Handover::export_blocks(first, count, records, reply.descriptors, failure)) return failed(failure);
  append(reply.payload, static_cast<std::uint32_t>(Handover::totals().count));
  append(reply.payload, static_cast<std::uint32_t>(records.size()));
  reply.payload.append(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(BlockRecord));
  return reply;
}

Reply Operations::release() {
  if (state_ != State::frozen) return refused(kWrongState, "RELEASE needs the frozen state");
  if (const auto kept = Handover::totals().kept; kept != 0) {
    return refused(kWrongState, std::to_string(kept) + " blocks have not been exported; releasing would lose them");
  }
  Moved moved;
  Failure failure;
  if (!Handover::release_all(moved, failure)) return failed(failure);
  state_ = State::away;
  return moved_reply(moved);
}

Reply Operations::take_back(const Packet& request) {
  if (state_ != State::away) return refused(kWrongState, "RETURN needs the away state");
  if (request.payload.size() < 4) return refused(kBadRequest, "RETURN takes a count and block records");
  const std::size_t count = number_at(request.payload, 0);
  if (count != request.descriptors.size() || request.payload.size() != 4 + count * sizeof(BlockRecord)) {
    return refused(kBadRequest, "RETURN takes one record and one descriptor per block");
  }
  Moved moved;
  for (std::size_t i = 0; i < count; ++i) {
    BlockRecord record;
    std::memcpy(&record, request.payload.data() + 4 + i * sizeof record, sizeof record);
    Failure failure;
    if (!Handover::take_back(record, request.descriptors[i], failure)) return failed(failure);
    ++moved.blocks;
    moved.bytes += record.size;
  }
  if (Handover::totals().away == 0) state_ = State::frozen;
  return moved_reply(moved);
}

Reply Operations::thaw() {
  if (state_ == State::running) return refused(kWrongState, "THAW needs the frozen state");
  if (const auto away = Handover::totals().away; away != 0) {
    return refused(kWrongState, std::to_string(away) + " blocks are away");
  }
  vm::resume_answers();
  profile::woken();
  gate::open();
  state_ = State::running;
  Json json(kMaxPayload);
  return done(json.object().end_object());
}

void Operations::peer_left() {
  if (state_ != State::frozen) return;
  vm::resume_answers();
  profile::woken();
  gate::open();
  state_ = State::running;
}

}  // namespace torpor::control
