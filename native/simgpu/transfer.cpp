#include "transfer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <sys/mman.h>

#include "activity.h"
#include "capture.h"
#include "copy_description.h"
#include "print_buffer.h"
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

// A copy whose ends are known.
struct Route {
  Region to, from;
  Extent extent;
  std::shared_ptr<End> target, source;

  Route(const Transfer& asked, const Device& user)
      : to(asked.to),
        from(asked.from),
        extent(asked.extent),
        target(std::make_shared<End>(resolve(to, extent, user))),
        source(std::make_shared<End>(resolve(from, extent, user))) {}

  void operator()(Stream& stream) const {
    if (stream.health->broken()) return;
    Clock::time_point start = Clock::now();
    move_bytes(to, from, extent);
    charge_link(*target, *source, extent.bytes(), start);
  }
};

// `staged` is what the source has become, if that was taken along.
std::function<void(Stream&)> copying(Route route, std::shared_ptr<std::vector<uint8_t>> staged = nullptr) {
  const Device *from = route.source->device, *to = route.target->device;
  Activity what{ActivityKind::copy};
  what.bytes = route.extent.bytes();
  if (from != nullptr) what.from = Place::device;
  if (to != nullptr) what.to = from == nullptr || from == to ? Place::device : Place::other_device;
  return told(std::move(what), [route = std::move(route), staged = std::move(staged)](Stream& stream) { route(stream); });
}

std::function<void(Stream&)> filling(const Region& to, const Extent& extent, Fill with, const Device& user) {
  require(to.address % with.element == 0 && to.pitch % with.element == 0);
  auto target = std::make_shared<End>(resolve(to, extent, user));
  Activity what{ActivityKind::fill};
  what.bytes = extent.bytes();
  return told(std::move(what), [to, extent, with, target](Stream& stream) {
    if (!stream.health->broken()) set_bytes(to, extent, with);
  });
}

// Takes along what has to be read before the call returns.
void stage(Route& route, std::shared_ptr<std::vector<uint8_t>>& staged) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(route.from.address);
  staged = std::make_shared<std::vector<uint8_t>>(bytes, bytes + span_of(route.from, route.extent));
  route.from.address = reinterpret_cast<uint64_t>(staged->data());
}

// What a call that has waited brings along: the work before it may have printed, or gone wrong.
void report(const Context& current, const Stream& stream) {
  current.prints->flush();
  stream.health->check();
}

}  // namespace

std::function<void(Stream&)> resolved(const Transfer& transfer, const Device& user) {
  if (transfer.extent.bytes() == 0) return [](Stream&) {};
  return copying(Route(transfer, user));
}

std::function<void(Stream&)> resolved(const CUDA_MEMSET_NODE_PARAMS& what, const Device& user) {
  require(what.elementSize == 1 || what.elementSize == 2 || what.elementSize == 4);
  require(what.width <= SIZE_MAX / what.elementSize);
  Extent extent{what.width * what.elementSize, what.height, 1};
  if (extent.bytes() == 0) return [](Stream&) {};
  return filling({what.dst, what.pitch, 0, Side::device}, extent, {what.value, what.elementSize}, user);
}

void copy(const Region& to, const Region& from, const Extent& extent, CUstream handle, DefaultStream zero,
          Return when) {
  Begun begun;
  std::shared_ptr<Context> current;
  {
    Section section;
    Lane on = lane(handle, zero);
    current = on.current;
    if (when == Return::after) {
      forbid_captured(*on.stream);
      forbid_unsafe();
    }
    if (extent.bytes() == 0) return;
    Route route({to, from, extent}, on.current->device);
    if (captured(*on.stream, CopyOp{described({to, from, extent}), on.current->handle()})) return;
    std::shared_ptr<std::vector<uint8_t>> staged;
    bool wait = when == Return::after || route.target->pageable || route.source->pageable;
    if (wait && when == Return::at_once && !route.target->pageable && span_of(from, extent) <= staged_at_most) {
      stage(route, staged);
      wait = false;
    }
    auto run = copying(std::move(route), std::move(staged));
    if (!wait) {
      on.stream->submit({std::move(run), on.owner().implied_order(*on.stream)});
      return;
    }
    begun = begin(on.stream, on.owner(), std::move(run));
  }
  begun.finish();
  report(*current, *begun.stream);
}

void fill(const Region& to, const Extent& extent, Fill with, CUstream handle, DefaultStream zero, Return when) {
  Begun begun;
  std::shared_ptr<Context> current;
  {
    Section section;
    Lane on = lane(handle, zero);
    current = on.current;
    if (when == Return::after) forbid_captured(*on.stream);
    if (extent.bytes() == 0) {
      require(to.address % with.element == 0 && to.pitch % with.element == 0);
      return;
    }
    auto run = filling(to, extent, with, on.current->device);
    CUDA_MEMSET_NODE_PARAMS what{to.address, to.pitch, with.value, with.element, extent.width / with.element,
                                 extent.rows};
    if (captured(*on.stream, FillOp{what, on.current->handle()})) return;
    if (when == Return::at_once) {
      on.stream->submit({std::move(run), on.owner().implied_order(*on.stream)});
      return;
    }
    begun = begin(on.stream, on.owner(), std::move(run));
  }
  begun.finish();
  report(*current, *begun.stream);
}

}  // namespace sim
