// Live driver objects by their handle. A handle is the object's address, so a stale or invented one is found out.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "failure.h"

namespace sim {

// Not thread-safe: callers hold the process lock.
template <typename T, typename Handle>
class Registry {
 public:
  Handle add(std::shared_ptr<T> object) {
    Handle handle = reinterpret_cast<Handle>(object.get());
    objects_[handle] = std::move(object);
    return handle;
  }

  // Throws `unknown` when the handle names no live object.
  std::shared_ptr<T> find(Handle handle, CUresult unknown) const {
    auto found = objects_.find(handle);
    require(found != objects_.end(), unknown);
    return found->second;
  }

  // Null when the handle names no live object.
  std::shared_ptr<T> look(Handle handle) const {
    auto found = objects_.find(handle);
    return found != objects_.end() ? found->second : nullptr;
  }

  std::shared_ptr<T> remove(Handle handle, CUresult unknown) {
    std::shared_ptr<T> object = find(handle, unknown);
    objects_.erase(handle);
    return object;
  }

  template <typename Predicate>
  void remove_if(Predicate&& gone) {
    std::erase_if(objects_, [&](const auto& item) { return gone(*item.second); });
  }

  std::vector<std::shared_ptr<T>> all() const {
    std::vector<std::shared_ptr<T>> objects;
    for (const auto& item : objects_) objects.push_back(item.second);
    return objects;
  }

 private:
  std::unordered_map<Handle, std::shared_ptr<T>> objects_;
};

}  // namespace sim
