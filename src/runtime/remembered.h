// Operations prepared at first use, by what was asked for. Nothing is ever forgotten. Thread-safe.
#pragma once

#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace kiln {

template <class Key, class Value, class Hash>
class Remembered {
 public:
  // The value of `key`, from `prepare()` at first use. Valid as long as this lives.
  template <class Prepare>
  const Value& get(const Key& key, Prepare prepare) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = values_.find(key); it != values_.end()) return it->second;
    }
    // Prepared outside the lock: a compile must not hold up calls for other keys.
    Value value = prepare();
    const std::unique_lock lock(mutex_);
    return values_.emplace(key, std::move(value)).first->second;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<Key, Value, Hash> values_;
};

}  // namespace kiln
