#include "transfer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <sys/mman.h>

#include "process.h"

namespace sim {

namespace {

// A resolved end: what it touches stays alive with it.
struct End {
  std::vector<AllocationRef> parts;
  Device* device = nullptr;  // null: host
  bool pageable = false;
};

uint64_t span_of(const Region& region, const Extent& extent) {
  return (extent.layers - 1) * region.slice + (extent.rows - 1) * region.pitch + extent.width;
}

void check_pitches(const Region& region, const Extent& extent) {
  constexpr uint64_t most = uint64_t{1} << 48;  // keeps every product below in range
  require(extent.width < most && extent.rows < most && extent.layers < most && region.pitch < most);
  require(extent.rows == 1 || (region.pitch >= extent.width && extent.rows <= most / region.pitch));
  require(extent.layers == 1 || (region.slice < most && extent.layers <= most / std::max<uint64_t>(region.slice, 1)));
  require(extent.layers == 1 || region.slice >= (extent.rows - 1) * region.pitch + extent.width);
}

// Whether the page of an address is part of the process' address space.
bool present(uint64_t address) {
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(address & ~uint64_t{4095}), 1, &resident) == 0;
}

// Memory that the driver does not know is the program's affair, but not when there is none.
void check_pageable(const Region& region, uint64_t size) {
  require(region.side != Side::device);
  for (uint64_t address : {region.address, region.address + size - 1}) {
    AllocationRef known = process().memory.at(address);
    require(!known || !known->on_device());  // a device range that ends too early, or begins too late
    require(!process().virtual_memory.reserved(address) && present(address));
  }
}

End resolve(const Region& region, const Extent& extent, const Device& user) {
  check_pitches(region, extent);
  const uint64_t size = span_of(region, extent);
  require(region.address != 0);
  End end;
  end.parts = process().memory.covering(region.address, size);
  if (end.parts.empty()) {
    check_pageable(region, size);
    end.pageable = true;
    return end;
  }
  for (const AllocationRef& part : end.parts) {
    bool open = part->accessible_from(user) || (part->device != nullptr && part->accessible_from(*part->device));
    require(open);
  }
  const AllocationRef& first = end.parts.front();
  if (first->on_device()) end.device = first->device;
  return end;
}

void charge_link(const End& to, const End& from, uint64_t bytes, Clock::time_point start) {
  if (to.device == from.device) return;
  if (to.device != nullptr) to.device->to_device.carry(bytes, to.device->spec.link, start);
  else from.device->to_host.carry(bytes, from.device->spec.link, start);
}

void move_bytes(const Region& to, const Region& from, const Extent& extent) {
  for (uint64_t layer = 0; layer < extent.layers; ++layer)
    for (uint64_t row = 0; row < extent.rows; ++row)
      std::memmove(reinterpret_cast<void*>(to.address + layer * to.slice + row * to.pitch),
                   reinterpret_cast<const void*>(from.address + layer * from.slice + row * from.pitch), extent.width);
}

void set_bytes(const Region& to, const Extent& extent, Fill with) {
  for (uint64_t row = 0; row < extent.rows; ++row) {
    auto* at = reinterpret_cast<uint8_t*>(to.address + row * to.pitch);
    if (with.element == 1) std::memset(at, static_cast<int>(with.value), extent.width);
    else if (with.element == 2)
      std::fill_n(reinterpret_cast<uint16_t*>(at), extent.width / 2, static_cast<uint16_t>(with.value));
    else std::fill_n(reinterpret_cast<uint32_t*>(at), extent.width / 4, with.value);
  }
}

// Called in a Section, which has to end before `finish`.
Begun begin(const std::shared_ptr<Stream>& stream, Context& context, std::function<void(Stream&)> run) {
  return stream->begin({std::move(run), context.implied_order(*stream)});
}

// The context whose order the stream obeys; a stream handle brings its own.
struct Lane {
  std::shared_ptr<Context> current;
  std::shared_ptr<Stream> stream;
  Context& owner() const { return *stream->context; }
};

Lane lane(CUstream handle, DefaultStream zero) {
  std::shared_ptr<Context> current = current_context();
  std::shared_ptr<Stream> stream = current->stream(handle, zero);
  return {std::move(current), std::move(stream)};
}

constexpr uint64_t staged_at_most = uint64_t{64} << 10;  // what the driver takes along from pageable memory

}  // namespace

void copy(const Region& to, const Region& from, const Extent& extent, CUstream handle, DefaultStream zero,
          Return when) {
  Begun begun;
  {
    Section section;
    Lane on = lane(handle, zero);
    if (extent.bytes() == 0) return;
    auto target = std::make_shared<End>(resolve(to, extent, on.current->device));
    auto source = std::make_shared<End>(resolve(from, extent, on.current->device));
    Region read = from;
    std::shared_ptr<std::vector<uint8_t>> staged;
    bool wait = when == Return::after || target->pageable || source->pageable;
    if (wait && when == Return::at_once && !target->pageable && span_of(from, extent) <= staged_at_most) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(from.address);
      staged = std::make_shared<std::vector<uint8_t>>(bytes, bytes + span_of(from, extent));
      read.address = reinterpret_cast<uint64_t>(staged->data());
      wait = false;
    }
    auto run = [to, read, extent, target, source, staged](Stream&) {
      Clock::time_point start = Clock::now();
      move_bytes(to, read, extent);
      charge_link(*target, *source, extent.bytes(), start);
    };
    if (!wait) {
      on.stream->submit({std::move(run), on.owner().implied_order(*on.stream)});
      return;
    }
    begun = begin(on.stream, on.owner(), std::move(run));
  }
  begun.finish();
}

void fill(const Region& to, const Extent& extent, Fill with, CUstream handle, DefaultStream zero, Return when) {
  Begun begun;
  {
    Section section;
    Lane on = lane(handle, zero);
    require(to.address % with.element == 0 && to.pitch % with.element == 0);
    if (extent.bytes() == 0) return;
    auto target = std::make_shared<End>(resolve(to, extent, on.current->device));
    auto run = [to, extent, with, target](Stream&) { set_bytes(to, extent, with); };
    if (when == Return::at_once) {
      on.stream->submit({std::move(run), on.owner().implied_order(*on.stream)});
      return;
    }
    begun = begin(on.stream, on.owner(), std::move(run));
  }
  begun.finish();
}

}  // namespace sim
