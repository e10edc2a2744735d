#ifndef FARANDOLE_TESTS_SIM_SUBMISSION_POOL_H_
#define FARANDOLE_TESTS_SIM_SUBMISSION_POOL_H_

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tests/sim/submission.h"

namespace farandole::sim {

// Memory for the submissions of one process, which are many and short-lived: what is free is used again. The memory
// lives as long as the last of them.
class SubmissionPool {
 public:
  SubmissionPool() : blocks_(new Blocks()) {}
  SubmissionPool(const SubmissionPool&) = delete;
  SubmissionPool& operator=(const SubmissionPool&) = delete;
  ~SubmissionPool() { blocks_->Close(); }

  template <typename... Args>
  std::shared_ptr<Submission> Make(Args&&... args) {
    return std::allocate_shared<Submission>(Allocator<Submission>{blocks_}, std::forward<Args>(args)...);
  }

 private:
  class Blocks {
   public:
    void* Take(size_t bytes) {
      if (free_.empty()) Grow(bytes);
      void* const block = free_.back();
      free_.pop_back();
      return block;
    }
    void Give(void* block) {
      free_.push_back(block);
      if (closed_ && free_.size() == kAtOnce * chunks_.size()) delete this;
    }
    // Nobody takes any more.
    void Close() {
      closed_ = true;
      if (free_.size() == kAtOnce * chunks_.size()) delete this;
    }

   private:
    static constexpr size_t kAtOnce = 32;
    // Of a cache.
    struct alignas(64) Line {
      unsigned char bytes[64];
    };
    void Grow(size_t bytes) {
      const size_t lines = (bytes + sizeof(Line) - 1) / sizeof(Line);
      chunks_.push_back(std::make_unique<Line[]>(kAtOnce * lines));
      for (size_t i = kAtOnce; i > 0; --i) free_.push_back(chunks_.back().get() + (i - 1) * lines);
    }
    std::vector<std::unique_ptr<Line[]>> chunks_;
    std::vector<void*> free_;
    bool closed_ = false;
  };

  // Asked for blocks of one size only.
  template <typename T>
  struct Allocator {
    using value_type = T;
    explicit Allocator(Blocks* blocks) : blocks(blocks) {}
    template <typename U>
    Allocator(const Allocator<U>& o) : blocks(o.blocks) {}
    T* allocate(size_t n) { return static_cast<T*>(blocks->Take(n * sizeof(T))); }
    void deallocate(T* block, size_t) { blocks->Give(block); }
    template <typename U>
    bool operator==(const Allocator<U>& o) const {
      return blocks == o.blocks;
    }
    template <typename U>
    bool operator!=(const Allocator<U>& o) const {
      return blocks != o.blocks;
    }
    Blocks* blocks;
  };

  Blocks* const blocks_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_SUBMISSION_POOL_H_
